"""The event loop: one task that owns the scheduler.

It drives the group commit (`group_commit`). The items in the inbox form one batch, which is
committed in one transaction; only then are its answers and actions released. While a commit is
under way the next batch gathers, so many small events share one commit.

- Between two batches only `ask` reads or changes the scheduler, so clients see durable state only.
- It has a loop of its own (not `common.runtime.driver`), because a batch ends with answers to its
  callers, and because its inbox is bounded.
- A failed commit or a failed assertion ends the loop before anything of its batch has left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from koala.common.runtime.clock import Clock
from koala.common.runtime.driver import wait_until
from koala.core.scheduler import Scheduler
from koala.daemon.loop.group_commit import (
    BatchContext,
    DurableBatch,
    GroupCommit,
    Receiver,
    Retention,
    T,
)
from koala.daemon.storage.journal import Journal
from koala.daemon.storage.records import Batch, Notice
from koala.errors import KoalaError, UnreachableError

STOPS = "the daemon is shutting down"
FAILED = "the daemon has failed, and its log says why; all that it has accepted is kept"
"""What calls that still wait at the end are told."""


class EventLoop(GroupCommit):
    """The task that handles batches: `run` until cancelled; the other methods add to its inbox."""

    def __init__(
        self,
        scheduler: Scheduler,
        journal: Journal,
        clock: Clock,
        *,
        digest: Callable[[Scheduler], str],
        jobs: int,
        receiver: Receiver | None = None,
        observe: Callable[[DurableBatch], None] | None = None,
        retention: Retention | None = None,
    ) -> None:
        super().__init__(
            scheduler,
            journal,
            clock,
            digest=digest,
            jobs=jobs,
            receiver=receiver,
            observe=observe,
            retention=retention,
        )
        self._journal = journal
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._is_closing = False
        self._failure: KoalaError | None = None
        self._is_over = False
        self._answers: set[asyncio.Future[Any]] = set()  # with a waiting caller

    # --- the inbox --------------------------------------------------------------------------------

    async def ask(self, decide: Callable[[BatchContext], T]) -> T:
        """Call `decide` within a batch and return its result once all events it emitted are
        durable.

        Waits while the inbox is full. The caller may be cancelled; its events stay emitted.
        """
        if self._is_over:
            raise UnreachableError(self.why_over)
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._answers.add(answer)
        answer.add_done_callback(self._answers.discard)

        def resolve(result: T, error: KoalaError | None) -> None:
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result)

        await self.wait_for_room()
        self.post(decide, resolve)
        return await answer

    async def wait_for_room(self) -> None:
        """Wait until the inbox has room for another item."""
        while len(self._inbox) >= self.inbox_max:
            self._room.clear()
            await self._room.wait()

    def on_arrival(self) -> None:
        """Wake the loop."""
        self._arrived.set()

    @property
    def has_failed(self) -> bool:
        """True when no further question will be answered."""
        return self._has_failed

    @property
    def why_over(self) -> str:
        """Reason why no question is answered after the end: a failure, unless it was closed."""
        return STOPS if self._is_closing and not self._has_failed else FAILED

    def fail(self, error: KoalaError) -> None:
        """Make `run` raise this error before it commits anything more."""
        self._failure = error
        self._has_failed = True
        self._arrived.set()

    def close(self) -> None:
        """Make `run` return when the inbox is empty."""
        self._is_closing = True
        self._arrived.set()

    # --- the one task -----------------------------------------------------------------------------

    async def run(self) -> None:
        """Handle batches until closed, and leave a snapshot for the next start.

        Raises JournalError when a commit fails; pending callers of `ask` then get an
        UnreachableError.
        """
        try:
            await self._run()
        finally:
            self._is_over = True
            for answer in tuple(self._answers):
                if not answer.done():
                    answer.set_exception(UnreachableError(self.why_over))

    async def _run(self) -> None:
        while not (self._is_closing and not self._inbox):
            await self._wait()
            if self._failure is not None:
                raise self._failure
            items = self.handle_batch()
            if len(self._inbox) < self.inbox_max:
                self._room.set()
            notices = await self._commit()
            self.deliver(items, notices)
        snapshot = self.snapshot()
        if snapshot is not None and self._seq > self._snapshot_seq:
            await self._journal.commit(Batch(records=(), snapshot=snapshot))

    async def _wait(self) -> None:
        """Wait until the inbox has an item or a timer of the scheduler is due."""
        if self._inbox or self._is_closing or self._failure is not None:
            return
        self._arrived.clear()
        await wait_until(self._arrived, self.wake_at, self._clock.now)

    async def _commit(self) -> Sequence[Notice]:
        """Make the batch durable and return the notices that may be published now."""
        batch = self.prepare_commit()
        if batch is None:
            await asyncio.sleep(0)  # only reads: yield to other tasks between batches
            return ()
        try:
            await self._journal.commit(batch)
        except BaseException:
            self.on_commit_failed()
            raise
        self.on_committed(batch)
        return batch.notices
