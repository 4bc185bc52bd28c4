"""EASY backfilling (Mu'alem and Feitelson, IEEE TPDS 12(6), 2001)."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from itertools import accumulate

from koala.queue_model.backfill_queue import BackfillQueue
from koala.queue_model.queue import Discipline, Key, LocalQueue, Waiting


class EASYQueue(LocalQueue[Key]):
    """Queue with EASY backfilling: jobs start as in FCFS, then others may pass a head that does not
    fit, without delaying it.

    Every running job is expected to end at its start + its *estimate*, or now if it has overrun
    that. The *shadow* is the earliest expected end at which the head fits; *extra* are the
    processors free at the shadow less those of the head. The rest of the queue is visited in order:
    a job starts now if it fits and either now + its estimate <= shadow, or it takes no more than
    extra (then extra shrinks by it). A head that needs more processors than work now has no shadow:
    whatever fits may pass it.

    Cost. Between two completions idle processors, extra and what is left until the shadow can only
    shrink, so a job that was passed over once stays passed over: a pass looks at newcomers only
    unless something ended or the head changed. The shadow is computed when a job behind the head
    fits, which is rare on a busy site. It stays when a job ends, unless the head could then start
    earlier. So expected ends are sorted only when they are needed: to keep them in order would cost
    more. A deep queue is searched a block at a time (`backfill_queue`).
    """

    discipline = Discipline.EASY
    planned_max = 1

    def __init__(self, *, processors: int) -> None:
        super().__init__(processors=processors)
        self._queued: BackfillQueue[Key] = BackfillQueue()
        self._newcomers: list[Waiting[Key]] = []
        self._is_open = True
        """Something ended, or the head changed, since all jobs were visited."""
        self._reservation: tuple[float, int, float] | None = None
        """Shadow, extra, and the processors that the head lacks before the shadow; None when they
        must be computed."""

    def _start_at_once(self, key: Key, *, processors: int, estimate_s: float, now: float) -> bool:
        """Start a job that arrives at an empty queue, if it fits; no head needs a reservation."""
        if self._waiting or not 0 < processors <= self.idle:
            return False
        self._running[key] = (now + estimate_s, processors)
        self.idle -= processors
        return True

    def end(self, key: Key) -> None:
        """Release the processors of a running job that has ended; one call for each job."""
        until, processors = self._running.pop(key)
        self.idle += processors
        self._is_open = True
        if self._reservation is not None:
            shadow_at, extra, lacking = self._reservation
            if until >= shadow_at:
                lacking -= processors
                extra += processors if until > shadow_at else 0
                self._reservation = (shadow_at, extra, lacking) if lacking > 0 else None

    def _pass(self, now: float) -> list[Key]:
        """Make one scheduling pass by the rule of the class."""
        started: list[Key] = []
        waiting = self._waiting
        if self.idle and waiting:
            if self._is_open and self._queued.head[1] <= self.idle:
                self._start_from_head(now, started)
            if self.idle and len(waiting) > 1:
                kept = self._reservation
                if self._is_open or (kept is not None and kept[0] < now):
                    # A shadow in the past was set by jobs that overran their estimates; it moves
                    # with now.
                    self._choose_from_all(now, started)
                else:
                    self._choose_from_newcomers(now, started)
        # Without idle processors nothing can start until something ends, and then all are visited.
        self._newcomers.clear()
        return started

    def _is_settled(self) -> bool:
        """Return True while no job waits."""
        return not self._waiting

    def _startable(self, now: float, estimate_s: float) -> int:
        """Return the idle processors that a job with this estimate may take without delaying the
        head."""
        if not self._waiting:
            return self.idle
        if not self.idle:
            return 0
        shadow_at, extra, _ = self._reserved(now)
        return self.idle if now + estimate_s <= shadow_at else min(self.idle, extra)

    # How --------------------------------------------------------------------------------------

    def _start_from_head(self, now: float, started: list[Key]) -> None:
        for job in self._queued.take_from_head(self.idle):
            self._start(job, now + job[2], started)
        self._is_open = True
        self._reservation = None

    def _choose_from_newcomers(self, now: float, started: list[Key]) -> None:
        """Start eligible jobs among those that arrived since the last pass."""
        fitting = [job for job in self._newcomers if job[1] <= self.idle]
        if fitting:  # one may have been withdrawn
            waiting = self._waiting
            self._choose([job for job in fitting if waiting.get(job[0]) is job], now, started)

    def _choose_from_all(self, now: float, started: list[Key]) -> None:
        """Start eligible jobs of the whole queue. The head is visited too: it does not fit."""
        self._is_open = False
        fitting = self._queued.fitting(self.idle)
        if fitting is not None:
            self._choose(fitting, now, started)
            return
        shadow_at, extra, lacking = self._reserved(now)
        chosen, extra = self._queued.take(idle=self.idle, extra=extra, now=now, shadow_at=shadow_at)
        for job in chosen:
            until = now + job[2]
            lacking += job[1] if until >= shadow_at else 0
            self._start(job, until, started)
        self._reservation = (shadow_at, extra, lacking)

    def _choose(self, fitting: list[Waiting[Key]], now: float, started: list[Key]) -> None:
        """Start eligible jobs among these, each of which would fit alone."""
        if not fitting:
            return
        shadow_at, extra, lacking = self._reserved(now)
        for job in fitting:
            processors = job[1]
            if processors > self.idle:
                continue
            until = now + job[2]
            if until >= shadow_at:
                if until > shadow_at:
                    if processors > extra:
                        continue
                    extra -= processors
                lacking += processors
            self._queued.remove(job)
            self._start(job, until, started)
        self._reservation = (shadow_at, extra, lacking)

    def _reserved(self, now: float) -> tuple[float, int, float]:
        """Return the reservation as of the last pass, or compute it."""
        kept = self._reservation
        if kept is None or kept[0] < now:
            self._reservation = kept = self._reserve(now)
        return kept

    def _reserve(self, now: float) -> tuple[float, int, float]:
        """Compute the reservation for the head of the queue, which does not fit now."""
        needed = self._queued.head[1]
        releases = sorted(self._running.values())
        free = [*accumulate([processors for _, processors in releases], initial=self.idle)]
        ends = bisect_left(free, needed, 1)
        if ends > len(releases):
            assert self.available < needed, (self.available, needed, free[-1])
            return math.inf, 0, math.inf
        end_at = releases[ends - 1][0]
        shadow_at = end_at if end_at > now else now  # noqa: FURB136 - quicker
        before = bisect_left(releases, (end_at, 0))
        by_then = bisect_right(releases, (shadow_at, self.processors))
        return shadow_at, free[by_then] - needed, needed - free[before]

    def _start(self, job: Waiting[Key], until: float, started: list[Key]) -> None:
        key, processors, _ = job
        del self._waiting[key]
        self._running[key] = (until, processors)
        self.idle -= processors
        started.append(key)

    def _queue(self, job: Waiting[Key]) -> None:
        self._queued.append(job)
        self._newcomers.append(job)
        if len(self._waiting) == 1:  # it is the head
            self._is_open = True

    def _queue_first(self, job: Waiting[Key]) -> None:
        self._queued.prepend(job)
        self._disturb()

    def _queue_before(self, job: Waiting[Key], behind: Waiting[Key] | None) -> None:
        self._is_open = True  # all are visited, so newcomers need not know it
        if behind is None:
            self._queued.append(job)
        else:
            self._queued.insert(job, behind)
        if job is self._queued.head:
            self._reservation = None

    def _unqueue(self, job: Waiting[Key]) -> None:
        if job is self._queued.head:
            self._disturb()
        self._queued.remove(job)

    def _hold(self, release: tuple[float, int]) -> None:
        """Nothing to record: expected ends are sorted when they are needed."""

    def _free(self, release: tuple[float, int]) -> None:
        """Nothing to record: `end` does all."""

    def _disturb(self) -> None:
        self._is_open = True
        self._reservation = None

    def _unshare(self) -> None:
        super()._unshare()
        self._queued = BackfillQueue()
        for job in self._waiting.values():
            self._queued.append(job)
        self._newcomers = self._newcomers.copy()
