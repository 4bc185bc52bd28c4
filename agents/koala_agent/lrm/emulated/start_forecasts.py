"""Expected starts of the claims that wait at an emulated site."""

from __future__ import annotations

import math
from collections.abc import Callable

from koala.common.protocol.messages import Outlook, Wait
from koala.common.protocol.names import ClaimId
from koala.queue_model import LocalQueue
from koala_agent.lrm.emulated.local_load import LocalKey
from koala_agent.lrm.outlook import outlook_of

FORECAST_S = 10.0
"""How long a forecast is used while the waiting claims and their gates are the same: to run a long
queue forward takes milliseconds for each gated claim."""
OUTLOOK_S = 60.0
"""How long an outlook is used."""
SOURCE = "queue run forward"


class StartForecasts:
    """Forecasts of the queue, which are kept for a while."""

    def __init__(self, queue: LocalQueue[str | LocalKey], *, clock: Callable[[], float]) -> None:
        self._queue = queue
        self._clock = clock
        self._is_gated: dict[str, bool] = {}
        self._start_at: dict[str | LocalKey, float] = {}
        self._due_at = -math.inf
        self._outlook: tuple[Outlook, ...] = ()
        self._outlook_due_at = -math.inf

    def waits(self, *, is_known: Callable[[str], bool]) -> tuple[Wait, ...]:
        """Return the waits of all waiting claims; for those that wait for more than processors
        nothing `is_known`."""
        now, gated = self._clock(), self._queue.gated
        waiting = (*self._queue.order(), *self._queue.booked)
        is_gated = {key: key in gated for key in waiting if isinstance(key, str)}
        if is_gated != self._is_gated or now >= self._due_at:
            self._is_gated, self._due_at = is_gated, now + FORECAST_S
            self._start_at = self._queue.forecast([*is_gated], now)
        return tuple(
            self._wait(claim, now) if is_known(claim) else Wait(claim=ClaimId(claim))
            for claim in is_gated
        )

    def outlook(self) -> tuple[Outlook, ...]:
        """Return when further claims would start."""
        now = self._clock()
        if now >= self._outlook_due_at or (self._queue.waiting and not self._outlook):
            self._outlook_due_at = now + OUTLOOK_S
            self._outlook = outlook_of(self._queue, now)
        return self._outlook

    def _wait(self, claim: str, now: float) -> Wait:
        start_at = self._start_at[claim]
        if start_at == math.inf:
            return Wait(claim=ClaimId(claim))
        return Wait(claim=ClaimId(claim), start_in_s=max(0.0, start_at - now), source=SOURCE)
