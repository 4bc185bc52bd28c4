"""Feed of notices for watchers: the newest from memory, older ones from the journal.

A watcher is a cursor, not a queue, so a watcher that does not read costs nothing. One that falls
behind the notices in memory is cut. It resumes from the journal by its last number, without a gap.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence

from koala.daemon.storage.journal import Journal
from koala.daemon.storage.records import Notice
from koala.errors import RejectedError, SpecError

RECENT_MAX = 20_000
LOT_MAX = 100
"""Notices in one batch, for watchers that lag or read in batches."""
LOTS_PER_S = 2_000
"""Batches a second for all watchers together; many watchers get fewer and longer ones each."""


class CutError(Exception):
    """The watcher must resume after notice `after`."""

    def __init__(self, reason: str, after: int) -> None:
        self.after = after
        super().__init__(f"{reason}; resume after {after}")


class EventFeed:
    """Feed of durable notices: `publish` appends, `since` reads on from a number."""

    def __init__(self, journal: Journal) -> None:
        self.last = journal.notice_number
        self.watchers = 0
        self._journal = journal
        self._recent: deque[Notice] = deque(maxlen=RECENT_MAX)
        self._changed = asyncio.Event()
        self._closed_for = ""

    def publish(self, notices: Sequence[Notice]) -> None:
        """Append notices and wake the watchers."""
        self._recent.extend(notices)
        self.last = notices[-1].number
        self._wake()

    def close(self, reason: str) -> None:
        """Cut all watchers once they have received the remaining notices."""
        self._closed_for = reason
        self._wake()

    def start(self, after: int) -> int:
        """Return the number after which a watch begins. Raises SpecError, RejectedError."""
        if after < -1:
            raise SpecError(f"after = {after} (expected -1 or more)")
        first = self._journal.first_notice
        if after == -1:
            return self.last
        if after == 0:
            return first - 1
        if after > self.last:
            raise SpecError(f"after = {after}: the last notice is {self.last}")
        if after < first - 1:
            raise RejectedError(f"notices after {after} are not kept any more; first: {first}")
        return after

    async def since(
        self, after: int, *, is_watcher: bool = True
    ) -> AsyncGenerator[Sequence[Notice], None]:
        """Yield batches of all later notices in order, then wait for new ones; only watchers
        count. Raises CutError."""
        is_live = False
        self.watchers += is_watcher
        try:
            while True:
                batch = self._from_memory(after)
                if batch is None:
                    if is_live:
                        raise CutError("too slow", after)
                    batch = await self._journal.notices(after, LOT_MAX)
                    if batch and batch[0].number > after + 1:
                        raise CutError("what comes next is not kept any more", after)
                if batch:
                    yield batch
                    after = batch[-1].number
                    continue
                if self._closed_for:
                    raise CutError(self._closed_for, after)
                is_live = True
                await self._changed.wait()
        finally:
            self.watchers -= is_watcher

    @property
    def pause_s(self) -> float:
        """Seconds that a watcher of batches rests after each."""
        return self.watchers / LOTS_PER_S

    def _from_memory(self, after: int) -> list[Notice] | None:
        """Return the next notices from memory; None when it does not reach back that far."""
        if after >= self.last:
            return []
        if not self._recent or self._recent[0].number > after + 1:
            return None
        first = after + 1 - self._recent[0].number
        return [self._recent[i] for i in range(first, min(first + LOT_MAX, len(self._recent)))]

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
