"""The start barrier: arm, release, pass; the fence after it."""

from __future__ import annotations

import pytest

from koala.core.model.actions import (
    AcknowledgeClaim,
    ArmClaim,
    PublishOutputs,
    ReleaseClaim,
    StartTransfer,
    StopClaim,
)
from koala.core.model.events import ClaimArmed, ClaimPassed, DaemonStarted, SiteReported
from koala.core.model.job import ArmNumber, EndKind
from koala.core.model.values import ClaimId, SiteName
from tests.core.conftest import Begin
from tests.harness.builders import a_job, a_site
from tests.harness.script import Script


@pytest.fixture
def granted(script: Script) -> Script:
    """j1 has two components, at a and b, both granted; the Arms are open."""
    script.tell(a_site("a", 4), a_site("b", 4), a_job("j1", 4, 4))
    return script.grant(*script.claimed("j1"))


@pytest.fixture
def released(granted: Script) -> Script:
    """The same, released."""
    granted.released("j1")
    return granted


def test_all_granted_members_are_armed_under_one_number(granted: Script) -> None:
    assert granted.phase("j1") == "Starting"
    arms = granted.take(ArmClaim)
    assert [arm.claim for arm in arms] == ["j1/1/0/1", "j1/1/1/1"]
    assert arms[0].number == arms[1].number == ArmNumber(epoch=1, counter=1)
    assert (arms[0].release_at, arms[0].late_s) == (0.05, 2.05)


def test_the_bundle_names_all_members(granted: Script) -> None:
    arm = granted.take(ArmClaim)[0]
    assert [(p.component, p.site, p.processors, p.claim) for p in arm.peers] == [
        (0, "a", 4, "j1/1/0/1"),
        (1, "b", 4, "j1/1/1/1"),
    ]


def test_no_arm_before_the_start_time_is_near(begin: Begin) -> None:
    script = begin(start="jst", bandwidth_default_bps=10.0).ignore(StartTransfer)
    script.tell(a_site("home", 1), a_site("a", 4)).replica("data", "home")
    script.tell(a_job("j1", 4, file="data")).at(75).grant(*script.claimed("j1"))
    script.fetched("j1/1/t1").at(99.9).expect_nothing().at(99.95)
    assert script.expect(ArmClaim, at=99.95).release_at == 100


def test_the_barrier_stays_closed_while_a_transfer_runs(begin: Begin) -> None:
    script = begin(bandwidth_default_bps=10.0).ignore(StartTransfer)
    script.tell(a_site("home", 1), a_site("a", 4)).replica("data", "home")
    script.tell(a_job("j1", 4, file="data")).at(75).grant(*script.claimed("j1"))
    script.at(200).expect_nothing()
    script.fetched("j1/1/t1", took_s=200.0)
    assert script.expect(ArmClaim, at=200).release_at == 200.05


def test_t_lies_ahead_of_the_decision_by_the_lead(granted: Script) -> None:
    """Armed may come just before the T that was asked for; a Release that is under way at T starts
    whom it reaches last later than the others."""
    number, claims = granted.armings("j1")
    granted.arm(claims[0], number).at(0.04).arm(claims[1], number)
    releases = granted.take(ReleaseClaim)
    assert [release.release_at for release in releases] == [pytest.approx(0.09)] * 2


def test_t_lies_ahead_of_the_decision_by_what_arming_took(granted: Script) -> None:
    _, claims = granted.armings("j1")
    granted.at(0.05)
    second = granted.take(ArmClaim)[0]
    granted.at(0.149).arm(claims[0], second.number).arm(claims[1], second.number)
    assert granted.take(ReleaseClaim)[0].release_at == pytest.approx(0.149 + 0.099)


def test_t_comes_well_before_what_starters_promised(begin: Begin) -> None:
    script = begin(lead_min_s=2.0, late_max_s=1.0).tell(a_site("a", 4), a_job("j1", 4))
    script.grant(*script.claimed("j1"))
    number, claims = script.armings("j1")
    script.at(1.9).arm(claims[0], number)
    assert script.take(ReleaseClaim)[0].release_at == pytest.approx(2.5)


def test_not_all_armed_in_time_is_armed_again_with_a_longer_lead(granted: Script) -> None:
    number, claims = granted.armings("j1")
    granted.arm(claims[0], number).at(0.05)
    arms = granted.take(ArmClaim)
    assert [arm.number.counter for arm in arms] == [2, 2]
    assert arms[0].release_at == pytest.approx(0.15)
    granted.arm(claims[1], number).expect_nothing()  # of the first round: too late
    granted.arm(claims[0], arms[0].number).arm(claims[1], arms[0].number)
    assert len(granted.take(ReleaseClaim)) == 2


def test_answers_after_t_count_and_the_release_names_a_later_t(begin: Begin) -> None:
    """A short lead costs no round of arming where answers take longer than the round trips."""
    script = begin(lead_min_s=0.005, arm_wait_s=0.25, lead_rounds=1.5)
    script.tell(a_site("a", 4), a_site("b", 4), a_job("j1", 4, 4)).grant(*script.claimed("j1"))
    number, claims = script.armings("j1")
    script.arm(claims[0], number).at(0.2).expect_nothing()
    script.arm(claims[1], number)
    releases = script.take(ReleaseClaim)
    assert [release.release_at for release in releases] == [pytest.approx(0.5)] * 2
    assert script.phase("j1") == "Releasing"


def test_an_arm_is_repeated_when_its_answers_were_waited_for(begin: Begin) -> None:
    script = begin(lead_min_s=0.005, arm_wait_s=0.25)
    script.tell(a_site("a", 4), a_job("j1", 4)).grant(*script.claimed("j1"))
    script.armings("j1")
    script.at(0.25).take(ArmClaim)
    script.expect_nothing().at(0.2551)
    (arm,) = script.take(ArmClaim)
    assert arm.number.counter == 2
    script.drop()


def test_an_arm_asks_for_a_t_one_round_trip_to_the_slowest_site_ahead(script: Script) -> None:
    script.tell(a_site("a", 4), a_site("b", 4), a_job("j1", 4, 4))
    claims = script.claimed("j1")
    script.tell(SiteReported(site=SiteName("b"), idle=0, through=1, rtt_s=0.2)).grant(*claims)
    assert script.take(ArmClaim)[0].release_at == pytest.approx(0.2)


def test_t_follows_the_arms_own_round_not_the_round_trips_of_an_idle_link(begin: Begin) -> None:
    """Beats of idle processes take several times as long as messages of a start under way."""
    script = begin(lead_min_s=0.005, arm_wait_s=0.25)
    script.tell(a_site("a", 4), a_site("b", 4), a_job("j1", 4, 4))
    claims = script.claimed("j1")
    script.tell(SiteReported(site=SiteName("b"), idle=0, through=1, rtt_s=0.008)).grant(*claims)
    number, _ = script.armings("j1")
    script.at(0.009).arm(claims[0], number).arm(claims[1], number)
    releases = script.take(ReleaseClaim)
    assert [release.release_at for release in releases] == [pytest.approx(0.018)] * 2


def test_a_known_start_time_is_armed_for_four_round_trips_before(begin: Begin) -> None:
    script = begin(start="jst", bandwidth_default_bps=10.0).ignore(StartTransfer)
    script.tell(a_site("home", 1), a_site("a", 4)).replica("data", "home")
    script.tell(SiteReported(site=SiteName("a"), idle=4, through=0, rtt_s=0.2))
    script.tell(a_job("j1", 4, file="data")).at(75).grant(*script.claimed("j1"))
    script.fetched("j1/1/t1").at(99.1).expect_nothing().at(99.2)
    assert script.expect(ArmClaim, at=99.2).release_at == 100


def test_armings_are_limited(begin: Begin) -> None:
    script = begin(arms_max=3).tell(a_site("a", 4), a_job("j1", 4))
    script.grant(*script.claimed("j1"))
    for _ in range(3):
        release_at = script.take(ArmClaim)[0].release_at
        script.at(release_at)
    script.expect(StopClaim, claim="j1/1/0/1")
    assert "not all components armed in 3 rounds" in script.story("j1")


def test_an_armed_at_the_instant_t_is_too_late(granted: Script) -> None:
    number, claims = granted.armings("j1")
    granted.arm(claims[0], number)
    granted.now = 0.05
    granted.tell_together(ClaimArmed(claim=ClaimId(claims[1]), number=number))
    assert granted.phase("j1") == "Starting"
    assert not granted.take(ReleaseClaim)
    granted.drop()


def test_programs_may_be_over_before_the_last_pass_is_told(released: Script) -> None:
    released.passed("j1/1/0/1").exits("j1/1/0/1").exits("j1/1/1/1")
    released.expect(PublishOutputs)
    assert released.phase("j1") == "Finished"


def test_a_pass_that_nobody_released_is_nonsense(granted: Script) -> None:
    granted.drop()
    granted.unchanged_by(ClaimPassed(claim=ClaimId("j1/1/0/1"), passed_at=0.0))


def test_the_skew_is_the_difference_of_the_passes(released: Script) -> None:
    released.tell(ClaimPassed(claim=ClaimId("j1/1/0/1"), passed_at=0.05))
    released.tell(ClaimPassed(claim=ClaimId("j1/1/1/1"), passed_at=0.062))
    skew = released.picture("j1")["timeline"]["start_skew_s"]
    assert skew == pytest.approx(0.012)


# --- setbacks and the fence ---


def test_a_partial_start_is_called_by_its_name(released: Script) -> None:
    released.passed("j1/1/0/1").gone("j1/1/1/1", EndKind.LATE).drop()
    assert released.reason("j1").startswith("partial start: 1 at b: late")


def test_a_pass_that_is_told_after_the_setback_makes_it_a_partial_start(released: Script) -> None:
    """As of a site that was cut off over the barrier."""
    released.gone("j1/1/1/1", EndKind.LATE).drop()
    assert "partial start" not in released.story("j1")
    released.passed("j1/1/0/1")
    assert "partial start: 0 at a had passed" in released.story("j1")


def test_an_armed_from_before_a_restart_still_counts(granted: Script) -> None:
    """The number says which Arm it answers; T is still ahead."""
    number, claims = granted.armings("j1")
    granted.arm(claims[0], number).tell(DaemonStarted(epoch=2), a_site("a", 4), a_site("b", 4))
    granted.arm(claims[1], number)
    assert {r.number for r in granted.take(ReleaseClaim)} == {number}


def test_after_a_restart_arm_numbers_are_greater(granted: Script) -> None:
    first, _ = granted.armings("j1")
    granted.tell(DaemonStarted(epoch=2), a_site("a", 4), a_site("b", 4)).at(0.05)
    second, _ = granted.armings("j1")
    assert (second.epoch, second.counter) == (2, 1)
    assert (second.epoch, second.counter) > (first.epoch, first.counter)


def test_a_claim_keeps_the_fence_of_the_longest_lease_that_it_was_told(released: Script) -> None:
    """A daemon comes back with shorter leases; a starter that is cut off goes by the old one."""
    claim = released.scheduler.ledger[ClaimId("j1/1/0/1")]
    longest_s = released.parameters.fence_s
    assert claim.fence_s == longest_s
    released.change(run_lease_s=60.0)
    assert claim.fence_s == longest_s
    released.change(run_lease_s=6000.0)
    assert claim.fence_s == released.parameters.fence_s > longest_s


def test_an_agent_that_has_lost_a_released_claim_does_not_end_the_wait(released: Script) -> None:
    """Its starter may live on, and the next attempt beside it: only the fence is certain."""
    released.passed("j1/1/0/1", "j1/1/1/1")
    released.heed(AcknowledgeClaim).gone("j1/1/1/1", EndKind.UNKNOWN)
    assert released.phase("j1") == "Stopping"
    assert {stop.claim for stop in released.take(StopClaim)} == {"j1/1/0/1", "j1/1/1/1"}
    released.gone("j1/1/1/1", EndKind.UNKNOWN).expect_nothing()  # the answer to the Stop
    released.gone("j1/1/0/1").expect(AcknowledgeClaim)
    assert released.phase("j1") == "Stopping"
    released.fence("j1/1/1/1")
    assert released.phase("j1") in ("Placing", "Claiming")
    released.drop()
