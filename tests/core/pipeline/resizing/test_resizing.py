"""Malleable jobs: components join at a growth barrier, give way, and are lost without harm."""

from __future__ import annotations

from dataclasses import replace

import pytest

from koala.core.model.actions import ArmClaim, ClaimProcessors, ReleaseClaim, ResizeClaim, StopClaim
from koala.core.model.allowances import Allowance, user_payer
from koala.core.model.events import (
    AllowancesSet,
    DaemonStarted,
    JobResizeRequested,
    JobSubmitted,
    SiteReported,
)
from koala.core.model.job import EndKind
from koala.core.model.job_spec import Split
from koala.core.model.values import ClaimId, JobId, SiteName, UserName
from koala.policies import chosen
from koala.views.accounting import By, Period, ReportBuilder
from koala.views.barrier import barrier
from koala.views.documents import job_document, timeline
from koala.views.explain import why
from tests.core.conftest import Begin
from tests.harness.builders import a_component, a_job, a_site
from tests.harness.script import Script

FIRST, SECOND, ADDED = "m/1/0/1", "m/1/1/1", "m/1/2/1"


def malleable(name: str, *sizes: int, total: int, least: int, part_max: int = 8) -> JobSubmitted:
    """A malleable job that is placed with components of these sizes."""
    split = Split(
        total=total, least=least, part_max=part_max, part_min=2, parts_max=10, is_malleable=True
    )
    event = a_job(name, *sizes)
    return replace(event, spec=replace(event.spec, split=split))


def resized(job: str, total: int) -> JobResizeRequested:
    """Its owner asks for another total."""
    return JobResizeRequested(job=JobId(job), total=total, by=UserName("ann"))


def running_job(begin: Begin | type[Script]) -> Script:
    """A job that runs with 4 and 4 processors of at most 16; nothing is idle."""
    script = begin().tell(a_site("a", 4), a_site("b", 4)).after(1.0)
    script.tell(malleable("m", 4, 4, total=16, least=4))
    assert script.running("m") == [FIRST, SECOND]
    return script.report("a", 0).report("b", 0)


def grown_job(begin: Begin | type[Script]) -> Script:
    """The same job after a third component has joined at c."""
    script = running_job(begin).after(5.0).tell(a_site("c", 4))
    assert script.claimed("m") == [ADDED]
    script.grant(ADDED).released("m")
    script.passed(ADDED).drop()
    return script.report("c", 0).after(10.0)


@pytest.fixture
def small(begin: Begin) -> Script:
    return running_job(begin)


@pytest.fixture
def grown(begin: Begin) -> Script:
    return grown_job(begin)


def test_idle_processors_join_at_a_barrier_of_their_own(small: Script) -> None:
    small.tell(a_site("c", 6))
    assert small.claimed("m") == [ADDED]
    small.grant(ADDED)
    arm = small.expect(ArmClaim, claim=ADDED)
    assert [(peer.component, peer.processors) for peer in arm.peers] == [(0, 4), (1, 4), (2, 6)]
    small.expect_nothing().arm(ADDED, arm.number)
    small.expect(ReleaseClaim, claim=ADDED, number=arm.number)
    small.expect_nothing().passed(ADDED)
    told = small.take(ResizeClaim)
    assert {(resize.claim, resize.number) for resize in told} == {
        (claim, 1) for claim in (FIRST, SECOND, ADDED)
    }
    assert [peer.component for peer in told[0].peers] == [0, 1, 2]
    assert small.phase("m") == "Running"
    small.exits(FIRST).drop().exits(SECOND).drop().exits(ADDED)
    assert small.drop().phase("m") == "Finished"


def test_a_job_that_begins_takes_at_once_what_became_idle_meanwhile(begin: Begin) -> None:
    script = begin().tell(a_site("a", 4), a_site("b", 4))
    script.tell(malleable("m", 4, 4, total=16, least=4))
    claims = script.started("m")
    script.report("a", 0).report("b", 0).tell(a_site("c", 4)).expect_nothing()
    assert script.passed(*claims).claimed("m") == [ADDED]


def test_all_that_join_are_released_together(small: Script) -> None:
    small.tell_together(a_site("c", 4), a_site("d", 4))
    claims = small.claimed("m")
    assert claims == [ADDED, "m/1/3/1"]
    number = small.grant(ADDED).expect_nothing().grant(claims[1]).armings("m")[0]
    small.arm(ADDED, number).expect_nothing().arm(claims[1], number)
    assert {release.claim for release in small.take(ReleaseClaim)} == set(claims)


@pytest.mark.parametrize("kind", [EndKind.REFUSED, EndKind.LAUNCH, EndKind.HOLD, EndKind.VANISHED])
def test_a_failed_addition_does_not_hurt_the_job(small: Script, kind: EndKind) -> None:
    small.tell(a_site("c", 4))
    small.claimed("m")
    small.gone(ADDED, kind, reason="no luck")
    assert small.phase("m") == "Running"
    assert "goes on without 2 at c" in small.story("m")
    small.drop().exits(FIRST).drop().exits(SECOND)
    assert small.drop().phase("m") == "Finished"


def test_an_addition_lost_after_its_release_is_dropped(small: Script) -> None:
    small.tell(a_site("c", 4))
    small.claimed("m")
    small.grant(ADDED).released("m")
    small.gone(ADDED, EndKind.VANISHED)
    assert small.take(ResizeClaim) == []  # it never was in the world
    assert small.phase("m") == "Running"


def test_an_unanswered_addition_is_stopped_after_its_grace_time(small: Script) -> None:
    small.tell(a_site("c", 4))
    hold = small.expect(ClaimProcessors, claim=ADDED)
    small.at(small.scheduler.ledger[hold.claim].grace_until)
    small.expect(StopClaim, claim=ADDED)


def test_a_new_arming_follows_one_without_an_answer(small: Script) -> None:
    small.tell(a_site("c", 4))
    small.claimed("m")
    small.grant(ADDED)
    first = small.expect(ArmClaim, claim=ADDED)
    small.after(2.0)
    later = small.take(ArmClaim)[-1]
    assert later.number.counter > first.number.counter
    small.arm(ADDED, first.number).expect_nothing().arm(ADDED, later.number)
    small.expect(ReleaseClaim, claim=ADDED, number=later.number)


def test_a_job_may_end_while_it_grows(small: Script) -> None:
    small.tell(a_site("c", 4))
    small.claimed("m")
    small.exits(FIRST).drop().exits(SECOND)
    small.expect(StopClaim, claim=ADDED)
    assert small.phase("m") == "Running"  # until nothing of it is left
    small.gone(ADDED)
    assert small.drop().phase("m") == "Finished"


def test_a_job_whose_components_end_by_themselves_grows_no_more(small: Script) -> None:
    small.exits(FIRST).drop().report("a", 4).tell(a_site("c", 4)).after(20.0)
    assert small.take(ClaimProcessors) == []
    small.exits(SECOND)
    assert small.drop().phase("m") == "Finished"


def test_the_start_of_a_job_is_that_of_the_components_it_began_with(grown: Script) -> None:
    job = grown.scheduler.jobs[JobId("m")]
    report = ReportBuilder(grown.scheduler, By.USER, Period(), grown.now).report()
    shown = barrier(job_document(grown.scheduler, JobId("m")), grown.now)
    assert [arrival.label for arrival in shown.arrivals] == ["0", "1"]
    assert timeline(job).start_skew_s == report["total"]["skew_max_s"] == shown.skew_s == 0
    for claim in (FIRST, SECOND):
        grown.gone(claim, EndKind.VANISHED).drop()
        assert grown.phase("m") == "Running"
        begun_at = timeline(job).started_at
        assert begun_at is not None
        assert float(begun_at) == 1.0


def test_a_site_that_comes_back_is_told_the_release_and_the_world(grown: Script) -> None:
    wanted = grown.scheduler.wanted(SiteName("c"))
    assert (len(wanted.releases), len(wanted.resizes)) == (1, 1)
    (release,), (resize,) = wanted.releases, wanted.resizes
    first = grown.scheduler.wanted(SiteName("a")).releases[0]
    assert release.number.counter > first.number.counter  # of its own barrier
    assert (resize.number, len(resize.peers)) == (1, 3)


def test_who_joins_hears_of_no_world_before_all_of_the_growth_have_passed(small: Script) -> None:
    """Else the number of the last change would name another world than it did, without those
    whose pass is not known yet."""
    small.tell_together(a_site("c", 4), a_site("d", 4))
    claims = small.claimed("m")
    small.grant(*claims).released("m")
    small.passed(claims[0]).gone(SECOND, EndKind.VANISHED)
    assert {resize.claim for resize in small.take(ResizeClaim)} == {FIRST}
    assert small.scheduler.wanted(SiteName("c")).resizes == ()
    small.passed(claims[1])
    told = small.take(ResizeClaim)
    assert {resize.claim for resize in told} == {FIRST, *claims}
    assert {resize.number for resize in told} == {2}


def test_a_daemon_that_starts_again_goes_on_with_a_growth(small: Script) -> None:
    small.tell(a_site("c", 4))
    small.claimed("m")
    small.tell(DaemonStarted(epoch=2), a_site("a", 4), a_site("b", 4), a_site("c", 4)).drop()
    small.report("a", 0).report("b", 0).report("c", 0).drop()
    small.grant(ADDED).released("m")
    small.passed(ADDED)
    assert len(small.take(ResizeClaim)) == 3


def test_a_lost_component_is_left_out_while_enough_are_left(grown: Script) -> None:
    grown.gone(SECOND, EndKind.VANISHED)
    assert grown.phase("m") == "Running"
    assert {len(resize.peers) for resize in grown.take(ResizeClaim)} == {2}
    grown.gone(FIRST, EndKind.EXITED, statuses=(1,)).drop()
    assert grown.phase("m") == "Running"  # 4 of at least 4
    grown.gone(ADDED, EndKind.EXITED, statuses=(1,)).drop()
    assert grown.phase("m") == "Failed"


def test_who_leaves_is_not_among_those_that_are_left(grown: Script) -> None:
    """As where an administrator cancels all: the job is not Finished when the last one has left."""
    grown.tell(resized("m", 8)).drop()
    grown.gone(FIRST, EndKind.SITE)
    assert grown.drop().phase("m") == "Running"
    grown.gone(SECOND, EndKind.SITE).drop().exits(ADDED).drop()
    assert grown.phase("m") != "Finished"
    assert "back in its placement queue" in grown.story("m")


@pytest.mark.parametrize(
    ("limit_s", "phase"), [(60.0, "Failed"), (600.0, "Running"), (None, "Running")]
)
def test_a_job_ends_at_the_limit_that_it_asked_for(
    begin: Begin, limit_s: float | None, phase: str
) -> None:
    """A shorter one of a site costs it a component."""
    script = begin().tell(a_site("a", 4), a_site("b", 4)).after(1.0)
    event = malleable("m", 4, 4, total=16, least=4)
    parts = tuple(replace(part, wall_time_s=limit_s) for part in event.spec.components)
    script.tell(replace(event, spec=replace(event.spec, components=parts))).running("m")
    script.after(60.0).gone(FIRST, EndKind.WALL_TIME, reason="60 s")
    assert script.drop().phase("m") == phase


def test_a_job_does_not_grow_again_and_again_where_its_program_fails(grown: Script) -> None:
    pauses = []
    for component in range(2, 8):
        grown.exits(f"m/1/{component}/1", 3).drop().report("c", 4)
        begun_at, later = grown.now, ClaimId(f"m/1/{component + 1}/1")
        told = why(grown.scheduler, JobId("m"), grown.now)
        assert told[-1].endswith("its program failed there (exit status 3)"), told
        while later not in grown.scheduler.ledger:
            grown.after(1.0)
        pauses.append(grown.now - begun_at)
        assert grown.claimed("m") == [later]
        grown.grant(later).released("m")
        grown.passed(later).drop().report("c", 0).after(1.0)
    assert pauses == [2, 9, 9, 16, 32, 64]
    assert grown.phase("m") == "Running"


def test_a_waiting_job_makes_the_newest_component_give_way(grown: Script) -> None:
    grown.tell(a_job("w", 4))
    told = grown.take(ResizeClaim)
    assert {resize.claim: resize.leave_s for resize in told} == {
        FIRST: None,
        SECOND: None,
        ADDED: 60.0,
    }
    (leaver,) = [resize for resize in told if resize.claim == ADDED]
    assert [peer.component for peer in leaver.peers] == [0, 1, 2]
    assert {len(resize.peers) for resize in told if resize is not leaver} == {2}
    grown.exits(ADDED, 3)  # however it ends
    assert "goes on without 2 at c: it gave way" in grown.story("m")
    grown.expect_nothing().report("c", 4)
    assert grown.claimed("w") == ["w/1/0/1"]
    assert grown.phase("m") == "Running"


def test_the_oldest_component_gives_way_to_a_job_that_names_its_site(grown: Script) -> None:
    grown.tell(a_job("w", a_component(4, "a")))
    leavers = [resize.claim for resize in grown.take(ResizeClaim) if resize.leave_s]
    assert leavers == [FIRST]


def test_who_does_not_give_way_in_time_is_stopped(grown: Script) -> None:
    grown.tell(a_job("w", 4)).drop().after(59.0).expect_nothing().after(1.0)
    grown.expect(StopClaim, claim=ADDED)
    grown.gone(ADDED).drop()
    assert grown.phase("m") == "Running"


def test_no_job_gives_way_below_its_least_processors(begin: Begin) -> None:
    script = begin().tell(a_site("a", 4), a_site("b", 4))
    script.tell(malleable("m", 4, 4, total=16, least=8)).running("m")
    script.report("a", 0).report("b", 0).tell(a_job("w", 4))
    script.expect_nothing()


def test_nobody_gives_way_where_running_jobs_come_first(begin: Begin) -> None:
    script = begin(resize_first="running").tell(a_site("a", 4), a_site("b", 4))
    script.tell(malleable("m", 4, 4, total=12, least=4)).running("m")
    script.report("a", 0).report("b", 0).tell(a_job("w", 4)).expect_nothing()
    script.tell(a_site("c", 4))
    assert script.claimed("m") == [ADDED]  # before the one that waits


def test_a_job_in_a_reservation_grows_there_alone_and_gives_way_to_nobody_else(
    begin: Begin,
) -> None:
    def inside(idle: int) -> SiteReported:
        rooms = (("course", idle),)
        return SiteReported(site=SiteName("a"), idle=8, through=9, reservations=rooms)

    script = begin().tell(a_site("a", 16, honours=("reservation",), idle=8), inside(8))
    event = malleable("m", 8, total=12, least=4)
    parts = tuple(replace(part, reservation="course") for part in event.spec.components)
    script.tell(replace(event, spec=replace(event.spec, components=parts)))
    assert script.running("m") == [FIRST]
    script.tell(inside(0)).after(10.0).expect_nothing()
    script.tell(a_job("w", 12)).expect_nothing()
    script.tell(inside(4))
    assert script.claimed("m") == [SECOND]


def test_no_job_grows_while_it_can_make_room(grown: Script) -> None:
    grown.tell(a_job("w", 8)).drop()  # fits nowhere, whoever gives way
    grown.tell(a_site("d", 2))
    assert grown.claimed("m") == ["m/1/3/1"]


def test_a_job_grows_no_further_than_its_user_may(begin: Begin) -> None:
    limit = AllowancesSet(allowances=((user_payer(""), Allowance(processors=10)),))
    script = begin().tell(limit, a_site("a", 4), a_site("b", 4))
    script.tell(malleable("m", 4, 4, total=16, least=4)).running("m")
    script.report("a", 0).report("b", 0).tell(a_site("c", 8))
    assert script.expect(ClaimProcessors, claim=ADDED).processors == 2


def test_equal_shares_for_all_that_run(begin: Begin) -> None:
    script = begin(chosen(resizing="EGS")).tell(a_site("a", 4), a_site("b", 4))
    for name in ("m", "n"):
        script.tell(malleable(name, 4, total=4, least=4)).running(name)
    script.report("a", 0).report("b", 0).tell(*[resized(name, 16) for name in ("m", "n")])
    script.tell(a_site("c", 7))
    asked = {hold.claim[0]: hold.processors for hold in script.take(ClaimProcessors)}
    assert asked == {"m": 4, "n": 3}


def test_another_total_makes_components_leave_and_come(grown: Script) -> None:
    grown.tell(resized("m", 1))  # below its least: as far down as that
    leaving = [r.claim for r in grown.take(ResizeClaim) if r.leave_s is not None]
    assert leaving == [SECOND, ADDED]
    grown.exits(ADDED).drop().exits(SECOND).drop().tell(resized("m", 8))
    grown.report("b", 4).report("c", 4).after(10.0)
    assert grown.expect(ClaimProcessors, claim="m/1/3/1").processors == 4
    grown.unchanged_by(resized("m9", 3))


def test_users_are_told_who_comes_and_goes(grown: Script) -> None:
    assert grown.picture("m")["size"]["words"] == ["has 12 of 16 processors, and keeps at least 4"]
    grown.tell(resized("m", 8)).drop()
    size = grown.picture("m")["size"]
    assert (size["processors"], size["leaving"]) == (12, ["2"])
    assert size["words"][1] == "component 2 at c (4) is asked to give way"
    grown.exits(ADDED).drop().tell(resized("m", 16)).report("c", 4).after(10.0)
    assert grown.picture("m")["processors"] == 12  # what it counts for, with what joins
    (line,) = grown.picture("m")["size"]["words"][1:]
    assert line == "component 3 at c (4) joins: its claim waits for processors"
    grown.claimed("m")
