"""Group commit: all items that wait in the inbox become one batch and one journal transaction.

The driver calls these in order; nothing else changes the scheduler:

- `handle_batch` handles the waiting items.
- `prepare_commit` returns what must be made durable.
- `on_committed` records that it is.
- `deliver` releases actions, then answers, then notices.

A failed commit or a failed assertion ends the daemon before anything of its batch has left; the
journal restores what was durable before. No I/O, no loop and no clock other than the one passed in:
`event_loop` drives it in a daemon, tests drive it in simulated time.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from koala.common.runtime.clock import Clock
from koala.common.runtime.structured_log import get_logger
from koala.core.model.actions import Action, Announce
from koala.core.model.events import Event, Woken
from koala.core.model.job import Job
from koala.core.model.job_spec import JobSpec
from koala.core.model.values import Instant, JobId, Seconds
from koala.core.purge import CHUNK, PurgedJob, purge_ended_jobs
from koala.core.scheduler import Scheduler
from koala.core.snapshot import save
from koala.daemon.loop.gc_tuning import gc_paused
from koala.daemon.storage.records import Batch, Notice, Record, Snapshot
from koala.errors import KoalaError

INBOX_MAX = 10_000
BATCH_S_MAX = 0.02  # handling time; then the batch is committed and other tasks may run
WOKEN_MAX = 16  # in one batch: a timer that is always due again must not starve other items
# Pause after Woken, as a multiple of its duration: a scan of a long queue takes long, and items
# that arrive during the pause share the next scan.
WOKEN_REST = 4.0
WOKEN_REST_S_MAX = 0.1
DIGEST_EVERY = 1_000
DIGEST_SHARE_MAX = 0.02  # share of time: digests of a large state are less frequent
SNAPSHOT_SHARE_MAX = 0.05  # share of time: the more often, the less a start has to replay
# Unfinished jobs; with more of them a snapshot is taken only at an orderly end. A queued job costs
# a tenth of another one. The number of ended jobs in the state is configured.
SNAPSHOT_JOBS_MAX = 20_000
QUEUED_JOBS_PER_JOB = 10
COMMIT_S_MAX = 10.0  # duration of a commit after which leases are no longer renewed

T = TypeVar("T")
log = get_logger()


class Receiver(Protocol):
    """The consumer of a durable batch; the methods are called in this order."""

    def carry_out(self, actions: Sequence[Action]) -> None:
        """Start these actions; must not block."""

    def publish(self, notices: Sequence[Notice]) -> None:
        """Publish these notices; must not block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DurableBatch:
    """A batch that was delivered, for observers: at least one record, and what followed from it.
    `commit_s` is the duration of its commit."""

    records: Sequence[Record]
    actions: Sequence[Action]
    notices: Sequence[Notice]
    commit_s: Seconds


@dataclass(slots=True)
class BatchContext:
    """Access of one inbox item to the batch: the scheduler to read, and `emit` for events."""

    scheduler: Scheduler
    now: Instant
    _handle_event: Callable[[Event, Instant], None]
    _job_number: Callable[[], int]

    def emit(self, event: Event) -> None:
        """Handle an event now, as part of this batch."""
        self._handle_event(event, self.now)

    def new_job(self) -> JobId:
        """Return a job id that was never used before."""
        return JobId(f"j{self._job_number()}")


def read_only_batch(scheduler: Scheduler, now: Instant) -> BatchContext:
    """Return a context that accepts no events, for questions about jobs that have ended."""

    def no_event(event: Event, _: Instant) -> None:
        raise AssertionError(f"a read-only batch accepts no events: {event}")

    def no_number() -> int:
        raise AssertionError("a read-only batch has no new jobs")

    return BatchContext(scheduler, now, no_event, no_number)


@dataclass(slots=True)
class Counters:
    """Counters of the event loop since the daemon's start."""

    events: int = 0
    commits: int = 0
    notices: int = 0
    commit_s: float = 0.0  # the longest
    handled_s: float = 0.0  # in total
    by_kind: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class InboxItem:
    """One inbox item: `decide` runs in the batch, `on_commit` after the commit."""

    decide: Callable[[BatchContext], Any]
    on_commit: Callable[[Any, KoalaError | None], None]
    received_at: Instant
    result: Any = None
    error: KoalaError | None = None


class LastNumbers(Protocol):
    """The numbers of a journal's last event and last notice."""

    @property
    def seq(self) -> int:
        """Number of the last event."""

    @property
    def notice_number(self) -> int:
        """Number of the last notice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Retention settings of the state and the journal.

    - `keep_jobs`, `keep_jobs_s`: how many ended jobs stay in the state, and for how long.
    - `chunk`: how many of them leave it together.
    - `snapshot_events`: events after which a snapshot is due.
    - `settings`: the settings that the snapshot records.
    """

    keep_jobs: int
    keep_jobs_s: Seconds
    snapshot_events: int
    settings: str = ""
    replayed: int = 0  # events since the last snapshot
    chunk: int = CHUNK


class GroupCommit:
    """The inbox and the current batch."""

    def __init__(
        self,
        scheduler: Scheduler,
        journal: LastNumbers,
        clock: Clock,
        *,
        digest: Callable[[Scheduler], str],
        jobs: int,
        receiver: Receiver | None = None,
        observe: Callable[[DurableBatch], None] | None = None,
        retention: Retention | None = None,
    ) -> None:
        """Begin after the journal's last event. `jobs` counts the ids given so far. Without a
        `receiver` actions and notices are dropped. `observe` gets each batch that was delivered; it
        must not block."""
        self.counters = Counters()
        self.inbox_max = INBOX_MAX
        self._committed: tuple[Sequence[Record], Seconds] = ((), 0.0)
        self._scheduler = scheduler
        self._clock = clock
        self._digest = digest
        self._jobs = jobs
        self._receiver = receiver
        self._observe = observe
        self._inbox: deque[InboxItem] = deque()
        self._records: list[Record] = []
        self._notices: list[Notice] = []
        self._actions: list[Action] = []
        self._seq = journal.seq
        self._notice_number = journal.notice_number
        self._digest_seq = journal.seq
        self._retention = retention
        self._snapshot_seq = journal.seq - (retention.replayed if retention is not None else 0)
        self._snapshot_due_at: Instant = 0.0
        self._begun_at: Instant = 0.0  # start of the batch
        self.keys_archived = scheduler.keys_forgotten
        """Number of idempotency keys that left the state and are durable in the archive."""
        self._leaving: dict[JobId, Job] = {}  # purged by the current batch, not in the archive yet
        self._digest_due_at: Instant = 0.0
        self._wake_not_before: Instant = 0.0
        self._committing_since: Instant | None = None
        self._debug = log.bind().debug  # found once: there is a line for each event
        self._has_failed = False

    # --- the inbox --------------------------------------------------------------------------------

    def post(
        self,
        decide: Callable[[BatchContext], T],
        on_commit: Callable[[T, KoalaError | None], None] = lambda _result, _error: None,
    ) -> None:
        """Put an item into the inbox at once, even if it is full; for what comes at most once a
        session.

        `on_commit` is called right after the commit and before the next batch begins, so the
        scheduler that it reads is durable. It must not block.
        """
        self._inbox.append(InboxItem(decide, on_commit, self._clock.now()))
        self.on_arrival()

    def on_arrival(self) -> None:
        """Handle the arrival of an inbox item; drivers override this to wake up."""

    @property
    def inbox_size(self) -> int:
        """Number of items in the inbox."""
        return len(self._inbox)

    @property
    def jobs(self) -> int:
        """Number of job ids given so far."""
        return self._jobs

    def job(self, job: JobId) -> Job | None:
        """Return a job of the state, or one that is moving to the archive.

        None: the job is in the archive by now, or does not exist.
        """
        return self._scheduler.jobs.get(job) or self._leaving.get(job)

    @property
    def wake_at(self) -> Instant | None:
        """The instant when a batch is due even if nothing arrives."""
        wake_at = self._scheduler.wake_at
        return None if wake_at is None else max(wake_at, self._wake_not_before)

    def can_renew_leases(self, now: Instant) -> bool:
        """Return True while commits work. A daemon that cannot commit must let leases expire."""
        since = self._committing_since
        return not self._has_failed and (since is None or now - since < COMMIT_S_MAX)

    # --- a batch ----------------------------------------------------------------------------------

    def handle_batch(self) -> list[InboxItem]:
        """Handle the waiting items, then the timers that are due.

        An item goes before a timer of the same instant. If more waits than one batch can handle, a
        timer fires only when all items that arrived before it was due are handled: an answer that
        came in time is not late because the daemon is slow.
        """
        begun_at = now = self._begun_at = self._clock.now()
        items: list[InboxItem] = []
        while self._inbox and now - begun_at < BATCH_S_MAX:
            item = self._inbox.popleft()
            batch = BatchContext(self._scheduler, now, self._handle, self._next_job)
            try:
                item.result = item.decide(batch)
            except KoalaError as error:
                item.error = error
            items.append(item)
            now = self._clock.now()
        self._wake(now, before=self._inbox[0].received_at if self._inbox else math.inf)
        self.counters.handled_s += self._clock.now() - begun_at
        return items

    def prepare_commit(self) -> Batch | None:
        """Return what must be durable before the batch is delivered; None if nothing must."""
        if not self._records:
            return None
        begun_at = self._committing_since = self._clock.now()
        digest = self._digest_if_due(begun_at)
        batch = Batch(
            records=self._records,
            notices=self._notices,
            digest=digest,
            purged=self._purge(),
            snapshot=self._snapshot_if_due(begun_at),
        )
        self._leaving = {purge.job.id: purge.job for purge in batch.purged}
        self._records, self._notices = [], []
        return batch

    def handle(self, events: Sequence[Event]) -> Batch:
        """Handle the first events of a run, before any item; return their batch."""
        now = self._clock.now()
        for event in events:
            self._handle(event, now)
        return Batch(records=self._records, notices=self._notices)

    def snapshot(self) -> Snapshot | None:
        """Return a snapshot of the current state."""
        if self._retention is None:
            return None
        specs: list[JobSpec] = []
        with gc_paused():
            return Snapshot(
                plain=save(self._scheduler, specs),
                specs=specs,
                jobs=self._jobs,
                settings=self._retention.settings,
                digest=self._digest(self._scheduler),
            )

    def on_commit_failed(self) -> None:
        """Stop: the batch could not be made durable, and no batch follows."""
        self._has_failed = True

    def on_committed(self, batch: Batch) -> None:
        """Account for a batch that is now durable."""
        since, self._committing_since = self._committing_since, None
        assert since is not None
        self._leaving = {}
        self.keys_archived = self._scheduler.keys_forgotten  # the next batch has not begun
        self.counters.commits += 1
        self.counters.events += len(batch.records)
        self.counters.notices += len(batch.notices)
        commit_s = self._clock.now() - since
        self.counters.commit_s = max(self.counters.commit_s, commit_s)
        self._committed = (batch.records, commit_s)

    def deliver(self, items: Sequence[InboxItem], notices: Sequence[Notice]) -> None:
        """Deliver actions (releases of the barrier among them), then answers, then notices."""
        actions, self._actions = self._actions, []
        if self._receiver is not None and actions:
            self._receiver.carry_out(actions)
        for item in items:
            item.on_commit(item.result, item.error)
        if self._receiver is not None and notices:
            self._receiver.publish(notices)
        (records, commit_s), self._committed = self._committed, ((), 0.0)
        if self._observe is not None and records:
            self._observe(
                DurableBatch(records=records, actions=actions, notices=notices, commit_s=commit_s)
            )

    def _wake(self, now: Instant, *, before: Instant) -> None:
        """Fire the timers that are due and were so before the given instant."""
        if now < self._wake_not_before:
            return
        for _ in range(WOKEN_MAX):
            wake_at = self._scheduler.wake_at
            if wake_at is None or wake_at > now or wake_at >= before:
                break
            self._handle(Woken(), now)
        after = self._clock.now()
        self._wake_not_before = after + min(WOKEN_REST_S_MAX, WOKEN_REST * (after - now))

    def _handle(self, event: Event, now: Instant) -> None:
        actions = self._scheduler.handle(event, now)
        if not self._scheduler.is_changed:
            assert not actions, f"{event} changed nothing but caused {actions}"
            return
        self._seq += 1
        answers = self._scheduler.answers
        self._records.append(Record(seq=self._seq, at=now, event=event, answers=answers))
        for action in actions:
            if isinstance(action, Announce):
                self._notices.append(self._notice(action))
            else:
                self._actions.append(action)
        kind = type(event).__name__
        self.counters.by_kind[kind] = self.counters.by_kind.get(kind, 0) + 1
        self._debug("event.handled", kind=kind, seq=self._seq, actions=len(actions))

    def _notice(self, action: Announce) -> Notice:
        self._notice_number += 1
        return Notice(
            number=self._notice_number,
            at=action.at,
            job=action.job or "",
            site=action.site or "",
            phase=action.phase,
            text=action.text,
        )

    def _next_job(self) -> int:
        self._jobs += 1
        return self._jobs

    def _purge(self) -> Sequence[PurgedJob]:
        """Purge jobs that ended before this batch; the actions of later ones have not left yet."""
        retention = self._retention
        if retention is None:
            return ()
        return purge_ended_jobs(
            self._scheduler,
            self._begun_at,
            keep=retention.keep_jobs,
            keep_s=retention.keep_jobs_s,
            chunk=retention.chunk,
        )

    def _snapshot_if_due(self, now: Instant) -> Snapshot | None:
        retention = self._retention
        if retention is None or self._seq - self._snapshot_seq < retention.snapshot_events:
            return None
        queued = len(self._scheduler.queues) + len(self._scheduler.queues.delayed)
        others = len(self._scheduler.jobs) - len(self._scheduler.ended) - queued
        is_large = others + queued / QUEUED_JOBS_PER_JOB > SNAPSHOT_JOBS_MAX
        if now < self._snapshot_due_at or is_large:
            return None
        snapshot = self.snapshot()
        self._snapshot_seq = self._seq
        self._snapshot_due_at = now + (self._clock.now() - now) / SNAPSHOT_SHARE_MAX
        return snapshot

    def _digest_if_due(self, now: Instant) -> str | None:
        if self._seq - self._digest_seq < DIGEST_EVERY or now < self._digest_due_at:
            return None
        digest = self._digest(self._scheduler)
        self._digest_seq = self._seq
        took_s = self._clock.now() - now
        self._digest_due_at = now + took_s / DIGEST_SHARE_MAX
        return digest
