"""The claim table as scripts: events in, outputs out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from koala.protocol.messages import (
    Acknowledge,
    Arm,
    ArmNumber,
    ClaimEnd,
    EndKind,
    Hold,
    KvAnswer,
    KvGet,
    KvPut,
    Pace,
    PathsReport,
    Peer,
    Ping,
    Pong,
    Program,
    Progress,
    Release,
    Report,
    ReportState,
    Stop,
    TryPaths,
)
from koala.protocol.names import ClaimId
from koala_agent.claims.events import (
    Adopted,
    BatchEnded,
    BatchFound,
    BatchUnlisted,
    CheckedIn,
    Collect,
    Collected,
    Dismissed,
    EndNoted,
    Event,
    Forget,
    HoldOrdered,
    LeasesSet,
    Output,
    SendToDaemon,
    SendToStarter,
    StarterArmed,
    StarterEnded,
    StarterLost,
    StarterPassed,
    StarterSaid,
    StoreClaim,
    Submit,
    SubmitFailed,
    WantedComplete,
    Withdraw,
    Woken,
)
from koala_agent.claims.folder import StarterRecord
from koala_agent.claims.pending_requests import REQUESTS_MAX
from koala_agent.claims.settings import Leases, Limits
from koala_agent.claims.states import Claim
from koala_agent.claims.table import PAUSE_MAX_S, ClaimTable
from koala_agent.lrm.port import EndCause

CLAIM = ClaimId("j1/1/0/1")
NUMBER = ArmNumber(epoch=1, counter=1)
RELEASE = Release(claim=CLAIM, number=NUMBER, release_at=100.0)
WELL = ClaimEnd(kind=EndKind.EXITED, statuses=(0,))
STOP = Stop(claim=CLAIM)
LOST = StarterLost(claim=CLAIM, nonce="n")
TELL_STOP = SendToStarter(claim=CLAIM, nonce="n", message=STOP)


def a_hold(
    claim: ClaimId = CLAIM, *, is_granted: bool = False, owner: str = "", **program: object
) -> HoldOrdered:
    wanted = Program(**{"executable": "/bin/true", **program})  # type: ignore[arg-type]
    hold = Hold(
        claim=claim,
        processors=4,
        hold_s=60.0,
        program=wanted,
        is_granted=is_granted,
        owner=owner,
    )
    return HoldOrdered(hold=hold, secret="s")


def an_arm(counter: int = 1) -> Arm:
    peer = Peer(
        component=0, label="", site="x", processors=1, processes=1, address="a", claim=CLAIM
    )
    number = ArmNumber(epoch=1, counter=counter)
    return Arm(claim=CLAIM, number=number, release_at=100.0, late_s=2.0, peers=(peer,))


class TableScript:
    """A table with a grace of 5 s; `at` is the instant of what follows."""

    def __init__(self, restored: list[Claim] | None = None, **limits: object) -> None:
        self.at = 0.0
        self.stored: dict[ClaimId, Claim] = {}
        self.limits = Limits(**limits)  # type: ignore[arg-type]
        self.table = self._table(restored or [])

    def _table(self, restored: list[Claim]) -> ClaimTable:
        return ClaimTable(limits=self.limits, leases=Leases(), now=self.at, restored=restored)

    def tell(self, *events: Event) -> list[Output]:
        """The outputs of the last event but what is stored, which is kept apart."""
        outputs: list[Output] = []
        for event in events:
            outputs = self.table.handle(event, self.at)
            for output in outputs:
                if isinstance(output, StoreClaim):
                    self.stored[output.claim.id] = output.claim
                elif isinstance(output, Forget):
                    del self.stored[output.claim]
        return [output for output in outputs if not isinstance(output, StoreClaim)]

    def wake(self) -> list[Output]:
        """At the very instant that the table asked for."""
        wake_at = self.table.wake_at
        assert wake_at is not None
        self.at = wake_at
        return self.tell(Woken())

    def restarted(self) -> None:
        """The agent dies and another one reads what was stored, from JSON."""
        body = msgspec.json.encode(list(self.stored.values()))
        self.table = self._table(msgspec.json.decode(body, type=list[Claim]))

    def held(self) -> None:
        self.tell(a_hold(), CheckedIn(claim=CLAIM, nonce="n"))

    def armed(self) -> None:
        self.held()
        self.tell(an_arm(), StarterArmed(claim=CLAIM, nonce="n", number=NUMBER))

    def passed(self, **program: object) -> None:
        self.tell(a_hold(**program), CheckedIn(claim=CLAIM, nonce="n"))  # type: ignore[arg-type]
        self.tell(an_arm(), StarterArmed(claim=CLAIM, nonce="n", number=NUMBER), RELEASE)
        self.tell(StarterPassed(claim=CLAIM, nonce="n", passed_at=100.0))


def batch_ended(cause: EndCause = EndCause.EXITED, **fields: object) -> BatchEnded:
    return BatchEnded(claim=CLAIM, cause=cause, **fields)  # type: ignore[arg-type]


def reports(outputs: list[Output]) -> list[Report]:
    told = [output.message for output in outputs if isinstance(output, SendToDaemon)]
    return [message for message in told if isinstance(message, Report)]


def told(outputs: list[Output]) -> list[object]:
    """List what the starter is told."""
    return [output.message for output in outputs if isinstance(output, SendToStarter)]


def gone(outputs: list[Output]) -> ClaimEnd:
    (report,) = reports(outputs)
    assert report.state is ReportState.GONE
    assert report.end is not None
    return report.end


@pytest.fixture
def script() -> TableScript:
    return TableScript()


# Hold and check in --------------------------------------------------------------------------------


def test_a_hold_is_written_down_and_then_submitted(script: TableScript) -> None:
    outputs = script.table.handle(a_hold(), 0.0)
    assert [type(output) for output in outputs] == [StoreClaim, Submit]


def test_a_hold_said_twice_is_submitted_once(script: TableScript) -> None:
    script.tell(a_hold())
    outputs = script.tell(a_hold())
    assert [report.state for report in reports(outputs)] == [ReportState.ASKED]
    assert len(outputs) == 1


def test_a_check_in_is_written_before_it_is_told(script: TableScript) -> None:
    script.tell(a_hold())
    outputs = script.table.handle(CheckedIn(claim=CLAIM, nonce="n"), 1.0)
    assert [type(output) for output in outputs] == [StoreClaim, SendToDaemon, SendToStarter]
    (report,) = reports(outputs)
    assert (report.state, report.nonce) == (ReportState.GRANTED, "n")
    assert told(outputs) == [Adopted(leases=Leases())]


def test_another_starter_of_a_bound_claim_is_sent_away(script: TableScript) -> None:
    """A batch job that the site started again must not run."""
    script.held()
    (dismissed,) = script.tell(CheckedIn(claim=CLAIM, nonce="other"))
    assert isinstance(dismissed, SendToStarter)
    assert dismissed.nonce == "other"
    assert isinstance(dismissed.message, Dismissed)


def test_a_starter_of_an_unknown_claim_is_sent_away(script: TableScript) -> None:
    assert isinstance(told(script.tell(CheckedIn(claim=CLAIM, nonce="n")))[0], Dismissed)


def test_a_claim_that_nobody_checks_in_for_is_refused_when_nothing_is_left(
    script: TableScript,
) -> None:
    script.tell(a_hold())
    assert script.table.wake_at == 5.0
    assert script.wake() == [Withdraw(claim=CLAIM)]
    assert gone(script.tell(batch_ended(EndCause.WITHDRAWN))).kind is EndKind.REFUSED


def test_a_check_in_after_the_withdrawal_was_written_is_sent_away(script: TableScript) -> None:
    script.tell(a_hold())
    script.wake()
    assert isinstance(told(script.tell(CheckedIn(claim=CLAIM, nonce="n")))[0], Dismissed)
    assert gone(script.tell(batch_ended(EndCause.WITHDRAWN))).kind is EndKind.REFUSED


def test_a_check_in_before_the_grace_time_ends_wins(script: TableScript) -> None:
    script.tell(a_hold())
    script.at = 4.9
    script.tell(CheckedIn(claim=CLAIM, nonce="n"))
    script.at = 6.0
    assert script.tell(Woken()) == []


def test_a_withdrawal_that_is_not_confirmed_is_ordered_again(script: TableScript) -> None:
    script.tell(a_hold())
    script.wake()
    assert script.wake() == [Withdraw(claim=CLAIM)]


def test_what_the_site_does_not_allow_is_refused_at_once() -> None:
    """Each refusal has the value, the key of the configuration, and what it allows."""
    cases: list[tuple[dict[str, Any], str]] = [
        ({"processors_max": 3}, "4 processors: site.largest_claim allows 3 here"),
        ({"hold_max_s": 59.0}, "a hold of 60 s: site.longest_hold_s allows 59 s here"),
        ({"users": ("ann",)}, "a claim of bob: accounts.user allows those of ann here"),
    ]
    for limits, reason in cases:
        end = gone(TableScript(**limits).tell(a_hold(owner="bob")))
        assert end == ClaimEnd(kind=EndKind.REFUSED, reason=reason)


def test_a_site_without_room_refuses_what_is_new_and_nothing_else(script: TableScript) -> None:
    full = replace(a_hold(), shortage="the agent's disk is nearly full")
    assert gone(script.tell(full)) == ClaimEnd(kind=EndKind.REFUSED, reason=full.shortage)
    granted = reports(script.tell(a_hold(), CheckedIn(claim=CLAIM, nonce="n")))
    assert reports(script.tell(full)) == granted, "what it has was taken before"


def test_the_users_whom_a_site_serves_are_named_a_few_at_a_time() -> None:
    limits: dict[str, Any] = {
        "users": tuple(f"u{i}" for i in range(7)),
        "users_key": "accounts.map",
    }
    assert gone(TableScript(**limits).tell(a_hold(owner=""))).reason == (
        "a claim of nobody: accounts.map allows those of u0, u1, u2, u3, u4 and 2 others here"
    )
    assert Submit in map(type, TableScript(**limits).tell(a_hold(owner="u6")))


def test_where_a_starter_checked_in_is_told_for_as_long_as_it_may_matter(
    script: TableScript,
) -> None:
    """The daemon puts the machines of an allocation into the bundles of all members."""
    hosts = (("n7", 2), ("n8", 1))
    first = CheckedIn(claim=CLAIM, nonce="n", address="10.0.0.7", hosts=hosts)
    found = reports(script.tell(a_hold(), first))
    # A connection that is made anew comes from wherever it comes from.
    script.tell(replace(first, address="192.168.0.1", hosts=()))
    found += [said for said in script.table.inventory() if isinstance(said, Report)]
    assert [(said.address, said.hosts) for said in found] == [("10.0.0.7", hosts)] * 2


# Unknown claims -----------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [STOP, RELEASE, an_arm(), a_hold(is_granted=True)])
def test_an_order_about_an_unknown_claim_is_answered_gone(
    script: TableScript, order: Event
) -> None:
    assert gone(script.tell(order)).kind is EndKind.UNKNOWN
    assert script.stored == {}


def test_a_claim_that_is_over_never_comes_back(script: TableScript) -> None:
    script.tell(a_hold(), SubmitFailed(claim=CLAIM, reason="no", is_transient=False))
    assert script.tell(Acknowledge(claim=CLAIM)) == [Forget(claim=CLAIM)]
    assert gone(script.tell(a_hold())).kind is EndKind.UNKNOWN


# The local manager --------------------------------------------------------------------------------


def test_an_error_of_the_local_manager_fails_the_claim(script: TableScript) -> None:
    outputs = script.tell(
        a_hold(), SubmitFailed(claim=CLAIM, reason="sbatch: invalid account", is_transient=False)
    )
    end = gone(outputs)
    assert (end.kind, end.reason) == (EndKind.FAILED, "sbatch: invalid account")


def test_a_wish_that_the_local_manager_does_not_grant_is_no_error_of_the_site(
    script: TableScript,
) -> None:
    """A job may name a queue that is not there: others must not lose the site for it."""
    reason = "sbatch: Invalid partition name specified"
    failed = SubmitFailed(claim=CLAIM, reason=reason, is_transient=False, is_refused=True)
    end = gone(script.tell(a_hold(), failed))
    assert (end.kind, end.reason) == (EndKind.REFUSED, reason)


def test_a_wish_with_which_a_job_never_starts_is_no_error_of_the_site(script: TableScript) -> None:
    end = gone(script.tell(a_hold(hosts=9), batch_ended(EndCause.WITHDRAWN)))
    assert end.kind is EndKind.REFUSED


def test_a_transient_error_is_tried_again_until_the_grace_time_ends(script: TableScript) -> None:
    script.tell(a_hold())
    failed = SubmitFailed(claim=CLAIM, reason="controller down", is_transient=True)
    tries = 0
    while True:
        script.tell(failed)
        (output,) = script.wake()
        if isinstance(output, Withdraw):
            break
        assert isinstance(output, Submit)
        tries += 1
    assert tries == 4
    end = gone(script.tell(batch_ended(EndCause.WITHDRAWN)))
    assert end.kind is EndKind.REFUSED
    assert "controller down" in end.reason


def test_a_refusal_after_a_submission_without_an_answer_is_confirmed_first(
    script: TableScript,
) -> None:
    """The first may have got through: then there is a batch job, whatever is said of the second."""
    script.tell(a_hold(), SubmitFailed(claim=CLAIM, reason="no answer", is_transient=True))
    assert isinstance(script.wake()[0], Submit)
    failed = SubmitFailed(claim=CLAIM, reason="limit reached", is_transient=False)
    assert script.tell(failed) == [Withdraw(claim=CLAIM)]
    end = gone(script.tell(batch_ended(EndCause.WITHDRAWN)))
    assert (end.kind, end.reason) == (EndKind.FAILED, "limit reached")


def test_a_batch_job_that_ends_before_the_check_in_fails_the_claim(script: TableScript) -> None:
    end = gone(script.tell(a_hold(), batch_ended(exit_status=127)))
    assert end.kind is EndKind.FAILED
    assert "127" in end.reason


def test_a_foreign_cancel_in_the_queue_is_the_sites(script: TableScript) -> None:
    end = gone(script.tell(a_hold(), batch_ended(EndCause.CANCELLED_BY_SITE)))
    assert end.kind is EndKind.SITE


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (EndCause.EXITED, EndKind.VANISHED),
        (EndCause.LOST, EndKind.VANISHED),
        (EndCause.CANCELLED_BY_SITE, EndKind.SITE),
        (EndCause.TIME_LIMIT, EndKind.SITE),
    ],
)
def test_a_batch_job_that_ends_without_a_word_of_its_starter(
    script: TableScript, cause: EndCause, kind: EndKind
) -> None:
    script.passed()
    outputs = script.tell(StarterLost(claim=CLAIM, nonce="n"), batch_ended(cause))
    assert gone(outputs).kind is kind
    assert reports(outputs)[0].passed_at == 100.0


def test_what_the_starter_wrote_down_says_how_it_ended(script: TableScript) -> None:
    """It passed and ended while the agent was away."""
    script.armed()
    record = StarterRecord(
        nonce="n", passed_at=100.0, end=ClaimEnd(kind=EndKind.EXITED, statuses=(4,))
    )
    outputs = script.tell(batch_ended(record=record))
    assert [type(output) for output in outputs if not isinstance(output, SendToStarter)] == [
        SendToDaemon,
        Collect,
    ]
    assert gone(script.tell(Collected(claim=CLAIM))).statuses == (4,)


def test_what_another_starter_wrote_down_says_nothing(script: TableScript) -> None:
    script.armed()
    script.tell(LOST)
    record = StarterRecord(nonce="other", passed_at=100.0, end=WELL)
    assert gone(script.tell(batch_ended(record=record))).kind is EndKind.VANISHED


def test_a_batch_job_that_nobody_knows_is_withdrawn(script: TableScript) -> None:
    assert script.tell(BatchFound(claim=CLAIM)) == [Withdraw(claim=CLAIM)]
    end = gone(script.tell(batch_ended(EndCause.WITHDRAWN)))
    assert (end.kind, end.reason) == (EndKind.STOPPED, "found in the local manager only")


# A batch system that counts as over what may live ------------------------------------------------


@pytest.mark.parametrize("cause", list(EndCause))
def test_a_connected_starter_lives_whatever_the_batch_system_says(
    script: TableScript, cause: EndCause
) -> None:
    """Slurm's steps outlive a slurmd that was killed: a Gone would let the next attempt begin
    beside them."""
    script.passed()
    assert script.tell(batch_ended(cause)) == [TELL_STOP]
    assert script.tell(batch_ended(cause)) == [TELL_STOP]
    script.tell(StarterEnded(claim=CLAIM, nonce="n", end=ClaimEnd(kind=EndKind.STOPPED)))
    assert gone(script.tell(batch_ended(cause))).kind is not EndKind.STOPPED or (
        cause is EndCause.WITHDRAWN
    )


def test_a_connection_that_goes_with_the_batch_job_was_the_last_of_it(script: TableScript) -> None:
    script.passed()
    assert script.tell(batch_ended(EndCause.CANCELLED_BY_SITE)) == [TELL_STOP]
    script.tell(LOST)
    assert script.wake() == [Withdraw(claim=CLAIM)]
    assert gone(script.tell(batch_ended(EndCause.CANCELLED_BY_SITE))).kind is EndKind.SITE


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_claim_on_a_machine_that_does_not_answer_is_gone_after_its_lease(
    script: TableScript, *, is_restarted: bool
) -> None:
    silent = batch_ended(EndCause.UNREACHABLE, reason="NODE_FAIL")
    script.passed()
    assert script.tell(LOST, silent) == []
    if is_restarted:
        script.restarted()
    while script.at < Leases().run_lease_s:
        assert script.wake() == [Withdraw(claim=CLAIM)]
        if script.at < Leases().run_lease_s:
            assert script.tell(silent) == []
    script.at += Leases().kill_s + PAUSE_MAX_S + 1.0
    end = gone(script.tell(silent))
    assert (end.kind, end.reason) == (EndKind.VANISHED, "NODE_FAIL")


def test_a_starter_that_comes_back_from_a_silent_machine_is_stopped(script: TableScript) -> None:
    silent = batch_ended(EndCause.UNREACHABLE, reason="NODE_FAIL")
    script.passed()
    script.tell(LOST, silent)
    outputs = script.tell(CheckedIn(claim=CLAIM, nonce="n", passed_at=100.0))
    assert outputs == [TELL_STOP]
    script.tell(StarterEnded(claim=CLAIM, nonce="n", end=ClaimEnd(kind=EndKind.STOPPED)))
    assert gone(script.tell(silent)).kind is EndKind.VANISHED


def test_a_hold_on_a_silent_machine_ends_with_its_shorter_lease(script: TableScript) -> None:
    script.held()
    script.tell(LOST, batch_ended(EndCause.UNREACHABLE))
    script.at += Leases().hold_lease_s + Leases().kill_s + PAUSE_MAX_S + 1.0
    assert gone(script.tell(batch_ended(EndCause.UNREACHABLE))).kind is EndKind.VANISHED


# The barrier --------------------------------------------------------------------------------------


def test_arm_and_release_are_passed_on_and_armed_is_written_first(script: TableScript) -> None:
    script.held()
    assert told(script.tell(an_arm())) == [an_arm()]
    outputs = script.table.handle(StarterArmed(claim=CLAIM, nonce="n", number=NUMBER), 1.0)
    assert [type(output) for output in outputs] == [StoreClaim, SendToDaemon]
    assert reports(outputs)[0].armed == NUMBER
    assert told(script.tell(RELEASE)) == [RELEASE]


def test_a_release_waits_here_for_a_starter_that_is_away(script: TableScript) -> None:
    script.armed()
    script.tell(StarterLost(claim=CLAIM, nonce="n"), RELEASE)
    script.restarted()
    back = CheckedIn(claim=CLAIM, nonce="n", armed=NUMBER)
    assert told(script.tell(back)) == [Adopted(leases=Leases()), RELEASE]


def test_a_pass_is_heard_from_a_starter_that_comes_back(script: TableScript) -> None:
    script.armed()
    script.restarted()
    outputs = script.tell(CheckedIn(claim=CLAIM, nonce="n", armed=NUMBER, passed_at=100.0))
    assert [report.state for report in reports(outputs)] == [ReportState.PASSED]


def test_armed_from_another_nonce_is_not_believed(script: TableScript) -> None:
    script.held()
    outputs = script.tell(StarterArmed(claim=CLAIM, nonce="other", number=NUMBER))
    assert reports(outputs) == []
    assert isinstance(told(outputs)[0], Dismissed)


# Stop ---------------------------------------------------------------------------------------------


def test_a_stop_before_the_check_in_withdraws(script: TableScript) -> None:
    assert script.tell(a_hold(), STOP) == [Withdraw(claim=CLAIM)]
    assert gone(script.tell(batch_ended(EndCause.WITHDRAWN))).kind is EndKind.STOPPED


def test_a_stop_is_told_to_the_starter_and_gone_waits_for_the_local_manager(
    script: TableScript,
) -> None:
    script.passed()
    assert told(script.tell(STOP)) == [STOP]
    stopped = ClaimEnd(kind=EndKind.STOPPED, statuses=(-15,))
    outputs = script.tell(StarterEnded(claim=CLAIM, nonce="n", end=stopped))
    assert reports(outputs) == []
    assert told(outputs) == [EndNoted()]
    end = gone(script.tell(batch_ended()))
    assert (end.kind, end.statuses) == (EndKind.STOPPED, (-15,))


def test_a_stop_for_a_starter_that_is_away_goes_through_the_local_manager(
    script: TableScript,
) -> None:
    """Its starter then tells the signal of the site, which is none: it was ours."""
    script.passed()
    outputs = script.tell(StarterLost(claim=CLAIM, nonce="n"), STOP)
    assert Withdraw(claim=CLAIM) in outputs
    script.tell(CheckedIn(claim=CLAIM, nonce="n", passed_at=100.0, end=ClaimEnd(kind=EndKind.SITE)))
    assert gone(script.tell(batch_ended(EndCause.WITHDRAWN))).kind is EndKind.STOPPED


def test_a_starter_that_does_not_obey_a_stop_is_withdrawn(script: TableScript) -> None:
    script.passed()
    script.tell(STOP)
    assert script.wake() == [Withdraw(claim=CLAIM)]
    assert script.at == 10.0


def test_a_program_that_ended_by_itself_before_the_stop_keeps_its_end(script: TableScript) -> None:
    script.passed()
    script.tell(STOP, StarterEnded(claim=CLAIM, nonce="n", end=WELL))
    (collect,) = script.tell(batch_ended())
    assert isinstance(collect, Collect)
    assert gone(script.tell(Collected(claim=CLAIM))) == WELL


def test_what_a_starter_wrote_down_before_the_stop_came_counts(script: TableScript) -> None:
    script.armed()
    script.tell(StarterLost(claim=CLAIM, nonce="n"), STOP)
    record = StarterRecord(nonce="n", passed_at=100.0, end=WELL)
    outputs = script.tell(batch_ended(EndCause.WITHDRAWN, record=record))
    assert [type(output) for output in outputs if isinstance(output, Collect)] == [Collect]
    assert gone(script.tell(Collected(claim=CLAIM))) == WELL


def test_a_starter_that_comes_back_hears_the_stop(script: TableScript) -> None:
    script.passed()
    script.tell(STOP)
    script.restarted()
    assert told(script.tell(CheckedIn(claim=CLAIM, nonce="n", passed_at=100.0))) == [STOP]


def test_a_pass_that_a_stop_did_not_prevent_is_told(script: TableScript) -> None:
    script.armed()
    script.tell(RELEASE, STOP)
    outputs = script.tell(StarterPassed(claim=CLAIM, nonce="n", passed_at=100.0))
    assert reports(outputs)[0].passed_at == 100.0
    stopped = ClaimEnd(kind=EndKind.STOPPED)
    script.tell(StarterEnded(claim=CLAIM, nonce="n", end=stopped))
    assert reports(script.tell(batch_ended()))[0].passed_at == 100.0


def test_what_the_daemon_does_not_name_is_stopped(script: TableScript) -> None:
    script.held()
    assert script.tell(WantedComplete(claims=frozenset([CLAIM]))) == []
    assert told(script.tell(WantedComplete(claims=frozenset()))) == [STOP]


def test_a_program_that_the_sites_cancel_killed_did_not_fail(script: TableScript) -> None:
    script.passed()
    killed = ClaimEnd(kind=EndKind.EXITED, statuses=(-15, 0))
    script.tell(StarterEnded(claim=CLAIM, nonce="n", end=killed))
    assert gone(script.tell(batch_ended(EndCause.CANCELLED_BY_SITE))).kind is EndKind.SITE


def test_a_program_that_our_withdrawal_killed_did_not_fail(script: TableScript) -> None:
    script.passed()
    killed = ClaimEnd(kind=EndKind.EXITED, statuses=(-15,))
    script.tell(STOP, StarterEnded(claim=CLAIM, nonce="n", end=killed))
    assert gone(script.tell(batch_ended(EndCause.WITHDRAWN))).kind is EndKind.STOPPED


# The end ------------------------------------------------------------------------------------------


def test_gone_is_told_again_until_it_is_acknowledged(script: TableScript) -> None:
    script.tell(a_hold(), SubmitFailed(claim=CLAIM, reason="no", is_transient=False))
    assert gone(script.wake()).kind is EndKind.FAILED
    assert gone(script.tell(STOP)).kind is EndKind.FAILED
    script.restarted()
    (report,) = script.table.inventory()
    assert isinstance(report, Report)
    assert report.state is ReportState.GONE
    assert script.tell(Acknowledge(claim=CLAIM)) == [Forget(claim=CLAIM)]
    assert script.table.wake_at is None


def test_an_acknowledgement_of_what_is_not_gone_changes_nothing(script: TableScript) -> None:
    script.held()
    assert script.tell(Acknowledge(claim=CLAIM)) == []
    assert CLAIM in script.stored


def test_outputs_are_brought_back_before_gone_is_told(script: TableScript) -> None:
    script.passed()
    assert reports(script.tell(StarterEnded(claim=CLAIM, nonce="n", end=WELL))) == []
    (collect,) = script.tell(batch_ended())
    assert isinstance(collect, Collect)
    assert gone(script.tell(Collected(claim=CLAIM))) == WELL


def test_an_output_that_is_missing_is_the_end_of_a_program_that_ended_well(
    script: TableScript,
) -> None:
    script.passed()
    script.tell(StarterEnded(claim=CLAIM, nonce="n", end=WELL), batch_ended())
    end = gone(script.tell(Collected(claim=CLAIM, reason="missing: a")))
    assert (end.kind, end.reason, end.statuses) == (EndKind.OUTPUT, "missing: a", (0,))


def test_an_output_that_is_missing_does_not_hide_a_failure(script: TableScript) -> None:
    script.passed()
    failed = ClaimEnd(kind=EndKind.EXITED, statuses=(1,))
    script.tell(StarterEnded(claim=CLAIM, nonce="n", end=failed), batch_ended())
    assert gone(script.tell(Collected(claim=CLAIM, reason="missing: a"))) == failed


def test_outputs_are_not_waited_for_for_ever(script: TableScript) -> None:
    script.passed()
    script.tell(StarterEnded(claim=CLAIM, nonce="n", end=WELL), batch_ended())
    script.at = 300.0
    assert gone(script.tell(Woken())).kind is EndKind.OUTPUT
    assert script.tell(Collected(claim=CLAIM)) == []


def test_while_outputs_are_on_their_way_the_agent_pings_for_the_claim(script: TableScript) -> None:
    """Nobody else is there who could, and to the daemon silence past the lease is the end."""
    script.passed()
    script.tell(StarterEnded(claim=CLAIM, nonce="n", end=WELL), batch_ended())
    for at in (60.0, 120.0, 180.0):
        ping = Ping(claim=CLAIM, nonce="n", sent_at=at)
        assert script.wake() == [SendToDaemon(message=ping)]
        assert script.at == at
    script.at = 190.0
    script.tell(LeasesSet(leases=Leases(run_lease_s=40.0)))  # a new session, of a new daemon
    assert [type(output) for output in script.wake()] == [SendToDaemon]
    assert script.at == 190.0
    script.wake()
    assert script.at == 195.0
    script.tell(Collected(claim=CLAIM))
    assert script.table.wake_at == 200.0  # the end is told again; there is nothing to ping for


def test_nobody_pings_for_what_failed_or_is_forgotten(script: TableScript) -> None:
    script.passed()
    failed = ClaimEnd(kind=EndKind.LEASE)
    script.tell(StarterEnded(claim=CLAIM, nonce="n", end=failed))
    assert script.table.wake_at == 30.0


def test_outputs_of_what_ended_well_are_brought_back_after_a_stop(script: TableScript) -> None:
    """A user who stops a job may find that it was done."""
    script.passed()
    script.tell(StarterEnded(claim=CLAIM, nonce="n", end=WELL), batch_ended())
    assert reports(script.tell(STOP)) == []
    assert gone(script.tell(Collected(claim=CLAIM))) == WELL


def test_outputs_of_what_failed_are_not_brought_back_after_a_stop(script: TableScript) -> None:
    script.passed()
    failed = ClaimEnd(kind=EndKind.EXITED, statuses=(3,))
    script.tell(StarterEnded(claim=CLAIM, nonce="n", end=failed), batch_ended())
    assert gone(script.tell(STOP)) == failed


def test_collecting_begins_again_after_a_restart(script: TableScript) -> None:
    script.passed()
    script.tell(StarterEnded(claim=CLAIM, nonce="n", end=WELL), batch_ended())
    script.restarted()
    (collect,) = script.tell(BatchUnlisted(claim=CLAIM))
    assert isinstance(collect, Collect)


def test_a_batch_job_that_lingers_after_its_end_is_withdrawn(script: TableScript) -> None:
    script.passed()
    script.tell(StarterEnded(claim=CLAIM, nonce="n", end=WELL))
    assert script.wake() == [Withdraw(claim=CLAIM)]
    assert script.at == 30.0


def test_a_claim_written_but_not_submitted_is_submitted_after_a_restart(
    script: TableScript,
) -> None:
    script.tell(a_hold())
    script.at = 1_000.0
    script.restarted()
    (submit,) = script.tell(BatchUnlisted(claim=CLAIM))
    assert isinstance(submit, Submit)
    assert script.table.wake_at == 1_005.0


def test_a_claim_whose_starter_is_over_is_not_submitted_again_after_a_restart(
    script: TableScript,
) -> None:
    script.tell(a_hold())
    script.restarted()
    end = ClaimEnd(kind=EndKind.LEASE, reason="nobody answered")
    record = StarterRecord(nonce="n", end=end)
    outputs = script.tell(BatchUnlisted(claim=CLAIM, record=record))
    assert outputs == [Withdraw(claim=CLAIM)]
    assert gone(script.tell(batch_ended(EndCause.WITHDRAWN))) == ClaimEnd(
        kind=EndKind.FAILED, reason="the starter ended before it checked in: nobody answered"
    )


# Pings and values ---------------------------------------------------------------------------------


def test_pings_of_the_bound_starter_are_passed_on_and_answered(script: TableScript) -> None:
    script.held()
    (output,) = script.tell(
        StarterSaid(nonce="n", message=Ping(claim=CLAIM, nonce="n", sent_at=7.0))
    )
    assert output == SendToDaemon(message=Ping(claim=CLAIM, nonce="n", sent_at=7.0))
    assert (
        script.tell(
            StarterSaid(nonce="other", message=Ping(claim=CLAIM, nonce="other", sent_at=7.0))
        )
        == []
    )
    pong = Pong(claim=CLAIM, nonce="n", sent_at=7.0, now=100.0)
    assert told(script.tell(pong)) == [pong]


def test_new_leases_reach_the_starters_that_are_there(script: TableScript) -> None:
    script.held()
    leases = Leases(hold_lease_s=10.0, run_lease_s=20.0, kill_s=1.0)
    assert told(script.tell(LeasesSet(leases=leases))) == [Adopted(leases=leases)]
    assert script.tell(LeasesSet(leases=leases)) == []


def test_a_value_is_stored_and_said_again_in_the_inventory(script: TableScript) -> None:
    script.held()
    script.tell(StarterSaid(nonce="n", message=KvPut(claim=CLAIM, request=3, name="a", value="x")))
    script.restarted()
    put = KvPut(claim=CLAIM, request=0, name="a", value="x")
    assert put in script.table.inventory()


def test_an_answer_goes_back_under_the_starters_own_number(script: TableScript) -> None:
    script.held()
    script.tell(StarterSaid(nonce="n", message=KvPut(claim=CLAIM, request=9, name="a", value="x")))
    answer = KvAnswer(claim=CLAIM, request=1, ok=True)
    (told_back,) = told(script.tell(answer))
    assert told_back == KvAnswer(claim=CLAIM, request=9, ok=True)
    assert script.tell(answer) == []


def test_questions_are_asked_again_in_the_next_session(script: TableScript) -> None:
    script.held()
    (asked,) = script.tell(
        StarterSaid(nonce="n", message=KvGet(claim=CLAIM, request=1, name="a", wait_s=5.0))
    )
    assert asked == SendToDaemon(message=KvGet(claim=CLAIM, request=1, name="a", wait_s=5.0))
    assert script.tell(LeasesSet(leases=Leases())) == [asked]


def test_a_question_that_a_starter_repeats_is_asked_and_counted_once(script: TableScript) -> None:
    """It does after each loss of its line; a few losses must not use up what a claim may ask."""
    script.held()
    get = StarterSaid(nonce="n", message=KvGet(claim=CLAIM, request=1, name="a", wait_s=5.0))
    (asked,) = script.tell(get)
    assert [script.tell(get) for _ in range(REQUESTS_MAX)] == [[]] * REQUESTS_MAX
    assert script.tell(LeasesSet(leases=Leases())) == [asked]
    script.tell(KvAnswer(claim=CLAIM, request=1, ok=True))
    assert len(script.tell(get)) == 1, "the answer may have been lost"


def test_a_value_that_was_refused_is_not_said_again(script: TableScript) -> None:
    script.held()
    script.tell(StarterSaid(nonce="n", message=KvPut(claim=CLAIM, request=1, name="a", value="x")))
    script.tell(KvAnswer(claim=CLAIM, request=1, ok=False, error="has another value"))
    assert not any(isinstance(said, KvPut) for said in script.table.inventory())


def test_every_state_survives_the_way_to_disk() -> None:
    story: list[Event] = [
        a_hold(output_files=("a",), wall_time_s=60.0),
        CheckedIn(claim=CLAIM, nonce="n"),
        StarterArmed(claim=CLAIM, nonce="n", number=NUMBER),
        RELEASE,
        StarterPassed(claim=CLAIM, nonce="n", passed_at=100.0),
        StarterEnded(claim=CLAIM, nonce="n", end=WELL),
        batch_ended(),
        Collected(claim=CLAIM, reason="missing: a"),
    ]
    script = TableScript()
    for event in story:
        script.tell(event)
        before = script.table.inventory()
        assert before
        script.restarted()
        assert script.table.inventory() == before
        if isinstance(event, BatchEnded):
            script.tell(batch_ended())  # collecting begins again


# Paths --------------------------------------------------------------------------------------------

PATHS = TryPaths(claim=CLAIM, label="a1", address="here", listens=(29500,), targets=(), limit_s=5.0)
TELL_PATHS = SendToStarter(claim=CLAIM, nonce="n", message=PATHS)


def test_paths_are_for_the_starter_and_its_answer_for_the_daemon() -> None:
    script = TableScript()
    script.held()
    assert script.tell(PATHS) == [TELL_PATHS]
    assert script.tell(PATHS) == [TELL_PATHS]  # said again until it is answered
    answer = StarterSaid(
        nonce="n", message=PathsReport(claim=CLAIM, problem="a1 -> b1:29500 refused")
    )
    report = PathsReport(claim=CLAIM, problem="a1 -> b1:29500 refused")
    assert script.tell(answer) == [SendToDaemon(message=report)]
    stranger = StarterSaid(nonce="other", message=PathsReport(claim=CLAIM, problem=""))
    assert script.tell(stranger) == []


def test_a_starter_that_reconnects_hears_of_its_paths_until_it_is_armed() -> None:
    script = TableScript()
    script.held()
    script.tell(PATHS, StarterLost(claim=CLAIM, nonce="n"))
    assert TELL_PATHS in script.tell(CheckedIn(claim=CLAIM, nonce="n"))
    script.tell(an_arm(), StarterArmed(claim=CLAIM, nonce="n", number=NUMBER))
    assert TELL_PATHS not in script.tell(CheckedIn(claim=CLAIM, nonce="n", armed=NUMBER))
    assert script.tell(PATHS) == []


def test_paths_of_a_claim_that_is_over_are_answered_with_its_end() -> None:
    script = TableScript()
    script.held()
    script.tell(batch_ended())
    assert script.tell(PATHS) == script.tell(STOP)
    unknown = TryPaths(
        claim=ClaimId("j9/1/0/1"), label="", address="", listens=(), targets=(), limit_s=1.0
    )
    (told,) = reports(script.tell(unknown))
    assert told.end == ClaimEnd(kind=EndKind.UNKNOWN)


# Progress -----------------------------------------------------------------------------------------


def test_progress_is_told_and_not_kept_and_a_share_is_said_again_to_who_comes_back() -> None:
    script = TableScript()
    script.held()
    report = Progress(claim=CLAIM, cycle=3, work=1.5, is_told=False, can_pace=True)
    assert script.tell(StarterSaid(nonce="n", message=report)) == [SendToDaemon(message=report)]
    assert not any(isinstance(said, Progress) for said in script.table.inventory())
    pace = Pace(claim=CLAIM, share=0.5)
    told = SendToStarter(claim=CLAIM, nonce="n", message=pace)
    assert script.tell(pace) == [told]
    assert told in script.tell(CheckedIn(claim=CLAIM, nonce="n", passed_at=1.0))
