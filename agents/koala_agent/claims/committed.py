"""Committed view of a site's claims, the source of everything that is reported. Pure.

Reports rest on what a crash cannot undo. So inventories are made from this view, which changes
after the store was written, and not from the claim table, which runs ahead. The view also tracks
which asks the site's figures include.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from koala.common.protocol.messages import Hold, KvPut, Report
from koala.common.protocol.names import ClaimId
from koala_agent.claims.events import Forget, StoreClaim
from koala_agent.claims.states import Asked, Claim, inventory_of


class CommittedClaims:
    """Claims as they are stored; `number` looks up the batch system's number of a claim's job."""

    def __init__(self, restored: Iterable[Claim], *, number: Callable[[str], str]) -> None:
        self.stored = {claim.id: claim for claim in restored}
        self._number = number
        self._highest_ask = 0
        self._asks: dict[ClaimId, int] = {}  # those that are not in the site's figures yet

    @property
    def asked_through(self) -> int:
        """The highest number up to which the site's figures include all asks."""
        return max(0, min(self._asks.values(), default=self._highest_ask + 1) - 1)

    def note_ask(self, hold: Hold, *, is_known: bool) -> None:
        """Note an ask of the daemon."""
        self._highest_ask = max(self._highest_ask, hold.ask_number)
        if not is_known and not hold.is_granted:
            self._asks[hold.claim] = hold.ask_number

    def note_submitted(self, claim: ClaimId) -> None:
        """Note the local manager's answer to a submission: the figures are now correct."""
        self._asks.pop(claim, None)

    def apply(self, write: StoreClaim | Forget) -> None:
        """Apply a durable write. A claim beyond Asked is included in the site's figures."""
        match write:
            case StoreClaim(claim=claim):
                self.stored[claim.id] = claim
                if not isinstance(claim.state, Asked):
                    self._asks.pop(claim.id, None)
            case Forget(claim=claim_id):
                del self.stored[claim_id]

    def with_batch_job(self, report: Report) -> Report:
        """Complete an outgoing report with the number of the claim's batch job."""
        if report.end is not None:
            self._asks.pop(report.claim, None)
        number = self._number(report.claim)
        return replace(report, batch_job=number) if number else report

    def inventory(self) -> list[Report | KvPut]:
        """Return everything that is stored, as reports."""
        return [
            self.with_batch_job(report) if isinstance(report, Report) else report
            for report in inventory_of(self.stored.values())
        ]
