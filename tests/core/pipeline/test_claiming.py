"""Claiming tries, their limits, re-placement and preemption (KOALA 3.2, 3.3)."""

from __future__ import annotations

from typing import Any

import pytest

from koala.common.protocol.messages import HeldFile
from koala.core.model.actions import (
    ArmClaim,
    CancelTransfer,
    ClaimProcessors,
    PublishOutputs,
    StartTransfer,
    StopClaim,
)
from koala.core.model.allowances import user_payer
from koala.core.model.events import SiteDisconnected, SiteDrained, SiteRegistered
from koala.core.model.grid import SiteFacts
from koala.core.model.job import Claiming, EndKind
from koala.core.model.job_spec import InputMode
from koala.core.model.values import JobId, SiteName, UserName
from koala.views.explain import why
from tests.core.conftest import Begin
from tests.harness.builders import HIGH, LOW, a_component, a_job, a_site
from tests.harness.script import Script


def a_far_file(begin: Begin, **parameters: Any) -> Script:
    """The file lies at a site with one processor, 100 s away from the others: JST = JPT + 100."""
    script = begin(bandwidth_default_bps=10.0, **parameters).ignore(StartTransfer)
    script.tell(a_site("home", 1)).replica("data", "home")
    return script


def claim_at(script: Script, job: str) -> float | None:
    phase = script.job(job).phase
    assert isinstance(phase, Claiming), phase
    return phase.claim_at


# --- JCT ---


def test_a_job_is_claimed_at_its_claiming_time_and_not_before(begin: Begin) -> None:
    script = a_far_file(begin).tell(a_site("delft", 8), a_job("j1", 8, file="data"))
    script.at(74.9).expect_nothing()
    script.at(75)
    script.expect(ClaimProcessors, at=75, claim="j1/1/0/1", site="delft", is_granted=False)


def test_a_refused_component_is_claimed_again_until_the_start_time(begin: Begin) -> None:
    """Tries at 75, 93.75, 98.4, 99.6 and at the JST, each a claim of its own."""
    script = a_far_file(begin).tell(a_site("delft", 8, grace_s=0.1))
    script.tell(a_job("j1", 8, file="data"))
    seen = []
    for n in range(1, 6):
        script.at(claim_at(script, "j1") or 0.0)
        script.expect(ClaimProcessors, at=script.now, claim=f"j1/1/0/{n}")
        seen.append(script.now)
        script.refuse(f"j1/1/0/{n}")
    script.expect(CancelTransfer, transfer="j1/1/t1")
    assert seen == [75, 93.75, 98.4375, 99.609375, 100]
    assert "not claimed by its start time" in script.story("j1")
    assert (script.job("j1").claiming_tries, script.phase("j1")) == (5, "Placing")


def test_no_step_is_shorter_than_the_largest_grace_time(begin: Begin) -> None:
    """A new try makes sense only after the answers to the last one."""
    script = a_far_file(begin).tell(a_site("delft", 8, grace_s=20.0))
    script.tell(a_job("j1", 8, file="data")).at(75)
    script.expect(ClaimProcessors)
    assert claim_at(script, "j1") == 100


def test_a_try_waits_for_the_answers_of_the_last(begin: Begin) -> None:
    script = a_far_file(begin).tell(a_site("delft", 8, grace_s=0.5))
    script.tell(a_job("j1", 8, file="data")).at(75)
    script.expect(ClaimProcessors, claim="j1/1/0/1")
    script.at(97).expect_nothing()
    script.refuse("j1/1/0/1")
    script.expect(ClaimProcessors, at=97, claim="j1/1/0/2")


def test_the_try_at_the_start_time_waits_for_nobody(begin: Begin) -> None:
    """An answer that never comes must not keep a job in Claiming for ever."""
    script = a_far_file(begin).tell(a_site("delft", 8, grace_s=5.0))
    script.tell(a_job("j1", 8, file="data")).at(75)
    script.expect(ClaimProcessors)
    script.ignore(CancelTransfer).at(101)
    script.expect(StopClaim, at=100, claim="j1/1/0/1")
    assert "not claimed by its start time" in script.story("j1")
    script.drop()


def test_the_last_try_is_judged_at_the_start_time_and_the_grace_time(script: Script) -> None:
    """FTT = 0: one try, at once, judged when the grace time is over."""
    script.tell(a_site("delft", 8, grace_s=7.0), a_job("j1", 8)).claimed("j1")
    script.at(6.9)
    assert script.phase("j1") == "Claiming"
    script.at(7)
    script.expect(StopClaim, at=7, claim="j1/1/0/1")
    assert script.job("j1").attempt is None
    script.drop()


def test_the_last_try_is_judged_when_answered(script: Script) -> None:
    script.tell(a_site("delft", 8, grace_s=7.0), a_job("j1", 4, 4)).claimed("j1")
    script.at(1).grant("j1/1/0/1").refuse("j1/1/1/1")
    script.expect(StopClaim, at=1, claim="j1/1/0/1")
    assert script.phase("j1") == "Placing"


def test_a_late_grant_of_a_job_that_gave_up_is_no_grant(script: Script) -> None:
    script.tell(a_site("delft", 8, grace_s=7.0), a_job("j1", 8)).claimed("j1")
    script.tell(SiteDrained(site=SiteName("delft"), by=UserName("ann")))
    script.at(7).drop()
    script.grant("j1/1/0/1").expect_nothing()
    assert script.phase("j1") == "Placing"


def test_l_falls_each_time_the_job_goes_back(script: Script) -> None:
    script.tell(a_site("delft", 8, grace_s=0.1), a_job("j1", 8))
    seen = []
    for attempt in range(1, 7):
        script.expect(ClaimProcessors, claim=f"j1/{attempt}/0/1")
        seen.append(script.job("j1").claim_fraction)
        script.refuse(f"j1/{attempt}/0/1").after(1.0)
    assert seen == [0.75, 0.625, 0.5, 0.375, 0.25, 0.25]
    script.drop()


def test_a_refused_job_is_not_placed_again_at_the_same_instant(script: Script) -> None:
    script.tell(a_site("delft", 8), a_job("j1", 8)).claimed("j1")
    script.refuse("j1/1/0/1").expect_nothing()
    script.after(1.0)
    script.expect(ClaimProcessors, at=1.0, claim="j1/2/0/1")


def test_claiming_tries_are_limited_over_all_attempts(begin: Begin) -> None:
    script = begin(claiming_tries_max=2)
    script.tell(a_site("delft", 8), a_job("j1", 8))
    for attempt in (1, 2):
        script.expect(ClaimProcessors, claim=f"j1/{attempt}/0/1")
        script.refuse(f"j1/{attempt}/0/1").after(1.0)
    assert script.phase("j1") == "Failed"
    assert script.reason("j1") == "not claimed in 2 claiming tries"


def test_a_job_returns_to_the_tail_of_its_queue(script: Script) -> None:
    script.tell(a_site("delft", 8), a_job("j1", 8)).claimed("j1")
    script.tell(a_job("j2", 8)).report("delft", 0).refuse("j1/1/0/1")
    assert script.scheduler.queues.order() == [[], ["j2", "j1"], []]


def test_the_hold_of_a_job_bounds_its_first_claim(begin: Begin) -> None:
    script = a_far_file(begin).tell(a_site("delft", 8))
    script.tell(a_job("j1", 8, file="data", max_hold_s=10.0)).at(94)
    assert script.expect(ClaimProcessors, at=94).hold_s == 10.0


def test_a_hold_that_begins_long_before_the_start_outlasts_the_arming(begin: Begin) -> None:
    """Granted at once, armed at the JST for D: a starter can only promise while it may hold."""
    script = a_far_file(begin, start="jst").tell(a_site("delft", 8))
    script.tell(a_job("j1", 8, file="data", max_hold_s=10.0)).at(94)
    script.grant(*script.claimed("j1")).fetched("j1/1/t1", took_s=94.0).at(99.95)
    arm = script.expect(ArmClaim, at=99.95)
    assert 99.95 + arm.late_s < 94 + 10


# --- T ---


def test_with_t_0_what_can_start_is_claimed(script: Script) -> None:
    script.tell(a_site("a", 4), a_site("b", 4), a_job("j1", 4, 4))
    assert len(script.claimed("j1")) == 2


def half_idle(begin: Begin, threshold: float) -> Script:
    """Placed on a and b; at the try only a has room."""
    script = a_far_file(begin, claim_threshold=threshold, preempt="none")
    script.tell(a_site("a", 4), a_site("b", 4), a_job("j1", 4, 4, file="data"))
    return script.report("b", 0).at(75)


def test_a_partial_claim_is_made_when_f_reaches_t(begin: Begin) -> None:
    script = half_idle(begin, 0.5)
    script.expect(ClaimProcessors, site="a")


def test_nothing_is_claimed_when_f_is_below_t_and_the_try_counts(begin: Begin) -> None:
    script = half_idle(begin, 0.6).expect_nothing()
    assert (script.phase("j1"), script.job("j1").claiming_tries) == ("Claiming", 1)
    assert claim_at(script, "j1") == 93.75
    script.report("b", 4).at(93.75)
    assert len(script.claimed("j1")) == 2


def test_atomic_claiming_waits_for_all(begin: Begin) -> None:
    script = half_idle(begin, 1.0).expect_nothing()
    script.report("b", 4).at(93.75)
    assert len(script.claimed("j1")) == 2


# --- re-placement ---


def test_a_blocked_component_moves_where_its_file_can_be_by_the_start(begin: Begin) -> None:
    """Its old transfer is cancelled, the new one starts at once, and it is claimed in the same
    try.
    """
    script = begin(bandwidth_default_bps=10.0)
    script.tell(a_site("home", 1), a_site("near", 1)).replica("data", "home")
    script.tell(a_site("a", 8), a_site("b", 4), a_job("j1", 4, file="data"))
    assert script.expect(StartTransfer).target == "a"
    script.replica("data", "b").report("a", 0).at(75)
    script.expect(CancelTransfer, transfer="j1/1/t1", target="a")
    claim = script.expect(ClaimProcessors, site="b")
    assert claim.files == (HeldFile(file="data"),)
    assert script.job("j1").attempt is not None
    assert "moves from a to b" in script.story("j1")


def test_a_move_whose_file_would_be_late_is_not_made(begin: Begin) -> None:
    script = a_far_file(begin).tell(a_site("a", 8), a_site("b", 4))
    script.tell(a_job("j1", 4, file="data")).report("a", 0).at(75).expect_nothing()
    assert script.placed_on("j1") == ["a"]


def test_a_move_that_brings_its_file_starts_the_transfer_at_once(begin: Begin) -> None:
    script = begin(bandwidth_default_bps=10.0)
    script.tell(a_site("home", 1), a_site("a", 8), a_site("b", 4)).replica("data", "home")
    script.tell(a_job("j1", 4, file="data")).drop()
    script.replica("data", "c").tell(a_site("c", 1))
    script.change(bandwidth_default_bps=100.0).report("a", 0).at(75)
    script.expect(CancelTransfer, transfer="j1/1/t1")
    script.expect(StartTransfer, transfer="j1/1/t2", target="b", source="c")
    script.expect(ClaimProcessors, site="b")


def test_a_fixed_component_never_moves(begin: Begin) -> None:
    script = a_far_file(begin).tell(a_site("a", 8), a_site("b", 8)).replica("data", "b")
    script.tell(a_job("j1", a_component(4, "a"), file="data")).report("a", 0)
    script.at(75).expect_nothing()


def test_the_start_time_stays_when_a_component_moves(begin: Begin) -> None:
    script = a_far_file(begin).ignore(CancelTransfer).tell(a_site("a", 8), a_site("b", 4))
    script.tell(a_job("j1", 4, file="data")).replica("data", "b").report("a", 0).at(75).drop()
    attempt = script.job("j1").attempt
    assert attempt is not None
    assert (attempt.start_at, attempt.members[0].site) == (100, "b")


# --- chunk and whole ---


def test_the_whole_file_is_fetched_once_a_site(begin: Begin) -> None:
    script = begin(bandwidth_default_bps=10.0)
    script.tell(a_site("home", 1), a_site("a", 8)).replica("data", "home")
    script.tell(a_job("j1", 4, 4, file="data"))
    transfer = script.expect(StartTransfer, source="home", target="a")
    assert (transfer.offset, transfer.size_bytes) == (0, 1000)
    script.expect_nothing()


def test_chunks_are_fetched_each_by_its_component(begin: Begin) -> None:
    script = begin(bandwidth_default_bps=10.0)
    script.tell(a_site("home", 1), a_site("a", 8)).replica("data", "home")
    script.tell(a_job("j1", 2, 6, file="data", input_mode=InputMode.CHUNK))
    found = {(t.offset, t.size_bytes) for t in script.take(StartTransfer)}
    assert found == {(0, 250), (250, 750)}
    attempt = script.job("j1").attempt
    assert attempt is not None
    assert attempt.transfer_s == 75  # the longest


def test_a_job_where_its_file_is_has_no_transfer_and_starts_at_once(begin: Begin) -> None:
    script = begin(bandwidth_default_bps=10.0).tell(a_site("a", 8)).replica("data", "a")
    script.tell(a_job("j1", 4, file="data"))
    assert script.expect(ClaimProcessors).files == (HeldFile(file="data"),)


# --- preemption ---


def preemptible(begin: Begin, **parameters: Any) -> Script:
    """`low` runs on all of delft, where a claim starts once a victim has stopped."""
    script = begin(bandwidth_default_bps=10.0, **parameters).ignore(StartTransfer, CancelTransfer)
    script.tell(a_site("delft", 8, starts_after_stop=True), a_job("low", 8))
    script.running("low")
    return script.tell(a_site("home", 1)).replica("data", "home", 10)


def high(script: Script, *components: int, **more: Any) -> Script:
    """A high-priority job that is placed before delft is full again, so that it must preempt."""
    script.report("delft", 8).tell(a_job("high", *components, priority=HIGH, file="data", **more))
    return script.report("delft", 0)


def test_a_high_priority_job_preempts_and_its_claim_is_queued_first(begin: Begin) -> None:
    script = high(preemptible(begin), 8).at(0.75)
    assert script.kinds() == ["ClaimProcessors", "StopClaim"]
    script.expect(ClaimProcessors, claim="high/1/0/1", site="delft")
    script.expect(StopClaim, claim="low/1/0/1")
    assert script.phase("low") == "Stopping"
    assert script.reason("low") == "preempted by high"


def test_a_preempted_job_returns_to_the_low_queue_when_it_is_gone(begin: Begin) -> None:
    script = high(preemptible(begin), 8).at(0.75).drop()
    script.gone("low/1/0/1", EndKind.STOPPED)
    assert script.phase("low") == "Placing"
    assert script.scheduler.queues.order()[1] == ["low"]
    assert script.scheduler.sites[SiteName("delft")].errors == 0
    assert (script.picture("low")["preemptions"], script.picture("low")["failures"]) == (1, 0)


def test_a_job_that_was_done_when_it_was_preempted_is_finished(begin: Begin) -> None:
    script = high(preemptible(begin), 8).ignore(PublishOutputs).at(0.75).drop()
    assert script.phase("low") == "Stopping"
    script.exits("low/1/0/1", 0)
    assert script.phase("low") == "Finished"


def test_preempt_none_preempts_nobody(begin: Begin) -> None:
    high(preemptible(begin, preempt="none"), 8).at(0.9).expect_nothing()


def test_a_low_priority_job_preempts_nobody(begin: Begin) -> None:
    script = preemptible(begin).report("delft", 8)
    script.tell(a_job("other", 8, priority=LOW, file="data")).report("delft", 0)
    script.at(0.9).expect_nothing()


def test_a_high_priority_job_is_never_preempted(begin: Begin) -> None:
    script = begin(bandwidth_default_bps=10.0).ignore(StartTransfer)
    script.tell(a_site("delft", 8, starts_after_stop=True), a_job("first", 8, priority=HIGH))
    script.running("first")
    script.tell(a_site("home", 1)).replica("data", "home", 10)
    high(script, 8).at(0.9).expect_nothing()


def test_nobody_is_preempted_where_the_claim_would_not_start(begin: Begin) -> None:
    script = preemptible(begin)
    facts = SiteFacts(processors=8, starts_after_stop=False)
    script.tell(SiteRegistered(site=SiteName("delft"), facts=facts, idle=0))
    high(script, 8).at(0.9).expect_nothing()


def test_victims_stop_in_descending_order_of_their_start_no_more_than_needed(
    begin: Begin,
) -> None:
    script = begin(bandwidth_default_bps=10.0).ignore(StartTransfer)
    script.tell(a_site("delft", 8, starts_after_stop=True))
    for n, at in ((1, 0.0), (2, 10.0), (3, 20.0)):
        script.at(at).tell(a_job(f"low{n}", 2))
        script.running(f"low{n}")
    script.tell(a_site("home", 1)).replica("data", "home", 10)
    script.report("delft", 8).tell(a_job("high", 4, priority=HIGH, file="data"))
    script.report("delft", 1).at(20.75)
    script.expect(ClaimProcessors, claim="high/1/0/1")
    assert [stop.claim for stop in script.take(StopClaim)] == ["low3/1/0/1", "low2/1/0/1"]


def two_sites(begin: Begin, preempt: str) -> Script:
    """`low` runs on delft, which takes preemption; leiden is full and does not."""
    script = begin(bandwidth_default_bps=10.0, preempt=preempt).ignore(StartTransfer)
    script.tell(a_site("delft", 4, starts_after_stop=True), a_job("low", 4))
    script.running("low")
    script.tell(a_site("home", 1), a_site("leiden", 4)).replica("data", "home", 10)
    script.report("delft", 4).tell(a_job("high", 4, 4, priority=HIGH, file="data"))
    return script.report("delft", 0).report("leiden", 0).at(0.75)


def test_complete_preempts_only_if_all_components_can_be_claimed_by_that(begin: Begin) -> None:
    two_sites(begin, "complete").expect_nothing()


def test_component_preempts_for_each_component_by_itself(begin: Begin) -> None:
    script = two_sites(begin, "component")
    script.expect(ClaimProcessors, site="delft")
    script.expect(StopClaim, claim="low/1/0/1")


def test_a_site_that_refused_after_preemption_takes_none_for_ten_minutes(begin: Begin) -> None:
    script = high(preemptible(begin), 8).at(0.75).drop()
    script.refuse("high/1/0/1").drop()
    site = script.scheduler.sites[SiteName("delft")]
    assert site.no_preempt_until == 0.75 + 600.0
    script.at(5)
    assert script.phase("high") in ("Placing", "Claiming")


def test_a_stop_that_overtakes_the_refusal_makes_the_site_rest_as_well(begin: Begin) -> None:
    """We judge at JST + grace; the site's own grace time began a little later."""
    script = high(preemptible(begin), 8).at(0.75).drop()
    site = script.scheduler.sites[SiteName("delft")]
    script.at(11.5).drop()  # 0.75 + grace + what the victims may take
    script.gone("high/1/0/1", EndKind.STOPPED).drop()
    assert site.no_preempt_until == 11.5 + 600.0


def test_a_preempting_claim_that_is_stopped_in_time_is_no_refusal(begin: Begin) -> None:
    script = high(preemptible(begin), 8).at(0.75).drop()
    script.cancel("high").drop()
    script.gone("high/1/0/1", EndKind.STOPPED).drop()
    assert script.scheduler.sites[SiteName("delft")].no_preempt_until == 0.0


def test_nobody_is_stopped_for_a_claim_over_the_hold_budget(begin: Begin) -> None:
    script = preemptible(begin, hold_budget_user_s=8 * 900.0)
    script.grant().report("delft", 8)
    script.tell(a_job("high", 8, priority=HIGH, file="data", owner=UserName("bob"), max_hold_s=901))
    script.report("delft", 0).at(0.9).expect_nothing()
    assert script.phase("low") == "Running"


def test_nobody_is_stopped_where_another_component_is_over_the_hold_budget(begin: Begin) -> None:
    """`complete` means all of them: `high` cannot start without the one at leiden."""
    script = begin(bandwidth_default_bps=10.0, hold_budget_site_s=4 * 900.0).ignore(StartTransfer)
    script.tell(a_site("delft", 4, starts_after_stop=True), a_job("low", 4))
    script.running("low")
    script.tell(a_site("home", 1), a_site("leiden", 8)).replica("data", "home", 10)
    script.tell(a_job("holder", a_component(4, "leiden"))).claimed("holder")
    script.report("delft", 4)
    script.tell(
        a_job("high", a_component(4, "delft"), a_component(4, "leiden"), priority=HIGH, file="data")
    )
    script.report("delft", 0).at(0.9).expect_nothing()
    assert "the hold budget is used up" in "".join(why(script.scheduler, JobId("high"), 0.9))
    assert script.phase("low") == "Running"


def test_a_budget_for_some_of_those_that_preempt_asks_no_site_in_vain(begin: Begin) -> None:
    """A site that refuses a claim for which somebody was stopped takes no more preemption for a
    while; nobody was stopped for this one, and others' jobs would wait for it."""
    script = begin(bandwidth_default_bps=10.0, hold_budget_user_s=6 * 900.0).ignore(StartTransfer)
    for site in ("delft", "leiden"):
        script.tell(a_site(site, 4, starts_after_stop=True), a_job(f"low-{site}", 4))
        script.running(f"low-{site}")
    script.tell(a_site("home", 1)).replica("data", "home", 10)
    script.report("delft", 4).report("leiden", 4)
    script.tell(a_job("high", 4, 4, priority=HIGH, file="data", owner=UserName("bob")))
    script.report("delft", 0).report("leiden", 0).at(0.9).expect_nothing()
    assert script.story("high").count("Claiming") == 1
    assert "the hold budget is used up" in "".join(why(script.scheduler, JobId("high"), 0.9))
    assert {script.phase("low-delft"), script.phase("low-leiden")} == {"Running"}


# --- hold budget ---


def test_a_claim_over_the_users_budget_is_not_made(begin: Begin) -> None:
    script = begin(hold_budget_user_s=8 * 900.0)
    script.tell(a_site("delft", 16), a_job("j1", 8, owner=UserName("ann")))
    script.claimed("j1")
    script.tell(a_job("j2", 1, owner=UserName("ann")), a_job("j3", 1, owner=UserName("bob")))
    script.claimed("j3")
    assert "the hold budget is used up" in script.story("j2")
    assert script.phase("j2") == "Placing"


def test_a_claim_over_the_sites_budget_is_not_made(begin: Begin) -> None:
    script = begin(hold_budget_site_s=8 * 900.0)
    script.tell(a_site("a", 8), a_site("b", 1), a_job("j1", 8))
    script.claimed("j1")
    script.tell(a_job("j2", a_component(1, "a"))).expect_nothing()
    script.tell(a_job("j3", a_component(1, "b")))
    script.claimed("j3")


def test_the_unused_part_is_given_back_at_the_pass(begin: Begin) -> None:
    script = begin(hold_budget_user_s=8 * 900.0)
    script.tell(a_site("delft", 8), a_job("j1", 8))
    claims = script.claimed("j1")
    script.ignore(ArmClaim).at(1).grant(*claims).at(3)
    budget = script.scheduler.payer_budgets[user_payer("")]
    assert budget.spent_s == 8 * 900.0
    script.gone(claims[0], EndKind.SITE)
    assert budget.spent_s == 8 * 2.0


def test_a_refused_claim_costs_nothing(begin: Begin) -> None:
    script = begin(hold_budget_user_s=8 * 900.0)
    script.tell(a_site("delft", 8), a_job("j1", 8)).claimed("j1")
    script.at(4).refuse("j1/1/0/1")
    assert script.scheduler.payer_budgets[user_payer("")].spent_s == 0


def test_what_was_held_is_forgotten_after_a_day(begin: Begin) -> None:
    day = 86_400.0
    script = begin(hold_budget_user_s=8 * 900.0, arms_max=1000)
    script.tell(a_site("delft", 8), a_job("j1", 8))
    claims = script.claimed("j1")
    script.grant(*claims).drop().ignore(ArmClaim).at(100)
    script.gone(claims[0], EndKind.SITE).cancel("j1")
    script.at(day - 1).tell(a_job("j2", 8)).expect_nothing()
    script.cancel("j2").at(day + 1).tell(a_job("j3", 8))
    script.claimed("j3")


@pytest.mark.parametrize("facts", [{"owner": "bob"}, {"users": ("bob", "cas")}])
def test_a_job_neither_gets_nor_hears_of_a_site_that_is_not_for_its_user(
    script: Script, facts: dict[str, Any]
) -> None:
    hidden, away = a_site("hidden", 16, **facts), a_site("away", 16, **facts)
    script.tell(a_site("open", 8), hidden, away, SiteDisconnected(site=SiteName("away")))
    script.tell(a_job("j1", 16, owner=UserName("ann"))).expect_nothing()
    told = " ".join(why(script.scheduler, script.job("j1").id, script.now))
    assert "open" in told
    assert "hidden" not in told
    assert "away" not in told
    script.tell(a_job("j2", 16, owner=UserName("bob")))
    script.expect(ClaimProcessors, site="hidden")


@pytest.mark.parametrize("phase", ["Claiming", "Starting"])
def test_a_job_that_waits_shows_why(script: Script, phase: str) -> None:
    script.tell(a_site("delft", 8), a_job("j1", 8)).claimed("j1")
    if phase == "Starting":
        script.grant("j1/1/0/1").drop()
    assert script.phase("j1") == phase
    told = why(script.scheduler, script.job("j1").id, script.now)
    assert told
    assert "j1/1/0/1" in " ".join(told) or "component" in " ".join(told)
