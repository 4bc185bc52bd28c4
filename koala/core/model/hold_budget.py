"""The hold budget: processor-seconds that claims may hold before their barrier, over a rolling day.

A claim is charged in full when it is made; the unused part is refunded at the pass or the end. So a
budget bounds the possible loss, not only the actual one.

What stays charged is kept by periods, not by claims, so that a budget takes the same memory under
any load. It is forgotten when the newest charge of its period is a day old.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from koala.core.model.values import ClaimId, Instant

WINDOW_S = 86_400.0
PERIOD_S = 300.0


@dataclass(slots=True)
class BudgetCharge:
    """Charge of a claim whose hold is not over."""

    at: Instant
    processor_s: float


class Budget:
    """The charges of one payer (a user or a site)."""

    __slots__ = ("_charges", "_order", "spent_s")

    def __init__(self) -> None:
        self._charges: dict[ClaimId, BudgetCharge] = {}
        self._order: deque[tuple[Instant, float]] = deque()  # by period, the newest last
        self.spent_s = 0.0

    def __contains__(self, claim: ClaimId) -> bool:
        """Return True if the claim was charged and its hold is not over."""
        return claim in self._charges

    def allows(self, processor_s: float, *, limit_s: float, now: Instant) -> bool:
        """Return True if a charge would stay within the limit now."""
        self._forget(now)
        return self.spent_s + processor_s <= limit_s

    def charge(self, claim: ClaimId, processor_s: float, now: Instant) -> None:
        """Charge a new claim in full."""
        self._forget(now)
        self._charges[claim] = BudgetCharge(now, processor_s)
        self.spent_s += processor_s

    def refund(self, claim: ClaimId, used_s: float) -> None:
        """Refund the unused part of a hold that is over; the rest stays charged for a day."""
        charge = self._charges.pop(claim, None)
        if charge is None:
            return
        kept_s = min(used_s, charge.processor_s)
        self.spent_s += kept_s - charge.processor_s
        if kept_s > 0:
            self._keep(charge.at, kept_s)

    def _keep(self, at: Instant, kept_s: float) -> None:
        """Add to what stays charged of the period of an instant; later periods are few, because
        holds are short."""
        order, period = self._order, at // PERIOD_S
        place = len(order)
        while place and order[place - 1][0] // PERIOD_S > period:
            place -= 1
        if place and order[place - 1][0] // PERIOD_S == period:
            newest_at, sum_s = order[place - 1]
            order[place - 1] = (max(at, newest_at), sum_s + kept_s)
        else:
            order.insert(place, (at, kept_s))

    def _forget(self, now: Instant) -> None:
        while self._order and self._order[0][0] <= now - WINDOW_S:
            self.spent_s -= self._order.popleft()[1]
