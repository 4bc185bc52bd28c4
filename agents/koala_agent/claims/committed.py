"""What may be said of a site's claims: only what is stored, and which asks the figures include.

Pure. The agent tells the daemon what a crash cannot undo; so inventories are made from this book,
which is written after the store, and not from the table, which runs ahead of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from koala_agent.claims.events import Forget, StoreClaim
from koala_agent.claims.messages import ClaimId, Hold, KvPut, Report
from koala_agent.claims.states import Asked, Claim, inventory_of


class CommittedClaims:
    """The claims as they are stored; `number` says what the site's batch system calls one."""

    def __init__(self, restored: Iterable[Claim], *, number: Callable[[str], str]) -> None:
        self.stored = {claim.id: claim for claim in restored}
        self._number = number
        self._highest_ask = 0
        self._asks: dict[ClaimId, int] = {}  # those that are not in the site's figures yet

    @property
    def asked_through(self) -> int:
        """The highest ask number such that it and all before it are in the site's figures."""
        return max(0, min(self._asks.values(), default=self._highest_ask + 1) - 1)

    def asked(self, hold: Hold, *, is_known: bool) -> None:
        """The daemon asks for a claim."""
        self._highest_ask = max(self._highest_ask, hold.ask_number)
        if not is_known and not hold.is_granted:
            self._asks[hold.claim] = hold.ask_number

    def submitted(self, claim: ClaimId) -> None:
        """The local manager has answered, whatever it was: the figures are with or without it."""
        self._asks.pop(claim, None)

    def wrote(self, write: StoreClaim | Forget) -> None:
        """This is stored. Whatever is beyond Asked is in the site's figures."""
        match write:
            case StoreClaim(claim=claim):
                self.stored[claim.id] = claim
                if not isinstance(claim.state, Asked):
                    self._asks.pop(claim.id, None)
            case Forget(claim=claim_id):
                del self.stored[claim_id]

    def told(self, report: Report) -> Report:
        """A report as it goes out: with what the site's own records call the claim's batch job."""
        if report.end is not None:
            self._asks.pop(report.claim, None)
        return replace(report, batch_job=self._number(report.claim))

    def inventory(self) -> list[Report | KvPut]:
        """All that is stored, as reports."""
        return [
            self.told(said) if isinstance(said, Report) else said
            for said in inventory_of(self.stored.values())
        ]
