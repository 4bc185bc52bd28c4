"""The claim table: tickets, which wait as long as it takes, and the gates of claims."""

from __future__ import annotations

from koala.common.protocol.messages import ClaimEnd, EndKind, ReportState, Wait
from koala.common.protocol.names import ClaimId
from koala_agent.claims.events import (
    BatchFound,
    CheckedIn,
    GateFailed,
    HoldOrdered,
    Output,
    SendToDaemon,
    SetGate,
    StoreClaim,
    Submit,
    SubmitFailed,
    Withdraw,
    Woken,
)
from koala_agent.claims.states import Granted, Withdrawing, waits_of
from koala_agent.claims.table import REFUSED_TOLD_S, TICKET_RETRY_MAX_S, TICKET_S
from tests.agent.claims.table_script import CLAIM, TableScript, a_hold, reports

TICKET = a_hold(waits=True)
GATED = a_hold(waits=True, is_gated=True)
GATE = SetGate(claim=CLAIM, is_gated=True)
OPEN = SetGate(claim=CLAIM, is_gated=False)
FAILED = GateFailed(claim=CLAIM)
LISTED = BatchFound(claim=CLAIM)
NO_ANSWER = SubmitFailed(claim=CLAIM, reason="no answer", is_transient=True)


def orders(outputs: list[Output]) -> list[Output]:
    """List the orders to the local manager."""
    return [output for output in outputs if isinstance(output, Submit | SetGate | Withdraw)]


def pauses(script: TableScript, failed: GateFailed | SubmitFailed, times: int) -> list[float]:
    """List the pauses before an order that fails each time is given again."""
    found = []
    for _ in range(times):
        script.tell(failed)
        failed_at = script.at
        assert len(orders(script.wake())) == 1
        found.append(script.at - failed_at)
    return found


def is_at_rest(script: TableScript) -> bool:
    """Tell whether nothing is to be done but to withdraw the ticket after a day."""
    wake_at = script.table.wake_at
    return wake_at is None or wake_at >= TICKET_S


def test_a_ticket_that_nobody_asks_for_any_more_is_withdrawn(script: TableScript) -> None:
    script.tell(GATED)
    script.at = 0.9 * TICKET_S
    assert orders(script.tell(GATED)) == []  # the daemon says it again: another day
    assert orders(script.wake()) == [Withdraw(claim=CLAIM)]
    assert script.at == 1.9 * TICKET_S


def test_a_hold_with_another_gate_is_stored_and_then_carried_out(script: TableScript) -> None:
    script.tell(TICKET)
    outputs = script.table.handle(GATED, 1.0)
    assert [type(output) for output in outputs] == [StoreClaim, SetGate, SendToDaemon]
    assert outputs[1] == GATE
    (report,) = reports(outputs)
    assert report.state is ReportState.ASKED
    assert orders(script.tell(TICKET)) == [OPEN]


def test_a_gate_that_failed_is_set_again_later_and_later(script: TableScript) -> None:
    script.tell(TICKET, GATED)
    assert pauses(script, FAILED, 4) == [1.0, 2.0, 4.0, 8.0]
    assert max(pauses(script, FAILED, 2_000)) == TICKET_RETRY_MAX_S
    assert is_at_rest(script)


def test_an_order_after_failures_is_repeated_soon_again(script: TableScript) -> None:
    script.tell(TICKET, GATED)
    pauses(script, FAILED, 4)
    script.tell(FAILED)
    assert orders(script.tell(TICKET)) == [OPEN]
    assert is_at_rest(script)
    assert pauses(script, FAILED, 1) == [1.0]


def test_a_claim_with_a_grace_time_is_gated_again_within_it(script: TableScript) -> None:
    script.tell(a_hold(), a_hold(is_gated=True))
    assert pauses(script, FAILED, 4) == [1.0] * 4
    script.tell(FAILED)
    assert orders(script.wake()) == [Withdraw(claim=CLAIM)]


def test_the_gate_of_a_listed_claim_is_set_again_after_a_restart(script: TableScript) -> None:
    """Its order may have been lost with the agent."""
    script.tell(TICKET, GATED)
    script.restarted()
    assert script.tell(LISTED) == [GATE]
    script.tell(TICKET)
    script.restarted()
    assert script.tell(LISTED) == [OPEN]


def test_a_gate_is_in_the_submission_that_is_tried_again(script: TableScript) -> None:
    script.tell(TICKET, NO_ANSWER)
    assert orders(script.tell(GATED)) == [GATE], "the first one may have got through"
    (submit,) = script.wake()
    assert isinstance(submit, Submit)
    assert submit.claim.hold.is_gated


def test_a_submission_and_a_gate_that_failed_are_both_repeated(script: TableScript) -> None:
    script.tell(TICKET, NO_ANSWER, GATED, FAILED)
    repeated = orders(script.wake())
    assert [type(order) for order in repeated] == [SetGate, Submit]
    assert is_at_rest(script)


def test_a_submission_of_a_ticket_is_tried_later_and_later(script: TableScript) -> None:
    script.tell(TICKET)
    assert pauses(script, NO_ANSWER, 4) == [1.0, 2.0, 4.0, 8.0]


def another(number: int) -> HoldOrdered:
    return a_hold(ClaimId(f"j{number}/1/0/1"), waits=True)


def refusals(outputs: list[Output]) -> list[str]:
    return [report.end.reason for report in reports(outputs) if report.end is not None]


def test_so_many_tickets_may_wait() -> None:
    script = TableScript(tickets_max=2)
    for number in (1, 2):
        assert refusals(script.tell(another(number))) == []
    (reason,) = refusals(script.tell(another(3)))
    assert reason == "2 claims wait: site.tickets_max allows 2 here"
    assert script.table.trouble == f"a claim that was to wait here was refused: {reason}"
    assert refusals(script.tell(a_hold(ClaimId("j4/1/0/1")))) == []  # it has a grace time
    script.at += REFUSED_TOLD_S
    script.tell(Woken())
    assert script.table.trouble == ""


def test_so_much_may_be_held() -> None:
    (reason,) = refusals(TableScript(held_max=3).tell(another(1)))
    assert reason == "4 processors: site.held_share_max allows 3 held ones here"
    script = TableScript(held_max=7)
    for number in (2, 3):
        script.tell(another(number))
        script.tell(CheckedIn(claim=ClaimId(f"j{number}/1/0/1"), nonce="n"))
    assert isinstance(script.table.claims[ClaimId("j2/1/0/1")].state, Granted)
    reason = "4 processors beside 4 held: site.held_share_max allows 7 held ones here"
    refused = script.table.claims[ClaimId("j3/1/0/1")].state
    assert isinstance(refused, Withdrawing)
    assert refused.end == ClaimEnd(kind=EndKind.REFUSED, reason=reason)


def test_a_ticket_that_the_queue_does_not_take_is_told(script: TableScript) -> None:
    script.tell(TICKET)
    assert waits_of(script.table.claims.values()) == ()
    script.tell(NO_ANSWER)
    assert waits_of(script.table.claims.values()) == (Wait(claim=CLAIM, reason="no answer"),)
    assert script.table.trouble == "1 claims cannot be queued now: no answer"
    script.wake()  # sent again
    assert script.table.trouble == ""
