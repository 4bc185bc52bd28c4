"""The claim table: claims with a known start."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from koala.common.protocol.messages import ClaimEnd, EndKind
from koala_agent.claims.events import BatchEnded, HoldOrdered, Submit, Withdraw
from koala_agent.lrm.local_manager import EndCause
from tests.agent.claims.table_script import CLAIM, STOP, TableScript, a_hold, gone


def a_booking(in_s: float, at: float = 1e9) -> HoldOrdered:
    ordered = a_hold(waits=True)
    hold = replace(ordered.hold, begins_at=at)
    return msgspec.structs.replace(ordered, hold=hold, begins_in_s=in_s)


def test_a_booked_claim_waits_for_its_start_and_does_not_move(script: TableScript) -> None:
    (submit,) = script.tell(a_booking(3600.0))
    assert isinstance(submit, Submit)
    assert submit.claim.hold.begins_at == 1e9
    script.restarted()
    script.tell(a_booking(3000.0, at=2e9))
    assert script.table.claims[CLAIM].hold.begins_at == 1e9
    (withdraw,) = script.tell(STOP)
    assert withdraw == Withdraw(claim=CLAIM)
    ended = BatchEnded(claim=CLAIM, cause=EndCause.WITHDRAWN)
    assert gone(script.tell(ended)) == ClaimEnd(kind=EndKind.STOPPED)


def test_a_booking_that_the_owner_does_not_allow_is_refused() -> None:
    for ahead_s, in_s, words in (
        (60.0, 61.0, "a booking 61 s ahead: site.booking_ahead_s allows 60 s here"),
        (0.0, 10.0, "this site books no processors (site.booking_ahead_s = 0)"),
        (60.0, -2.0, "a booking that was to begin 2 s ago"),
    ):
        script = TableScript(booking_ahead_s=ahead_s)
        refused = ClaimEnd(kind=EndKind.REFUSED, reason=words)
        assert gone(script.tell(a_booking(in_s))) == refused
