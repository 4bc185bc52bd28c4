"""Jobs with a required start (Deadlines 2.2): when they are tried, started and given up."""

from __future__ import annotations

import pytest

from koala.core.model.actions import (
    ArmClaim,
    CancelTransfer,
    ClaimProcessors,
    PublishOutputs,
    StartTransfer,
    StopClaim,
)
from koala.core.model.events import DaemonStarted, TransferFailed
from koala.core.model.job import EndKind
from koala.core.model.job_spec import Deadline
from koala.core.model.timeline import considered_at, next_try_at, tries
from koala.core.model.timers import TimerKind
from koala.core.model.values import JobId, Priority, TransferId
from koala.core.pipeline.queue_entry import TIMER_S_MAX
from koala.core.snapshot import save
from koala.views.explain import why
from tests.core.conftest import Begin
from tests.core.deadlines import LONG_WAIT, D
from tests.harness.builders import FREE, LOOSE, a_component, a_job, a_site
from tests.harness.script import Script

# --- the arithmetic ---


def test_the_tries_come_closer_to_the_deadline_and_are_limited() -> None:
    """PT(m+1) = PT(m) + Lp (D - PT(m)): 70, 91, 97.3 ..."""
    found = tries(0, 100, fraction=0.7, tries_max=2)
    assert found == pytest.approx((70, 91, 97.3))
    assert tries(0, 100, fraction=0.7, tries_max=2, ends_at_deadline=True) == (*found, 100)


def test_a_try_too_close_to_the_deadline_is_the_try_at_the_deadline() -> None:
    assert next_try_at(100 - 2e-9, 100, fraction=0.6) == 100
    assert next_try_at(100 - 2e-9, 100, fraction=0.4) < 100
    assert next_try_at(90, 100, fraction=0.5, step_min_s=6) == 100
    assert tries(0, 100, fraction=1, tries_max=10) == (100,)


def test_wait_x_ignores_a_job_until_shortly_before_its_deadline() -> None:
    assert considered_at(0, 100, wait_s=10) == 90
    assert considered_at(95, 100, wait_s=10) == 95
    assert considered_at(3, 100, wait_s=float("inf")) == 3
    assert tries(considered_at(0, 100, wait_s=0), 100, fraction=0.7, tries_max=10) == (100,)


# --- the way to the start ---


def test_a_job_is_claimed_at_its_instants_and_starts_at_its_deadline(begin: Begin) -> None:
    """X = 3 x 5 s: T = 85, tries at 85 + 0.7 * 13 = 94.1 and at 98; T of the barrier is D."""
    script = begin()
    script.tell(a_site("a"), a_site("b"), a_job("j", 4, 6, deadline=D)).expect_nothing()
    script.at(94).expect_nothing()
    assert script.phase("j") == "Placing"
    script.at(95)
    assert [script.expect(ClaimProcessors, at=94.1).site for _ in range(2)] == ["b", "a"]
    script.grant("j/1/0/1", "j/1/1/1")
    assert script.phase("j") == "Starting"
    script.at(99).expect_nothing()
    arms = script.at(99.96).take(ArmClaim)
    assert [arm.release_at for arm in arms] == [100, 100]
    assert [arm.late_s for arm in arms] == pytest.approx([2.05, 2.05])


def test_a_job_runs_and_ends_like_any_other(begin: Begin) -> None:
    script = begin().ignore(PublishOutputs)
    script.tell(a_site("a"), a_job("j", 4, deadline=Deadline(after_s=100)))
    script.at(95)
    script.grant(*script.claimed("j"))
    script.at(99.96).released("j")
    script.at(100).passed("j/1/0/1").at(150).exits("j/1/0/1")
    assert script.phase("j") == "Finished"
    assert script.picture("j")["timeline"]["start_lateness_s"] == 0


def test_a_try_claims_all_components_or_none(begin: Begin) -> None:
    """At 49 there is room for one of two; at 73.5 for both."""
    script = begin(**LONG_WAIT)
    script.tell(a_site("a", idle=3), a_site("b", idle=8), a_job("j", 8, 4, deadline=D))
    script.at(50).expect_nothing()
    assert script.phase("j") == "Claiming"
    script.report("a", 8).at(73).expect_nothing()
    script.at(74)
    assert [script.expect(ClaimProcessors, at=73.5).site for _ in range(2)] == ["a", "b"]


def test_processors_that_come_free_between_tries_are_not_taken_before_the_next(
    begin: Begin,
) -> None:
    script = begin(**LONG_WAIT)
    script.tell(a_site("a", idle=0), a_job("j", 8, deadline=D)).at(60).report("a", 8)
    script.expect_nothing()


def test_a_refused_component_is_claimed_again_at_the_next_try_elsewhere(begin: Begin) -> None:
    script = begin(**LONG_WAIT)
    script.tell(a_site("a"), a_site("b"), a_job("j", 8, deadline=D)).at(49)
    script.expect(ClaimProcessors, claim="j/1/0/1", site="a")
    script.report("a", 0).refuse("j/1/0/1").at(73).expect_nothing()
    script.at(73.5).expect(ClaimProcessors, claim="j/1/0/2", site="b")


def test_a_job_fails_after_its_last_try(begin: Begin) -> None:
    """Mp = 2: three tries, 49, 73.5 and 85.75, and none at the deadline."""
    script = begin(deadline_tries_max=2, **LONG_WAIT)
    script.tell(a_site("a", idle=0), a_job("j", 8, deadline=D)).at(85.7)
    assert script.phase("j") == "Claiming"
    script.at(85.8)
    assert script.phase("j") == "Failed"
    assert "not claimed in 3 tries before its deadline: 0 at no site" in script.reason("j")


def test_the_last_try_is_judged_when_it_is_answered(begin: Begin) -> None:
    """Asked at 98, granted at 99: it starts on time. Silence fails the job at 102 at the latest."""
    for is_granted in (True, False):
        script = begin()
        script.tell(a_site("a", idle=0), a_job("j", 4, deadline=D)).at(95).report("a", 8).at(98)
        script.expect(ClaimProcessors, at=98)
        script.at(99)
        if is_granted:
            script.grant("j/1/0/1").at(99.96).released("j")
        else:
            script.at(101.9)
            assert script.phase("j") == "Claiming"
            script.at(102).expect(StopClaim)
            assert "deadline missed by more than 2 s: not claimed: 0 at a" in script.reason("j")


def test_a_job_that_did_not_arm_starts_late_or_not_at_all(begin: Begin) -> None:
    """Rounds with T = 100, 100.1, 100.3, 100.7: D of each Arm stays at 102. One that would leave
    the last Release no time is not begun.
    """
    script = begin()
    script.tell(a_site("a"), a_job("j", 4, deadline=D)).at(95).grant(*script.claimed("j"))
    ends: list[tuple[float, float]] = []
    while script.phase("j") == "Starting":
        script.after(0.05)
        ends += [
            (round(script.now + arm.late_s, 1), arm.release_at) for arm in script.take(ArmClaim)
        ]
    assert all(end == 102 and 100 <= release_at < 102 for end, release_at in ends)
    assert len(ends) > 3
    assert "deadline missed: not armed in" in script.reason("j")
    script.drop()


def test_a_job_is_late_but_not_by_more_than_it_may_be(begin: Begin) -> None:
    """Submitted at its deadline, it is tried at once and released as soon as it can be."""
    script = begin()
    script.tell(a_site("a"), a_job("j", 4, deadline=Deadline(after_s=0)))
    claims = script.claimed("j")
    script.at(0.5).grant(*claims)
    number, claims = script.armings("j")
    script.arm(claims[0], number)
    release = script.job("j").release
    assert release is not None
    assert release.at == pytest.approx(0.55)
    script.drop()


def test_a_job_is_held_no_longer_than_its_hold_allows(begin: Begin) -> None:
    """X is cut to maxHold less the time of arming: 60 - 4 s before the deadline."""
    script = begin(wait_s=1e9, deadline_fraction=0.001, claiming_step_min_s=0.001)
    script.tell(a_site("a", grace_s=0.01), a_job("j", 4, deadline=D, max_hold_s=60.0)).at(43.9)
    script.expect_nothing()
    claim = script.at(44.1).expect(ClaimProcessors)
    assert claim.hold_s == 60
    script.drop()


def test_sites_that_the_job_may_not_use_do_not_say_when_it_is_tried(script: Script) -> None:
    """X is three of the largest grace of its own sites."""
    others = a_site("b", grace_s=20.0, owner="bob")
    script.tell(a_site("a"), others, a_job("j", 4, deadline=D)).at(94).expect_nothing()
    script.at(95).expect(ClaimProcessors, at=94.1, site="a")


def test_a_site_with_a_longer_grace_lets_tries_begin_earlier(begin: Begin) -> None:
    """It registers when the job waits already; one that only comes back sets no timer again."""
    script = begin()
    script.tell(a_site("a", idle=0), a_job("j", 4, deadline=D)).tell(a_site("b", grace_s=20.0))
    claim = script.at(81).expect(ClaimProcessors, site="b")  # 100 - 60 + 0.7 * 58 = 80.6
    assert claim.claim == "j/1/0/1"
    script = begin()
    script.tell(a_site("a"), a_job("j", 4, deadline=D))
    for _ in range(5):
        script.disconnect("a").tell(a_site("a"))
    waits = [timer for timer in script.scheduler.timers._heap if timer.kind is TimerKind.TRY]
    assert len(waits) == 1
    script.at(95).expect(ClaimProcessors)


def test_a_daemon_that_allows_more_lateness_waits_longer(begin: Begin) -> None:
    script = begin(bandwidth_default_bps=100.0).ignore(StartTransfer)
    script.tell(a_site("a", idle=0), a_site("b")).replica("f", "a", 1000)
    script.tell(a_job("j", 4, file="f", deadline=D)).change(late_max_s=5.0).at(95)
    script.grant(*script.claimed("j")).at(104.9)
    assert script.phase("j") == "Starting"
    script.at(105)
    assert "deadline missed by more than 5 s" in script.reason("j")
    script.drop()


def test_a_deadline_that_passes_while_a_job_is_delayed_fails_it(begin: Begin) -> None:
    script = begin(queue_jobs_max=1)
    script.tell(a_site("a", idle=0), a_job("first", 8), a_job("j", 1, deadline=D))
    assert script.phase("j") == "Delayed"
    script.at(103)
    assert "deadline missed by more than 2 s: it was delayed" in script.reason("j")


def test_a_deadline_that_is_past_when_the_job_comes_fails_it(script: Script) -> None:
    """A submission is refused then; one that waited for the daemon to come back is not."""
    script.tell(a_site("a")).at(102.5).tell(a_job("j", 4, deadline=D))
    assert "deadline missed by more than 2 s: it was not placed" in script.reason("j")


# --- beside other jobs ---


def test_jobs_that_are_over_leave_no_timers_until_their_deadlines(script: Script) -> None:
    """Else a user who submits and cancels would fill the daemon's memory, and its saved states."""
    script.tell(a_site("a"))
    for number in range(100):
        script.tell(a_job(f"j{number}", 4, deadline=Deadline(at=1e9))).cancel(f"j{number}")
    script.at(2 * TIMER_S_MAX)
    assert script.scheduler.wake_at is None


def test_starts_of_the_daemon_leave_no_timers(script: Script) -> None:
    """One more for each job that waits, at each start, is a lot where it starts again and again."""
    script.tell(a_site("a"), a_job("j", 4, deadline=Deadline(at=1e9)))
    for epoch in range(2, 40):
        script.tell(DaemonStarted(epoch=epoch)).change()
    assert str(save(script.scheduler)["parts"]["timers"]).count("'try'") == 1


def test_a_deadline_that_is_days_away_is_kept_and_missed(begin: Begin) -> None:
    day_s = 86_400.0
    script = begin().tell(a_site("a"), a_job("j", 4, deadline=Deadline(at=3 * day_s)))
    script.at(3 * day_s - 4).expect(ClaimProcessors, claim="j/1/0/1", at=3 * day_s - 5.9)
    script.at(3 * day_s + 2).drop()
    assert "deadline missed" in script.reason("j") or "not claimed" in script.reason("j")
    late = begin().tell(a_job("j", 4, deadline=Deadline(at=3 * day_s))).at(3 * day_s + 2.1).drop()
    assert late.phase("j") == "Failed"


def test_others_pass_a_job_that_waits_for_its_deadline(begin: Begin) -> None:
    """It stands in no queue that a discipline visits, and does not hold the door when it ages."""
    script = begin(ageing_s=5.0)
    script.tell(a_site("a"), a_job("j", 8, deadline=D)).at(50)
    script.tell(a_job("other", 8)).running("other")


def test_a_job_whose_time_has_come_leaves_its_place_to_one_that_was_delayed(begin: Begin) -> None:
    script = begin(queue_jobs_max=1, **LONG_WAIT)
    script.tell(a_site("a", idle=0), a_job("j", 8, deadline=D), a_job("later", 1))
    assert script.phase("later") == "Delayed"
    script.at(49)
    assert script.phase("later") == "Placing"


def test_setback_before_the_deadline_leaves_the_tries_that_are_left(begin: Begin) -> None:
    script = begin(**LONG_WAIT)
    script.tell(a_site("a"), a_site("b"), a_job("j", 4, deadline=D)).at(49)
    script.grant(*script.claimed("j")).gone("j/1/0/1", EndKind.VANISHED, reason="node lost")
    assert script.phase("j") == "Placing"
    script.at(73).expect_nothing()
    script.at(73.5).expect(ClaimProcessors, claim="j/2/0/1")


def test_a_setback_after_the_last_try_fails_the_job(begin: Begin) -> None:
    script = begin()
    script.tell(a_site("a"), a_job("j", 4, deadline=D)).at(95)
    script.grant(*script.claimed("j")).at(99)
    script.gone("j/1/0/1", EndKind.SITE, reason="drained")
    script.expect(ClaimProcessors, claim="j/2/0/1", at=99)  # that of 98, which nobody needed then
    script.gone("j/2/0/1", EndKind.SITE, reason="drained")
    assert "drained; no try is left for its deadline" in script.reason("j")


def test_a_job_that_had_started_is_not_started_again(begin: Begin) -> None:
    """A later start is not what was asked for: `retry` does not help, nor does a lost site."""
    script = begin(**LONG_WAIT)
    script.tell(a_site("a"), a_job("j", 4, deadline=D, retries=3)).at(49).grant(
        *script.claimed("j")
    )
    script.at(99.96).released("j")
    script.at(100).passed("j/1/0/1").at(120).exits("j/1/0/1", 1)
    assert script.phase("j") == "Failed"
    assert script.reason("j") == "component 0 at a: exit status 1"
    assert script.picture("j")["status"] == 1


@pytest.fixture
def preempted(begin: Begin) -> Script:
    """j started at its deadline; then its processors were taken for high, which was placed while
    they seemed idle and waits for its file."""
    script = begin(bandwidth_default_bps=10.0, **LONG_WAIT).ignore(StartTransfer, CancelTransfer)
    script.tell(a_site("home", 1), a_site("a", 8, starts_after_stop=True))
    script.replica("data", "home", 10).tell(a_job("j", 4, 4, deadline=D)).at(49)
    script.grant(*script.claimed("j")).at(99.96).released("j")
    script.at(100).passed("j/1/0/1", "j/1/1/1").report("a", 8)
    script.tell(a_job("high", 8, priority=Priority.HIGH, file="data")).report("a", 0).at(101)
    assert {stop.claim for stop in script.take(StopClaim)} == {"j/1/0/1", "j/1/1/1"}
    return script.drop()


def test_a_started_job_that_ended_well_before_its_stop_has_met_its_deadline(
    preempted: Script,
) -> None:
    """The word of its end was on its way while another job took its processors."""
    assert preempted.phase("j") == "Stopping"
    preempted.exits("j/1/0/1")
    assert preempted.phase("j") == "Stopping"
    preempted.exits("j/1/1/1").expect(PublishOutputs, job="j", attempt=1)
    assert preempted.phase("j") == "Finished"
    assert preempted.job("j").setbacks == []


def test_a_started_job_that_was_stopped_has_failed_once_all_of_it_is_gone(
    preempted: Script,
) -> None:
    preempted.exits("j/1/0/1").gone("j/1/1/1").expect_nothing()
    assert preempted.phase("j") == "Failed"
    assert preempted.reason("j") == "preempted by high; no try is left for its deadline"


def test_an_optional_component_may_be_missing(begin: Begin) -> None:
    script = begin(**LONG_WAIT)
    loose = a_component(8, start_type=LOOSE)
    script.tell(a_site("a", idle=4), a_job("j", loose, 4, deadline=D)).at(49)
    script.expect(ClaimProcessors, claim="j/1/1/1")


# --- files ---


def test_a_file_travels_long_before_the_deadline_and_nothing_is_claimed(begin: Begin) -> None:
    script = begin(bandwidth_default_bps=100.0).heed(StartTransfer)
    script.tell(a_site("a", idle=0), a_site("b")).replica("f", "a", 1000)
    script.tell(a_job("j", 4, file="f", deadline=D))
    script.expect(StartTransfer, at=0, target="b")
    script.at(94).fetched("j/1/t1").expect_nothing()
    script.at(95).expect(ClaimProcessors, at=94.1, site="b")


def test_a_job_goes_only_where_its_file_can_be_by_the_deadline(begin: Begin) -> None:
    """1000 bytes at 5 a second would take 200 s; the site with the replica has no room yet."""
    script = begin(bandwidth_default_bps=5.0).heed(StartTransfer)
    script.tell(a_site("a", idle=0), a_site("b")).replica("f", "a", 1000)
    script.tell(a_job("j", 4, file="f", deadline=D)).at(60).expect_nothing()
    assert "its input file is not on its way" in why(script.scheduler, JobId("j"), 60.0)[1]
    script.report("a", 8).at(94.1).expect(ClaimProcessors, site="a")


def test_a_file_that_comes_too_late_fails_the_job(begin: Begin) -> None:
    script = begin(bandwidth_default_bps=100.0).ignore(StartTransfer)
    script.tell(a_site("a", idle=0), a_site("b")).replica("f", "a", 1000)
    script.tell(a_job("j", 4, file="f", deadline=D)).at(95).grant(*script.claimed("j"))
    script.at(101.9)
    assert script.phase("j") == "Starting"
    script.at(102)
    assert "deadline missed by more than 2 s: no input file yet: 0 at b" in script.reason("j")
    script.drop()


def test_a_copy_that_broke_is_made_again_before_the_deadline(begin: Begin) -> None:
    script = begin(bandwidth_default_bps=100.0).heed(StartTransfer)
    script.tell(a_site("a", idle=0), a_site("b")).replica("f", "a", 1000)
    script.tell(a_job("j", 4, file="f", deadline=D)).expect(StartTransfer)
    script.at(5).tell(TransferFailed(transfer=TransferId("j/1/t1"), at=None, reason="broke"))
    script.expect(CancelTransfer, transfer="j/1/t1")
    script.at(7).expect(StartTransfer, target="b")


# --- explanations ---


def test_why_says_when_the_next_try_is_and_how_many_are_left(begin: Begin) -> None:
    script = begin(**LONG_WAIT)
    script.tell(a_site("a", idle=0), a_job("j", 8, deadline=D))
    (line,) = why(script.scheduler, JobId("j"), 0.0)
    assert line == "is to start at its deadline, in 100 s; next try in 49 s, 4 more after it"
    script.at(60)
    lines = why(script.scheduler, JobId("j"), 60.0)
    assert "is to start at its deadline, in 40 s; next try in 14 s, 3 more after it" in lines
    assert script.picture("j")["deadline"] == {
        "deadline_at": 100.0,
        "next_try_at": 73.5,
        "tries_left": 4,
    }


def test_components_without_a_barrier_make_no_exception(begin: Begin) -> None:
    """Refused by admission; the core, should one come, does not start it again."""
    script = begin(**LONG_WAIT)
    script.tell(a_site("a"), a_job("j", a_component(4, start_type=FREE), deadline=D)).at(49)
    script.grant(*script.claimed("j")).gone("j/1/0/1", EndKind.VANISHED)
    assert script.phase("j") == "Failed"
