"""EASY backfilling (Mu'alem and Feitelson, IEEE TPDS 12(6), 2001)."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from itertools import islice

from koala_agent.lrm.model.backfill_queue import BackfillQueue
from koala_agent.lrm.model.queue import Discipline, Key, LocalQueue, Waiting


class EASYQueue(LocalQueue[Key]):
    """As FCFS; then, for the head that does not fit, every running job is taken to leave at its
    start + its *estimate*, or now when it has overrun that. The *shadow* is the earliest such
    instant at which the head fits, counting all that leave by then; *extra* are the processors free
    at the shadow less those of the head. The rest of the queue is visited in order: a job starts
    now if it fits and either now + its estimate <= shadow, or it takes no more than extra (then
    extra shrinks by it). A head for which too few processors are in order has no shadow: whatever
    fits may pass it.

    Cost. Between two completions idle processors, extra and what is left until the shadow can only
    shrink, so a job that was passed over once stays passed over: a pass looks at newcomers only
    unless something ended or the head changed. No pass sorts; releases are kept in order as jobs
    start; a deep queue is searched a block at a time, or a group of blocks (`line`).
    """

    discipline = Discipline.EASY

    def __init__(self, *, processors: int) -> None:
        super().__init__(processors=processors)
        self._line: BackfillQueue[Key] = BackfillQueue()
        self._newcomers: list[Waiting[Key]] = []
        self._releases: list[tuple[float, int]] = []
        self._reservation: tuple[float, int] | None = None
        """Shadow and extra, what backfilling must leave to the head of the queue; None when
        something ended, or the head changed, since they were computed."""

    def advance(self, now: float) -> list[Key]:
        """One scheduling pass, as above."""
        started: list[Key] = []
        waiting = self._waiting
        if self.idle and waiting:
            if self._line.head[1] <= self.idle:
                self._start_from_head(now, started)
            if self.idle and len(waiting) > 1:
                kept = self._reservation
                if kept is None or kept[0] < now:
                    # A shadow in the past was set by jobs that overran their estimates; it moves
                    # with now.
                    self._choose_from_all(now, started)
                elif self._newcomers:
                    self._choose_from_newcomers(now, kept, started)
        # Without idle processors nothing can start until something ends, and then all are visited.
        self._newcomers.clear()
        return started

    def startable(self, now: float, estimate_s: float = math.inf) -> int:
        """Idle processors that a job with this estimate may take without delaying the head."""
        if not self._waiting:
            return self.idle
        if not self.idle:
            return 0
        kept = self._reservation
        is_kept = kept is not None and kept[0] >= now
        shadow_at, extra = kept if kept is not None and is_kept else self._reserve(now)
        return self.idle if now + estimate_s <= shadow_at else min(self.idle, extra)

    # How --------------------------------------------------------------------------------------

    def _start_from_head(self, now: float, started: list[Key]) -> None:
        while self._waiting:
            job = self._line.head
            if job[1] > self.idle:
                break
            self._line.behead()
            self._start(job, now, started)
        self._reservation = None

    def _choose_from_newcomers(
        self, now: float, reservation: tuple[float, int], started: list[Key]
    ) -> None:
        """Start eligible jobs among those that arrived since the last pass."""
        shadow_at, extra = reservation
        for job in self._newcomers:
            key, processors, estimate_s = job
            # It may have been withdrawn, or have started just now.
            if processors > self.idle or self._waiting.get(key) is not job:
                continue
            if now + estimate_s > shadow_at:
                if processors > extra:
                    continue
                extra -= processors
            self._line.remove(job)
            self._start(job, now, started)
        self._reservation = (shadow_at, extra)

    def _choose_from_all(self, now: float, started: list[Key]) -> None:
        """Start eligible jobs of the whole queue. The head is visited too: it does not fit."""
        shadow_at, extra = self._reserve(now)
        chosen, extra = self._line.take(idle=self.idle, extra=extra, now=now, shadow_at=shadow_at)
        for job in chosen:
            self._start(job, now, started)
        self._reservation = (shadow_at, extra)

    def _reserve(self, now: float) -> tuple[float, int]:
        """Compute shadow and extra for the head of the queue, which does not fit now."""
        needed = self._line.head[1]
        free = self.idle
        releases = self._releases
        passed = 0
        for _, processors in releases:
            free += processors
            passed += 1
            if free >= needed:
                break
        else:
            assert self.available < needed, (self.available, needed, free)
            return math.inf, 0
        expected_at = releases[passed - 1][0]
        shadow_at = expected_at if expected_at > now else now  # noqa: FURB136 - quicker than a call
        for at, processors in islice(releases, passed, None):
            if at > shadow_at:
                break
            free += processors
        return shadow_at, free - needed

    def _start(self, job: Waiting[Key], now: float, started: list[Key]) -> None:
        key, processors, estimate_s = job
        release = (now + estimate_s, processors)
        del self._waiting[key]
        self._running[key] = release
        insort(self._releases, release)
        self.idle -= processors
        started.append(key)

    def _queue(self, job: Waiting[Key]) -> None:
        self._line.append(job)
        self._newcomers.append(job)

    def _queue_first(self, job: Waiting[Key]) -> None:
        self._line.prepend(job)
        self._reservation = None

    def _unqueue(self, job: Waiting[Key]) -> None:
        if job is self._line.head:
            self._reservation = None
        self._line.remove(job)

    def _hold(self, release: tuple[float, int]) -> None:
        insort(self._releases, release)

    def _free(self, release: tuple[float, int]) -> None:
        releases = self._releases
        del releases[bisect_left(releases, release)]
        self._reservation = None

    def _disturb(self) -> None:
        self._reservation = None
