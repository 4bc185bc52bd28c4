"""Cancels jobs, and those that are not wanted until they are gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from koala.common.runtime.structured_log import get_logger
from koala.errors import LocalManagerError
from koala_agent.lrm.batch.claim_tracking import TrackedClaim
from koala_agent.lrm.batch.manager_part import ManagerPart

CANCEL_AGAIN_S = 5.0
"""Time before a job that is not wanted, and still there, is cancelled once more."""
STAY_S = 60.0
"""Time after which a batch job is cancelled that goes on without its starter."""

log = get_logger()


class Cancellations(ManagerPart):
    """Cancellations of a batch manager."""

    async def _withdraw(self, number: str, account: str) -> None:
        answer = await self._breaker.act(self._dialect.withdraw(number), account)
        self._dialect.read_withdrawn(answer)

    async def cancel(self, tracked: TrackedClaim) -> None:
        """Cancel a claim's job. Raises LocalManagerError."""
        await self._withdraw(tracked.row.number, tracked.row.account)
        tracked.cancel_again_at = self._clock() + CANCEL_AGAIN_S

    async def cancel_unwanted(self) -> None:
        """Cancel unwanted jobs once more, and those that go on long after their starter."""
        for tracked in self._claims.all():
            row = tracked.row
            if row.end is not None or not tracked.is_listed:
                continue
            has_stayed = tracked.left_at is not None and self._clock() - tracked.left_at > STAY_S
            if (row.is_unwanted or has_stayed) and self._clock() >= tracked.cancel_again_at:
                await self._cancel_again(row.account, partial(self.cancel, tracked))
        for number, account in list(self._claims.unwanted.items()):
            await self._cancel_again(account, partial(self._withdraw, number, account))

    async def _cancel_again(self, account: str, cancel: Callable[[], Awaitable[None]]) -> None:
        if account in self._breaker.troubled:
            return
        try:
            await cancel()
        except LocalManagerError as error:
            if not account:
                raise
            log.debug("batch.not_cancelled", account=account, reason=str(error))
