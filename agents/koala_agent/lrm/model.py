"""A queue-based local manager as a state machine: N processors behind one queue.

Pure: standard library only, no clock and no I/O. `submit`, `withdraw` and `end` say what happened,
`advance(now)` makes one scheduling pass and answers what starts. The emulated manager puts it on
the wall clock, the simulator puts it on simulated time; neither can tell the other's from its own.

Disciplines, exactly:

FCFS   jobs start from the head of the queue while they fit; the first that does not fit ends the
       pass.
EASY   as FCFS; then, for the head that does not fit, every running job is taken to leave at its
       start + its *estimate*, or now when it has overrun that. The *shadow* is the earliest such
       instant at which the head fits, counting all that leave by then; *extra* are the processors
       free at the shadow less those of the head. The rest of the queue is visited in order: a job
       starts now if it fits and either now + its estimate <= shadow, or it takes no more than extra
       (then extra shrinks by it).
       (Mu'alem and Feitelson, IEEE TPDS 12(6), 2001.)

Cost. Between two completions idle processors, extra and what is left until the shadow can only
shrink, so a job that was passed over once stays passed over: a pass looks at newcomers only unless
something ended or the head changed. No pass sorts; releases are kept in order as jobs start.

Instants and durations are in seconds of whatever clock the caller has.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from enum import StrEnum
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Discipline(StrEnum):
    """Whose turn it is in the queue."""

    FCFS = "fcfs"
    EASY = "easy"


class _Request(NamedTuple):
    """What a waiting job asks for. A tuple, because passes read it millions of times."""

    processors: int
    estimate_s: float


class _Release(NamedTuple):
    """The processors that a running job is expected to give back, and when."""

    at: float
    processors: int


class _Reservation(NamedTuple):
    """What backfilling must leave to the head of the queue."""

    shadow_at: float
    extra: int


class LocalQueue(Generic[Key]):
    """N processors and the queue in front of them; keys are the caller's and are used once."""

    def __init__(self, *, processors: int, discipline: Discipline) -> None:
        if processors < 1:
            message = f"a site has {processors} processors, at least 1 is needed"
            raise ValueError(message)
        self.processors = processors
        self.discipline = discipline
        self.idle = processors
        self._waiting: OrderedDict[Key, _Request] = OrderedDict()
        self._newcomers: list[Key] = []
        self._running: dict[Key, _Release] = {}
        self._releases: list[_Release] = []
        self._reservation: _Reservation | None = None

    # What happened ----------------------------------------------------------------------------

    def submit(self, key: Key, *, processors: int, estimate_s: float) -> None:
        """Queues a job at the tail. Raises ValueError when it could never start."""
        if not 1 <= processors <= self.processors:
            message = f"{key!r} asks for {processors} processors; 1 to {self.processors} can be had"
            raise ValueError(message)
        assert key not in self._waiting, key
        assert key not in self._running, key
        self._waiting[key] = _Request(processors, estimate_s)
        self._newcomers.append(key)

    def put_back(self, key: Key, *, processors: int, estimate_s: float) -> None:
        """Queues a job at the head: one that was stopped to make room, under a new key."""
        self.submit(key, processors=processors, estimate_s=estimate_s)
        self._waiting.move_to_end(key, last=False)
        self._reservation = None

    def withdraw(self, key: Key) -> None:
        """Takes a waiting job out of the queue."""
        if key == next(iter(self._waiting)):
            self._reservation = None
        del self._waiting[key]

    def end(self, key: Key) -> None:
        """A running job has ended, for whatever reason."""
        release = self._running.pop(key)
        del self._releases[bisect_left(self._releases, release)]
        self.idle += release.processors
        self._reservation = None

    def occupy(self, key: Key, *, processors: int, until: float) -> None:
        """Starts a job past the queue: one that runs already, or that a claim puts on idle
        processors. `until` is when it is expected to leave."""
        assert 0 < processors <= self.idle, (key, processors, self.idle)
        self._start(key, processors, until)
        self._reservation = None

    # What comes of it -------------------------------------------------------------------------

    def advance(self, now: float) -> list[Key]:
        """One scheduling pass: the keys of the jobs that start at `now`, in that order."""
        started = self._start_from_head(now)
        if self.discipline is Discipline.EASY and self.idle and self._waiting:
            started += self._backfill(now)
        # Without idle processors nothing can start until something ends, and then all are visited.
        self._newcomers.clear()
        return started

    def startable(self, now: float, estimate_s: float = math.inf) -> int:
        """The largest job with this estimate that would start if it were submitted at `now`, after
        a pass at `now`."""
        if not self._waiting:
            return self.idle
        if self.discipline is Discipline.FCFS or not self.idle:
            return 0
        kept = self._reservation
        is_kept = kept is not None and kept.shadow_at >= now
        shadow_at, extra = kept if kept is not None and is_kept else self._reserve(now)
        return self.idle if now + estimate_s <= shadow_at else min(self.idle, extra)

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        return len(self._waiting)

    def is_waiting(self, key: Key) -> bool:
        """Whether this job is in the queue."""
        return key in self._waiting

    # How --------------------------------------------------------------------------------------

    def _start_from_head(self, now: float) -> list[Key]:
        started: list[Key] = []
        waiting = self._waiting
        while waiting:
            key = next(iter(waiting))
            request = waiting[key]
            if request.processors > self.idle:
                break
            del waiting[key]
            self._start(key, request.processors, now + request.estimate_s)
            self._reservation = None
            started.append(key)
        return started

    def _backfill(self, now: float) -> list[Key]:
        """Visits the jobs behind a head that does not fit, which is why it is never chosen."""
        kept = self._reservation
        if kept is None or kept.shadow_at < now:
            # A shadow in the past was set by jobs that overran their estimates; it moves with now.
            visited: Iterable[Key] = self._waiting
            shadow_at, extra = self._reserve(now)
        else:
            visited = self._newcomers
            shadow_at, extra = kept
        idle = self.idle
        waiting = self._waiting
        chosen: list[Key] = []
        for key in visited:
            request = waiting.get(key)  # a newcomer may have been withdrawn, or started just now
            if request is None or request[0] > idle:
                continue
            if now + request[1] > shadow_at:
                if request[0] > extra:
                    continue
                extra -= request[0]
            chosen.append(key)
            idle -= request[0]
            if not idle:
                break
        for key in chosen:
            request = waiting.pop(key)
            self._start(key, request.processors, now + request.estimate_s)
        self._reservation = _Reservation(shadow_at, extra)
        return chosen

    def _reserve(self, now: float) -> _Reservation:
        """What must be left to the head of the queue, which does not fit now."""
        needed = next(iter(self._waiting.values())).processors
        free = self.idle
        assert free < needed, (free, needed)
        passed = 0
        while free < needed:
            free += self._releases[passed].processors
            passed += 1
        shadow_at = max(now, self._releases[passed - 1].at)
        for release in islice(self._releases, passed, None):
            if release.at > shadow_at:
                break
            free += release.processors
        return _Reservation(shadow_at, free - needed)

    def _start(self, key: Key, processors: int, until: float) -> None:
        release = _Release(until, processors)
        self._running[key] = release
        insort(self._releases, release)
        self.idle -= processors


class TraceJob(NamedTuple):
    """A job of a trace. A run beyond the estimate is possible: the job is then expected to end any
    moment."""

    submit_at: float
    processors: int
    run_s: float
    estimate_s: float


def start_times(
    jobs: Sequence[TraceJob], *, processors: int, discipline: Discipline
) -> list[float]:
    """When each of these jobs starts; `jobs` are in the order of their submission.

    The next instant is the earlier of the next completion and the next arrival. At it all
    completions come first, then all arrivals in order, then one pass.
    """
    queue: LocalQueue[int] = LocalQueue(processors=processors, discipline=discipline)
    starts = [math.nan] * len(jobs)
    ends: list[tuple[float, int]] = []
    arrived = 0
    while ends or arrived < len(jobs):
        now = ends[0][0] if ends else math.inf
        if arrived < len(jobs):
            now = min(now, jobs[arrived].submit_at)
        while ends and ends[0][0] == now:
            queue.end(heapq.heappop(ends)[1])
        while arrived < len(jobs) and jobs[arrived].submit_at == now:
            job = jobs[arrived]
            queue.submit(arrived, processors=job.processors, estimate_s=job.estimate_s)
            arrived += 1
        for index in queue.advance(now):
            starts[index] = now
            heapq.heappush(ends, (now + jobs[index].run_s, index))
    return starts
