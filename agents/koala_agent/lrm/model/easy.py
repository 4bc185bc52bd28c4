"""EASY backfilling (Mu'alem and Feitelson, IEEE TPDS 12(6), 2001)."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from itertools import islice

from koala_agent.lrm.model.line import Line
from koala_agent.lrm.model.queue import Discipline, Key, LocalQueue


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
    start; a deep queue is searched a block at a time (`line`).
    """

    discipline = Discipline.EASY

    def __init__(self, *, processors: int) -> None:
        super().__init__(processors=processors)
        self._line: Line[Key] = Line()
        self._newcomers: list[tuple[Key, int, float]] = []
        self._releases: list[tuple[float, int]] = []
        self._reservation: tuple[float, int] | None = None
        """Shadow and extra, what backfilling must leave to the head of the queue; None when
        something ended, or the head changed, since they were computed."""

    def advance(self, now: float) -> list[Key]:
        """One scheduling pass, as above."""
        started: list[Key] = []
        requests = self._requests
        if requests and self.idle:
            self._start_from_head(now, started)
            if requests and self.idle:
                self._backfill(now, started)
        # Without idle processors nothing can start until something ends, and then all are visited.
        self._newcomers.clear()
        return started

    def startable(self, now: float, estimate_s: float = math.inf) -> int:
        """Idle processors that a job with this estimate may take without delaying the head."""
        if not self._requests:
            return self.idle
        if not self.idle:
            return 0
        kept = self._reservation
        is_kept = kept is not None and kept[0] >= now
        shadow_at, extra = kept if kept is not None and is_kept else self._reserve(now)
        return self.idle if now + estimate_s <= shadow_at else min(self.idle, extra)

    # How --------------------------------------------------------------------------------------

    def _start_from_head(self, now: float, started: list[Key]) -> None:
        line = self._line
        blocks = line.blocks
        while blocks:
            key, processors, estimate_s = blocks[0].jobs[0]
            if processors > self.idle:
                break
            line.behead()
            self._start(key, processors, now + estimate_s)
            self._reservation = None
            started.append(key)

    def _backfill(self, now: float, started: list[Key]) -> None:
        """Visits the jobs behind a head that does not fit, which is why it is never chosen."""
        kept = self._reservation
        if kept is None or kept[0] < now:
            # A shadow in the past was set by jobs that overran their estimates; it moves with now.
            kept = self._reserve(now)
            self._reservation = self._choose_from_all(now, kept, started)
        elif self._newcomers:
            waiting = self._requests
            # A newcomer may have been withdrawn, or started just now.
            visited = [job for job in self._newcomers if job[0] in waiting]
            chosen, _, extra = _choose(visited, self.idle, kept, now)
            for job in chosen:
                self._line.remove(job)
                self._start(job[0], job[1], now + job[2])
                started.append(job[0])
            self._reservation = (kept[0], extra)

    def _choose_from_all(
        self, now: float, reservation: tuple[float, int], started: list[Key]
    ) -> tuple[float, int]:
        """Starts what may start of the whole queue; the answer is shadow and extra afterwards."""
        shadow_at, extra = reservation
        idle = self.idle
        line = self._line
        blocks = line.blocks
        emptied: list[tuple[int, list[tuple[Key, int, float]]]] = []
        last = len(blocks) - 1
        for index, block in enumerate(blocks):
            # The first and the last block change all the time: looking is quicker than summing up.
            if 0 < index < last and not block.may_start(
                idle=idle, extra=extra, now=now, shadow_at=shadow_at
            ):
                continue
            chosen, idle, extra = _choose(block.jobs, idle, (shadow_at, extra), now)
            if chosen:
                emptied.append((index, chosen))
            if not idle:
                break
        for _, chosen in emptied:
            for key, processors, estimate_s in chosen:
                self._start(key, processors, now + estimate_s)
                started.append(key)
        for index, chosen in reversed(emptied):
            line.remove_from(index, chosen)
        return shadow_at, extra

    def _reserve(self, now: float) -> tuple[float, int]:
        """Shadow and extra of the head of the queue, which does not fit now."""
        needed = self._line.blocks[0].jobs[0][1]
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
        shadow_at = max(now, releases[passed - 1][0])
        for at, processors in islice(releases, passed, None):
            if at > shadow_at:
                break
            free += processors
        return shadow_at, free - needed

    def _start(self, key: Key, processors: int, until: float) -> None:
        release = (until, processors)
        del self._requests[key]
        self._running[key] = release
        insort(self._releases, release)
        self.idle -= processors

    def _queue(self, key: Key, request: tuple[int, float]) -> None:
        job = (key, *request)
        self._line.append(job)
        self._newcomers.append(job)

    def _queue_first(self, key: Key, request: tuple[int, float]) -> None:
        self._line.prepend((key, *request))
        self._reservation = None

    def _unqueue(self, key: Key, request: tuple[int, float]) -> None:
        if key == self._line.blocks[0].jobs[0][0]:
            self._reservation = None
        self._line.remove((key, *request))

    def _hold(self, release: tuple[float, int]) -> None:
        insort(self._releases, release)

    def _free(self, release: tuple[float, int]) -> None:
        del self._releases[bisect_left(self._releases, release)]
        self._reservation = None

    def _disturb(self) -> None:
        self._reservation = None


def _choose(
    jobs: list[tuple[Key, int, float]], idle: int, reservation: tuple[float, int], now: float
) -> tuple[list[tuple[Key, int, float]], int, int]:
    """The jobs that may start, in order; what is left of the idle and of the extra processors."""
    shadow_at, extra = reservation
    chosen = []
    for job in jobs:
        processors = job[1]
        if processors > idle:
            continue
        if now + job[2] > shadow_at:
            if processors > extra:
                continue
            extra -= processors
        chosen.append(job)
        idle -= processors
        if not idle:
            break
    return chosen, idle, extra
