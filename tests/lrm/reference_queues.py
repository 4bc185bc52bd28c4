"""Reference implementation of local queues: word by word after their definitions, without a memory:
every pass looks at everything again. And a driver that replays a list of jobs on any queue."""

from __future__ import annotations

import heapq
import math
from copy import deepcopy
from typing import NamedTuple, Protocol

from koala.common.protocol.ordering import OrderPolicy, QueuedJob
from koala.queue_model import Discipline


class TraceJob(NamedTuple):
    """A job of a trace."""

    submit_at: float
    processors: int
    run_s: float
    estimate_s: float


class Queue(Protocol):
    """Declare what both kinds of queue can do."""

    @property
    def wake_at(self) -> float: ...
    def submit(self, key: int, *, processors: int, estimate_s: float) -> None: ...
    def end(self, key: int) -> None: ...
    def advance(self, now: float) -> list[int]: ...


def start_times(queue: Queue, jobs: list[TraceJob]) -> list[float]:
    """Return the start of each of these jobs; `jobs` are in the order of their submission."""
    starts = [math.nan] * len(jobs)
    ends: list[tuple[float, int]] = []
    arrived = 0
    while ends or arrived < len(jobs) or queue.wake_at < math.inf:
        now = min(
            ends[0][0] if ends else math.inf,
            jobs[arrived].submit_at if arrived < len(jobs) else math.inf,
            queue.wake_at,
        )
        while ends and ends[0][0] == now:
            queue.end(heapq.heappop(ends)[1])
        while arrived < len(jobs) and jobs[arrived].submit_at == now:
            job = jobs[arrived]
            queue.submit(arrived, processors=job.processors, estimate_s=job.estimate_s)
            arrived += 1
        for key in queue.advance(now):
            starts[key] = now
            heapq.heappush(ends, (now + jobs[key].run_s, key))
    return starts


def expected_start(queue: PlainQueue | PlainOrderedQueue, key: int, now: float) -> float:
    """Return the start of a waiting job if no job ran longer or shorter than its estimate, no more
    came, and it alone were opened."""
    queue = deepcopy(queue)
    queue.open(key)
    while now < math.inf:
        for one, running in [*queue.running.items()]:
            if running[1] <= now:
                queue.end(one)
        if key in queue.advance(now):
            return now
        now = min([running[1] for running in queue.running.values()] + [queue.wake_at])
    return math.inf


class PlainQueue:
    """A queue in front of so many processors."""

    def __init__(self, discipline: Discipline, processors: int) -> None:
        self.discipline = discipline
        self.available = processors
        self.waiting: dict[int, tuple[int, float]] = {}
        self.gated: set[int] = set()
        """Those of them that may not start."""
        self.running: dict[int, tuple[int, float]] = {}
        """Processors and expected end."""
        self.reserved: dict[int, float] = {}
        """Under conservative backfilling, of all jobs that have met a pass."""
        self.now = -math.inf
        self.ended: list[float] = []
        """When those that ended since the last pass were expected to."""
        self.is_freed = False
        self.is_void = False

    # What happened ----------------------------------------------------------------------------

    def submit(self, key: int, *, processors: int, estimate_s: float) -> None:
        self.waiting[key] = (processors, estimate_s)

    def put_back(self, key: int, *, processors: int, estimate_s: float) -> None:
        self.waiting = {key: (processors, estimate_s), **self.waiting}
        self.reserved[key] = math.inf
        self.is_void = True

    def withdraw(self, key: int) -> None:
        del self.waiting[key]
        self.gated.discard(key)
        if self.reserved.pop(key, None) is not None:
            self.is_freed = True

    def gate(self, key: int) -> None:
        self.gated.add(key)
        if self.reserved.pop(key, None) is not None:
            self.is_freed = True

    def open(self, key: int) -> None:
        if key in self.gated:
            self.gated.remove(key)
            self.is_void = True

    def end(self, key: int) -> None:
        _, until = self.running.pop(key)
        self.ended.append(until)

    def occupy(self, key: int, *, processors: int, until: float) -> None:
        self.running[key] = (processors, until)
        self.is_void = True

    def lose(self, processors: int) -> None:
        self.available -= processors
        self.is_void = True

    def regain(self, processors: int) -> None:
        self.available += processors
        self.is_void = True

    # What comes of it -------------------------------------------------------------------------

    @property
    def idle(self) -> int:
        return self.available - sum(size for size, _ in self.running.values())

    @property
    def eligible(self) -> list[int]:
        return [key for key in self.waiting if key not in self.gated]

    @property
    def wake_at(self) -> float:
        return min((at for at in self.reserved.values() if at > self.now), default=math.inf)

    def advance(self, now: float) -> list[int]:
        self.now = now
        if self.discipline is Discipline.CONSERVATIVE:
            return self.start_reserved(now)
        started = []
        for key in self.eligible:
            if self.waiting[key][0] > self.idle:
                break
            started.append(self.start(key, now))
        if self.discipline is Discipline.EASY and self.eligible:
            started += self.backfill(now)
        return started

    def start(self, key: int, now: float) -> int:
        size, estimate_s = self.waiting.pop(key)
        self.reserved.pop(key, None)
        self.running[key] = (size, now + estimate_s)
        return key

    # EASY -------------------------------------------------------------------------------------

    def backfill(self, now: float) -> list[int]:
        head, *others = self.eligible
        needed = self.waiting[head][0]
        leaving = [(max(now, until), size) for size, until in self.running.values()]

        def free_at(instant: float) -> int:
            return self.idle + sum(size for until, size in leaving if until <= instant)

        fitting = [until for until, _ in leaving if free_at(until) >= needed]
        shadow = min(fitting, default=math.inf)
        extra = free_at(shadow) - needed if fitting else 0
        started = []
        idle = self.idle
        for key in others:
            size, estimate_s = self.waiting[key]
            is_short = now + estimate_s <= shadow
            if size <= idle and (is_short or size <= extra):
                extra -= 0 if is_short else size
                idle -= size
                started.append(key)
        return [self.start(key, now) for key in started]

    # Conservative backfilling -----------------------------------------------------------------

    def start_reserved(self, now: float) -> list[int]:
        is_overrun = any(until < now for _, until in self.running.values())
        is_missed = any(at < now for at in self.reserved.values())
        if self.is_void or is_overrun or is_missed:
            self.reserved = {}
        elif self.is_freed or any(until > now for until in self.ended):
            for key in [key for key in self.eligible if key in self.reserved]:
                kept = self.reserved.pop(key)
                self.reserved[key] = self.earliest(key, now)
                assert self.reserved[key] <= kept, "a reservation is never put off"
        self.is_void = self.is_freed = False
        self.ended.clear()
        for key in self.eligible:
            if key not in self.reserved:
                self.reserved[key] = self.earliest(key, now)
        return [
            self.start(key, now)
            for key in self.eligible
            if self.reserved[key] <= now and self.waiting[key][0] <= self.idle
        ]

    def earliest(self, key: int, now: float) -> float:
        """Return the first instant at which enough ends."""
        size, estimate_s = self.waiting[key]
        held = [(now, until, size) for size, until in self.running.values()]
        for other, at in self.reserved.items():
            if at < math.inf:
                held.append((at, at + self.waiting[other][1], self.waiting[other][0]))

        def free(instant: float) -> int:
            return self.available - sum(n for begin, end, n in held if begin <= instant < end)

        instants = sorted({now} | {end for _, end, _ in held if end > now})
        for at in instants:
            within = [at] + [begin for begin, _, _ in held if at < begin < at + estimate_s]
            if all(free(instant) >= size for instant in within):
                return at
        return math.inf


class PlainOrderedQueue:
    """A queue in front of so many processors whose jobs start in the order of a function."""

    def __init__(self, order: OrderPolicy, processors: int) -> None:
        self.order = order
        self.idle = processors
        self.waiting: dict[int, tuple[int, float, str, int]] = {}
        """Processors, estimate, user and priority, in the order of the queue."""
        self.since: dict[int, float] = {}
        """The first pass that met each of them."""
        self.gated: set[int] = set()
        self.running: dict[int, tuple[int, float, str]] = {}
        """Processors, expected end and user."""

    def open(self, key: int) -> None:
        self.gated.discard(key)

    def end(self, key: int) -> None:
        self.idle += self.running.pop(key)[0]

    @property
    def wake_at(self) -> float:
        return math.inf

    def advance(self, now: float) -> list[int]:
        if not self.idle or not self.waiting.keys() - self.gated:
            return []
        started = []
        for key in self.waiting:
            self.since.setdefault(key, now)
        while eligible := [key for key in self.waiting if key not in self.gated]:
            key = min(eligible, key=lambda key: self.order(self.job(key, now)))
            processors, estimate_s, user, _ = self.waiting[key]
            if processors > self.idle:
                break
            del self.waiting[key]
            self.idle -= processors
            self.running[key] = (processors, now + estimate_s, user)
            started.append(key)
        return started

    def job(self, key: int, now: float) -> QueuedJob:
        """Describe a waiting job to the function."""
        processors, estimate_s, user, priority = self.waiting[key]
        return QueuedJob(
            user=user,
            processors=processors,
            estimate_s=estimate_s,
            waited_s=now - self.since[key],
            priority=priority,
            held=sum(size for size, _, holder in self.running.values() if holder == user),
        )
