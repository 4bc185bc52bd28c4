"""Cuts, silence, restarts, and events that are late, doubled or foreign."""

from __future__ import annotations

import pytest

from koala.core.model.actions import (
    AcknowledgeClaim,
    ArmClaim,
    CancelTransfer,
    ClaimProcessors,
    PublishOutputs,
    ReleaseClaim,
    StartTransfer,
    StopClaim,
    Wanted,
)
from koala.core.model.events import (
    ClaimArmed,
    ClaimFenced,
    ClaimGone,
    ClaimGranted,
    ClaimPassed,
    DaemonStarted,
    Event,
    ReplicaRemoved,
    SiteDeclaredLost,
    SiteDisconnected,
    SiteDrained,
    SiteReported,
    TransferFailed,
    TransferFinished,
)
from koala.core.model.job import ArmNumber, ClaimEnd, EndKind
from koala.core.model.values import ClaimId, FileName, SiteName, TransferId, UserName
from tests.core.conftest import Begin
from tests.core.pipeline.test_site_errors import in_phase
from tests.harness.builders import a_component, a_job, a_site
from tests.harness.script import Script

A = SiteName("a")
NUMBER = ArmNumber(epoch=1, counter=1)
END = ClaimEnd(kind=EndKind.EXITED, statuses=(0,))
HOLD_FENCE_S = 60 * 1.001 + 5 + 5


# --- a site that is cut off ---


def test_a_claim_at_a_silent_site_is_given_up_after_the_hold_lease(script: Script) -> None:
    script.tell(a_site("a", 4), a_site("b", 4), a_job("j1", 4, 4)).ignore(ArmClaim)
    script.grant(*script.claimed("j1")).change(arms_max=1000, late_max_s=2.0)
    script.disconnect("a").at(HOLD_FENCE_S - 0.1)
    assert script.phase("j1") == "Starting"
    script.at(HOLD_FENCE_S + 0.1)
    assert len(script.take(StopClaim)) == 2
    assert "a has been silent past the hold lease" in script.story("j1")


def test_silence_is_noticed_though_leases_grew_while_the_site_was_away(script: Script) -> None:
    script.ignore(ArmClaim, StopClaim).change(arms_max=1000)
    script.tell(a_site("a", 4), a_job("j1", 4))
    script.grant(*script.claimed("j1")).disconnect("a").change(hold_lease_s=100.0)
    script.at(HOLD_FENCE_S + 10)
    assert script.phase("j1") == "Starting"
    script.at(HOLD_FENCE_S + 60)
    assert script.phase("j1") == "Placing"


def test_a_site_that_is_there_is_asked_to_stop_what_is_silent(script: Script) -> None:
    """Its starter may be stopped, or have left something alive: the site can tell, and end it."""
    script.tell(a_site("a", 4), a_job("j1", 4))
    script.running("j1")
    script.fence("j1/1/0/1").expect(StopClaim, claim="j1/1/0/1")
    assert script.phase("j1") == "Stopping"
    assert script.scheduler.sites[A].errors == 1
    script.gone("j1/1/0/1")
    assert script.phase("j1") == "Placing"
    assert script.scheduler.sites[A].errors == 1


def test_a_site_that_is_there_and_never_answers_is_fenced(script: Script) -> None:
    script.tell(a_site("a", 4), a_job("j1", 4))
    script.running("j1")
    script.fence("j1/1/0/1").expect(StopClaim, claim="j1/1/0/1")
    script.fence("j1/1/0/1")
    assert script.phase("j1") == "Placing"
    assert script.scheduler.sites[A].errors == 1  # one silence is one error


def test_what_ended_well_before_the_stop_came_is_not_run_again(script: Script) -> None:
    script.heed(AcknowledgeClaim, PublishOutputs).tell(a_site("a", 4), a_job("j1", 4))
    script.running("j1")
    script.fence("j1/1/0/1").expect(StopClaim, claim="j1/1/0/1")
    script.exits("j1/1/0/1").drop()
    assert script.phase("j1") == "Finished"


def test_a_site_declared_lost_frees_its_jobs_at_once(script: Script) -> None:
    script.tell(a_site("a", 4), a_site("b", 4), a_job("j1", 4, 4))
    script.running("j1")
    script.disconnect("a").tell(SiteDeclaredLost(site=A, by=UserName("ann")))
    script.expect(StopClaim, claim="j1/1/1/1")
    assert script.phase("j1") == "Stopping"
    script.gone("j1/1/1/1")
    assert script.phase("j1") == "Placing"


def test_declaring_a_site_lost_ends_all_its_claims(script: Script) -> None:
    script.tell(a_site("a", 8), a_job("j1", 2, 2, 2)).drop().tell(a_job("j2", 1)).drop()
    script.tell(SiteDeclaredLost(site=A, by=UserName("ann"))).drop()
    assert not [c for c in script.scheduler.ledger.values() if c.attempt == 1 and c.job == "j1"]


# --- idle processors ---


def idle(script: Script) -> int:
    return script.scheduler.sites[A].idle()


def test_claims_asked_since_the_last_report_are_subtracted(script: Script) -> None:
    script.tell(a_site("a", 8), a_job("j1", 3)).claimed("j1")
    assert idle(script) == 5
    script.report("a", 5, through=1)
    assert idle(script) == 5
    script.tell(a_job("j2", 2)).claimed("j2")
    script.report("a", 5, through=1)
    assert idle(script) == 3
    script.report("a", 3, through=2)
    assert idle(script) == 3


def test_a_claim_that_ended_before_a_report_is_not_subtracted(script: Script) -> None:
    script.tell(a_site("a", 8), a_job("j1", 3)).claimed("j1")
    script.gone("j1/1/0/1", EndKind.FAILED).cancel("j1")
    assert idle(script) == 8


def test_a_report_of_a_disconnected_site_is_ignored(script: Script) -> None:
    script.tell(a_site("a", 8)).disconnect("a")
    script.unchanged_by(SiteReported(site=A, idle=1, through=0, rtt_s=0.0))


# --- restarts ---


@pytest.mark.parametrize(
    "phase",
    ["Delayed", "Placing", "Claiming", "Starting", "Releasing", "Running", "Stopping"],
)
def test_a_restart_loses_nothing_in_any_phase(begin: Begin, phase: str) -> None:
    """The inventory says again what was; the job goes on to its end."""
    script = in_phase(begin, phase).ignore(ArmClaim, ReleaseClaim)
    ledger = list(script.scheduler.ledger)
    script.tell(DaemonStarted(epoch=2))
    assert script.phase("j1") == phase
    assert list(script.scheduler.ledger) == ledger
    assert not script.scheduler.sites[A].is_connected
    script.tell(a_site("a", 4, idle=0))
    assert script.phase("j1") == phase
    wanted = script.scheduler.wanted(A)
    named = [hold.claim for hold in wanted.holds] + [stop.claim for stop in wanted.stops]
    assert sorted(named) == sorted(ledger)
    assert len(wanted.releases) == (2 if phase in ("Releasing", "Running") else 0)


def test_after_a_restart_grants_heard_in_the_inventory_let_the_job_go_on(script: Script) -> None:
    script.tell(a_site("a", 4), a_job("j1", 2, 2))
    claims = script.claimed("j1")
    script.tell(DaemonStarted(epoch=2), a_site("a", 4)).grant(*claims)
    number, _ = script.armings("j1")
    assert number.epoch == 2
    script.drop()


# --- late, doubled, foreign ---


def strangers() -> list[Event]:
    """Events about things that are over or never were."""
    claims = [ClaimId(c) for c in ("j1/1/0/9", "j1/9/0/1", "j9/1/0/1", "nonsense", "")]
    events: list[Event] = []
    for claim in claims:
        events += [
            ClaimGranted(claim=claim, nonce="x"),
            ClaimArmed(claim=claim, number=NUMBER),
            ClaimPassed(claim=claim, passed_at=1.0),
            ClaimGone(claim=claim, end=END),
            ClaimFenced(claim=claim),
        ]
    return [
        *events,
        TransferFinished(transfer=TransferId("j1/9/t1"), size_bytes=9, took_s=1.0),
        TransferFailed(transfer=TransferId("j1/9/t1"), at=A, reason="?"),
        SiteDisconnected(site=SiteName("nowhere")),
        SiteDrained(site=SiteName("nowhere"), by=UserName("ann")),
        SiteReported(site=SiteName("nowhere"), idle=3, through=1),
        ReplicaRemoved(file=FileName("nothing"), site=A),
    ]


@pytest.mark.parametrize("phase", ["Placing", "Claiming", "Starting", "Running", "Stopping"])
def test_foreign_events_change_nothing(begin: Begin, phase: str) -> None:
    in_phase(begin, phase).unchanged_by(*strangers())


def test_doubled_events_change_nothing(script: Script) -> None:
    script.ignore(PublishOutputs).tell(a_site("a", 4), a_site("b", 4), a_job("j1", 4, 4))
    claims = script.claimed("j1")
    script.grant(*claims)
    script.unchanged_by(*(ClaimGranted(claim=ClaimId(c), nonce="other") for c in claims))
    number, _ = script.armings("j1")
    script.arm(claims[0], number)
    script.unchanged_by(ClaimArmed(claim=ClaimId(claims[0]), number=number))
    script.arm(claims[1], number).drop()
    script.passed(claims[0])
    script.unchanged_by(ClaimPassed(claim=ClaimId(claims[0]), passed_at=99.0))
    script.unchanged_by(ClaimArmed(claim=ClaimId(claims[0]), number=number))
    script.passed(claims[1]).exits(claims[0])
    gone = ClaimGone(claim=ClaimId(claims[0]), end=END)
    script.unchanged_by(gone, ClaimFenced(claim=ClaimId(claims[0])))
    script.exits(claims[1])
    script.unchanged_by(gone, ClaimGranted(claim=ClaimId(claims[0]), nonce="x"))
    assert script.phase("j1") == "Finished"


def test_answers_of_an_earlier_attempt_do_not_touch_the_next(script: Script) -> None:
    script.tell(a_site("a", 4), a_site("b", 4), a_job("j1", 4, 4)).claimed("j1")
    script.report("a", 0).gone("j1/1/0/1", EndKind.FAILED).drop().at(1)
    assert script.job("j1").attempts == 1
    script.tell(a_site("c", 8)).drop()
    assert script.job("j1").attempts == 2
    script.tell(ClaimGranted(claim=ClaimId("j1/1/1/1"), nonce="x"))  # for the account alone
    script.unchanged_by(
        ClaimArmed(claim=ClaimId("j1/1/1/1"), number=NUMBER),
        ClaimPassed(claim=ClaimId("j1/1/1/1"), passed_at=1.0),
        ClaimFenced(claim=ClaimId("j1/1/0/1")),
    )
    script.gone("j1/1/1/1", EndKind.VANISHED).expect_nothing()
    assert script.phase("j1") == "Claiming"


# --- wanted ---


def test_wanted_is_what_the_actions_told(script: Script) -> None:
    script.tell(a_site("a", 4), a_site("b", 4), a_job("j1", 4, a_component(4, "b")))
    assert script.scheduler.wanted(A).holds == (script.expect(ClaimProcessors, site="a"),)
    hold = script.expect(ClaimProcessors, site="b")
    assert script.scheduler.wanted(SiteName("b")).holds == (hold,)
    script.grant("j1/1/0/1", "j1/1/1/1")
    assert script.scheduler.wanted(A).holds[0].is_granted
    number, claims = script.armings("j1")
    for claim in claims:
        script.arm(claim, number)
    assert script.scheduler.wanted(A).releases == (script.expect(ReleaseClaim, site="a"),)
    script.expect(ReleaseClaim, site="b")
    script.cancel("j1")
    assert script.scheduler.wanted(A).stops == (script.expect(StopClaim, site="a"),)
    assert not script.scheduler.wanted(A).holds
    script.expect(StopClaim, site="b")
    script.gone("j1/1/0/1")
    wanted = script.scheduler.wanted(A)
    assert wanted == Wanted()


def test_transfers_are_wanted_at_both_ends(begin: Begin) -> None:
    script = begin(bandwidth_default_bps=10.0)
    script.tell(a_site("home", 1), a_site("a", 4)).replica("data", "home")
    script.tell(a_job("j1", 4, file="data"))
    told = script.expect(StartTransfer)
    assert script.scheduler.wanted(A).fetches == (told,)
    assert script.scheduler.wanted(SiteName("home")).serves == (told,)
    script.fetched("j1/1/t1").drop()
    assert script.scheduler.wanted(A).fetches == (told,)  # to be kept until the attempt ends


def test_bandwidth_is_learnt_from_what_was_observed(begin: Begin) -> None:
    script = begin(bandwidth_default_bps=1000.0)
    script.tell(a_site("home", 1), a_site("a", 4)).replica("data", "home", 1_000_000)
    script.tell(a_job("j1", 4, file="data")).drop()
    script.fetched("j1/1/t1", size_bytes=1_000_000, took_s=10.0).drop()
    script.cancel("j1").drop().gone("j1/1/0/1").drop()
    script.tell(a_job("j2", 4, file="data")).drop()
    attempt = script.job("j2").attempt
    assert attempt is not None
    assert attempt.transfer_s == 10.0


def test_a_link_slower_than_thought_is_learnt_from_copies_that_were_cut_short(
    begin: Begin,
) -> None:
    """The hold ends before the file is there; without this the next attempt would do the same."""
    script = begin(bandwidth_default_bps=100_000.0).ignore(StartTransfer)
    script.tell(a_site("home", 1), a_site("a", 4)).replica("data", "home", 1_000_000)
    script.tell(a_job("j1", 4, file="data", max_hold_s=10.0)).at(7.5)
    script.grant(*script.claimed("j1")).at(17.5).gone("j1/1/0/1", EndKind.HOLD)
    script.expect(CancelTransfer)
    script.at(18.5)
    attempt = script.job("j1").attempt
    assert attempt is not None
    assert attempt.transfer_s == 35.0  # half done after 17.5 s, for all we know


def test_a_copy_that_was_cut_short_in_time_teaches_nothing(begin: Begin) -> None:
    script = begin(bandwidth_default_bps=100_000.0).ignore(StartTransfer, CancelTransfer)
    script.tell(a_site("home", 1), a_site("a", 4)).replica("data", "home", 1_000_000)
    script.tell(a_job("j1", 4, file="data")).at(5).cancel("j1")
    assert not script.scheduler.files.bandwidth


def test_the_time_while_the_daemon_was_away_teaches_nothing(begin: Begin) -> None:
    """Nor does a step of the clock between its lives: no next copy is thought to take hours."""
    script = begin(bandwidth_default_bps=100_000.0).ignore(StartTransfer, CancelTransfer)
    script.tell(a_site("home", 1), a_site("a", 4)).replica("data", "home", 1_000_000)
    script.tell(a_job("j1", 4, file="data")).at(5)
    script.tell(DaemonStarted(epoch=2), a_site("home", 1), a_site("a", 4)).drop().at(7.5)
    script.grant(*script.claimed("j1")).at(12).drop()
    assert script.scheduler.files.transfers
    script.cancel("j1").drop()  # after 12 s of 10, of which it saw 7
    assert not script.scheduler.files.transfers
    assert not script.scheduler.files.bandwidth


@pytest.mark.parametrize("end", ["home", "a"])
@pytest.mark.parametrize("comes_back", [True, False])
def test_the_time_while_one_end_was_away_teaches_nothing(
    begin: Begin, end: str, comes_back: bool
) -> None:
    """A copy of a second waits for its site for an hour; the next one is not thought to."""
    script = begin(bandwidth_default_bps=100_000.0).ignore(StartTransfer, CancelTransfer, StopClaim)
    script.tell(a_site("home", 1), a_site("a", 4)).replica("data", "home", 1_000_000)
    script.tell(a_job("j1", 4, file="data", max_hold_s=3600.0)).at(7.5)
    script.grant(*script.claimed("j1")).at(8).disconnect(end).at(60)
    if comes_back:
        script.tell(a_site(end, 4))
    script.at(62).cancel("j1")
    assert not script.scheduler.files.transfers
    assert not script.scheduler.files.bandwidth


def test_a_copy_that_was_done_long_ago_teaches_nothing_when_its_attempt_ends(begin: Begin) -> None:
    script = begin(bandwidth_default_bps=100_000.0).ignore(StartTransfer, CancelTransfer)
    script.tell(a_site("home", 1), a_site("a", 4)).replica("data", "home", 1_000_000)
    script.tell(a_job("j1", 4, file="data")).at(5)
    script.fetched("j1/1/t1", size_bytes=1_000_000, took_s=5.0).drop().at(7)
    script.at(7.5).drop().cancel("j1").drop()
    assert list(script.scheduler.files.bandwidth.values()) == [200_000.0]
