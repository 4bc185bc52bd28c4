"""Base class of all disciplines: processors, running and waiting jobs, and the queue's
interface."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterator, KeysView
from copy import copy
from enum import StrEnum
from heapq import heapify, heappop, heappush
from typing import ClassVar, Generic, NamedTuple, TypeVar, cast

from koala.queue_model.profile import Profile

Key = TypeVar("Key", bound=Hashable)
Waiting = tuple[Key, int, float]


class Discipline(StrEnum):
    """Rule by which the queue starts jobs."""

    FCFS = "fcfs"
    EASY = "easy"
    CONSERVATIVE = "conservative"


class Booked(NamedTuple):
    """Processors that are kept free for a job with a known start."""

    begin: float
    end: float
    processors: int


class LocalQueue(ABC, Generic[Key]):
    """N processors and the queue in front of them. Keys are the caller's, one for each job that
    waits or runs.

    Waiting jobs are plain tuples (key, processors, estimate) and running ones (expected end,
    processors), because passes read them millions of times.

    A waiting job may be gated: it does not start, reserves nothing and delays nobody, but keeps its
    place, so that it is before all later jobs once it is opened again.

    A booked job has its start before it arrives. Others that would run into it do not start; those
    that wait are passed over for it as the discipline plans ahead: not at all (the first that does
    not fit ends the pass), for the first one, or for all. Its start is late while jobs overrun
    their estimates.
    """

    discipline: Discipline
    planned_max: ClassVar[float] = 0
    """Waiting jobs whose starts are planned, and which others do not delay, beside bookings."""

    def __init__(self, *, processors: int) -> None:
        if processors < 1:
            message = f"a site has {processors} processors, at least 1 is needed"
            raise ValueError(message)
        self.processors = processors
        """Those of the site; some of them may be out of order."""
        self.available = processors
        """Those in order."""
        self.idle = processors
        """In order, and held by no job."""
        self._waiting: dict[Key, Waiting[Key]] = {}
        """The jobs that wait and may start, in the order of the queue."""
        self._gated: dict[Key, Waiting[Key]] = {}
        """The others that wait."""
        self._places: dict[Key, None] = {}
        """The order of all that wait, while some are gated; some in it may have started since."""
        self._running: dict[Key, tuple[float, int]] = {}
        self._booked: dict[Key, Booked] = {}
        self._left: Profile | None = None
        """Processors that the last pass left free for more jobs, beside bookings."""
        self.wake_at = math.inf
        """The next instant at which a pass is due even if nothing happens until then."""

    # What happened ----------------------------------------------------------------------------

    def submit(
        self,
        key: Key,
        *,
        processors: int,
        estimate_s: float,
        user: str = "",
        priority: int = 0,
    ) -> None:
        """Queue a job at the tail; only queues that order jobs use its user and priority. Raises
        ValueError when it could never start."""
        if not 1 <= processors <= self.processors:
            message = f"{key!r} asks for {processors} processors; 1 to {self.processors} can be had"
            raise ValueError(message)
        assert key not in self._waiting, key
        assert key not in self._gated, key
        assert key not in self._running, key
        if self._gated:
            self._places.pop(key, None)
            self._places[key] = None
        self._waiting[key] = job = (key, processors, estimate_s)
        self._queue(job)

    def start_at_once(self, key: Key, *, processors: int, estimate_s: float, now: float) -> bool:
        """Start a job that arrives at an empty queue, if a pass at `now` would; return False if it
        must be submitted. Completions of that instant come before. Queues that cannot tell without
        a pass start nothing."""
        return not self._booked and self._start_at_once(
            key, processors=processors, estimate_s=estimate_s, now=now
        )

    def book(self, key: Key, *, processors: int, begin: float, end: float, now: float) -> bool:
        """Keep processors free for a job from `begin` until `end`; return False if running jobs, by
        their estimates, or other bookings have them then."""
        assert key not in self._waiting, key
        assert key not in self._gated, key
        assert key not in self._running, key
        if self._free_at(now).least(begin=begin, end=end) < processors:
            return False
        self._booked[key] = Booked(begin, end, processors)
        self._left = None
        return True

    def put_back(self, key: Key, *, processors: int, estimate_s: float) -> None:
        """Queue a job at the head: one that was stopped to make room."""
        assert key not in self._waiting, key
        assert key not in self._gated, key
        assert key not in self._running, key
        if self._gated:
            self._places = {key: None, **self._places}
        job = (key, processors, estimate_s)
        self._waiting = {key: job, **self._waiting}
        self._queue_first(job)

    def withdraw(self, key: Key) -> None:
        """Remove a waiting job from the queue, or give back its booking."""
        if key in self._booked:
            self._unbook(key)
        elif key in self._gated:
            del self._gated[key]
        else:
            self._unqueue(self._waiting.pop(key))

    def gate(self, key: Key) -> None:
        """Keep a waiting job from starting, with its place kept; one that is gated stays so."""
        if key in self._gated:
            return
        job = self._waiting[key]
        self._places = dict.fromkeys(self.order())
        del self._waiting[key]
        self._gated[key] = job
        self._unqueue(job)

    def open(self, key: Key) -> None:
        """Let a gated job start again, in the place that it kept; one that is not gated is left
        alone."""
        job = self._gated.pop(key, None)
        if job is None:
            return
        later = [*self._places]
        del later[: later.index(key) + 1]
        behind = {one: self._waiting.pop(one) for one in later if one in self._waiting}
        self._waiting[key] = job
        self._waiting |= behind
        self._queue_before(job, next(iter(behind.values()), None))

    def end(self, key: Key) -> None:
        """Release the processors of a running job that has ended."""
        release = self._running.pop(key)
        self.idle += release[1]
        self._free(release)

    def occupy(self, key: Key, *, processors: int, until: float) -> None:
        """Start a job past the queue: one that runs already, or a claim placed on idle processors.
        `until` is its expected end."""
        assert 0 < processors <= self.idle, (key, processors, self.idle)
        self._running[key] = release = (until, processors)
        self.idle -= processors
        self._hold(release)
        self._disturb()

    def lose(self, processors: int) -> None:
        """Take idle processors out of order; jobs on other failed ones must have ended before."""
        assert 0 <= processors <= self.idle, (processors, self.idle)
        self.available -= processors
        self.idle -= processors
        self._disturb()

    def regain(self, processors: int) -> None:
        """Put failed processors back in order."""
        assert 0 <= processors <= self.processors - self.available, processors
        self.available += processors
        self.idle += processors
        self._disturb()

    # What comes of it -------------------------------------------------------------------------

    def advance(self, now: float) -> list[Key]:
        """Make one scheduling pass; return the keys of the jobs that start at `now`, in order."""
        if self._booked:
            return self._pass_beside_bookings(now)
        if self._left is not None:  # the last booking has begun
            self._left, self.wake_at = None, math.inf
        return self._pass(now)

    def is_settled(self) -> bool:
        """Return True if a pass would surely find nothing to do. Queues that cannot tell without a
        pass are never settled."""
        return not self._booked and self._is_settled()

    def startable(self, now: float, estimate_s: float = math.inf) -> int:
        """Return the size of the largest job with this estimate that would start if it were
        submitted at `now`, after a pass at `now`."""
        if not self._booked:
            return self._startable(now, estimate_s)
        if self._waiting and not self.planned_max:
            return 0
        free = self._left if self._left is not None else self._free_at(now)
        return max(0, min(self.idle, free.least(begin=now, end=now + estimate_s)))

    def forecast(self, keys: Collection[Key], now: float) -> dict[Key, float]:
        """Return the expected starts of waiting jobs if all jobs ran as long as their estimates and
        no more came; inf for one that would never start. Each gated job among them is taken as if
        it alone were opened now. Those that have overrun their estimates are expected to end
        now."""
        eligible = [key for key in keys if key in self._waiting]
        expected = self._run_on(eligible, now) if eligible else {}
        expected |= {key: max(now, self._booked[key].begin) for key in keys if key in self._booked}
        for key in keys:
            if key in self._gated:
                expected |= self._run_on([key], now)
        return expected

    def outlook(self, processors: int, estimate_s: float, now: float) -> float:
        """Return the expected start of one more job, if it were submitted now; see `forecast`."""
        queue, key = copy(self), cast(Key, object())
        queue._unshare()  # noqa: SLF001 - a queue as this one
        queue.submit(key, processors=processors, estimate_s=estimate_s)
        return queue._run_on([key], now)[key]  # noqa: SLF001

    @property
    def running(self) -> KeysView[Key]:
        """The running jobs, in order of start."""
        return self._running.keys()

    @property
    def waiting(self) -> int:
        """The number of waiting jobs, gated ones too."""
        return len(self._waiting) + len(self._gated)

    @property
    def gated(self) -> KeysView[Key]:
        """The waiting jobs that are gated."""
        return self._gated.keys()

    @property
    def booked(self) -> KeysView[Key]:
        """The jobs that are booked, and have not started."""
        return self._booked.keys()

    def order(self) -> Iterator[Key]:
        """Iterate over the waiting jobs, gated ones too, in the order of the queue."""
        if not self._gated:
            return iter(self._waiting)
        return (key for key in self._places if key in self._waiting or key in self._gated)

    # How --------------------------------------------------------------------------------------

    def _free_at(self, now: float) -> Profile:
        """Return the processors that neither running jobs nor bookings have, from now on."""
        profile = Profile(self.available)
        profile.forget(now)
        for until, processors in self._running.values():
            profile.add(-processors, now, until)
        for begin, end, processors in self._booked.values():
            profile.add(-processors, max(begin, now), end)
        return profile

    def _pass_beside_bookings(self, now: float) -> list[Key]:
        """Start the bookings that are due, then the waiting jobs that run into none of the others,
        and delay none of the first that wait."""
        started = []
        for key, booked in sorted(self._booked.items(), key=_begin_of):
            if booked.begin <= now and booked.processors <= self.idle:
                self._unbook(key)
                self.occupy(key, processors=booked.processors, until=booked.end)
                started.append(key)
        free, planned, starts = self._free_at(now), 0, [math.inf]
        for job in self._in_order(now):
            key, processors, estimate_s = job
            start = free.earliest(processors, estimate_s, begin=now)
            if start <= now and processors <= self.idle:
                self._begin(job, now + estimate_s)
                free.add(-processors, now, now + estimate_s)
                started.append(key)
                continue
            starts.append(start)
            if planned >= self.planned_max:
                if not planned:
                    break  # nothing overtakes the first
                continue
            planned += 1
            if start < math.inf:
                free.add(-processors, start, start + estimate_s)
        self._left = free
        begins = (booked.begin for booked in self._booked.values())
        self.wake_at = min((at for at in (*starts, *begins) if at > now), default=math.inf)
        self._disturb()
        return started

    def _unbook(self, key: Key) -> None:
        del self._booked[key]
        self.wake_at = math.inf  # a pass without bookings sets its own, if it needs any
        self._disturb()

    def _in_order(self, now: float) -> list[Waiting[Key]]:
        """Return the jobs that may start, in the order of their starts."""
        return [*self._waiting.values()]

    def _begin(self, job: Waiting[Key], until: float) -> None:
        """Start a waiting job, in any place of the queue."""
        key, processors, _ = job
        del self._waiting[key]
        self._unqueue(job)
        self._running[key] = release = (until, processors)
        self.idle -= processors
        self._hold(release)

    def _run_on(self, keys: Collection[Key], now: float) -> dict[Key, float]:
        """Run a copy of the queue forward on estimates until these jobs have started, opened if
        they are gated; return their starts."""
        queue = copy(self)
        queue._unshare()  # noqa: SLF001 - a queue as this one
        for key in keys:
            queue.open(key)
        running = queue._running  # noqa: SLF001
        ends = [(until, number, key) for number, (key, (until, _)) in enumerate(running.items())]
        heapify(ends)
        number = len(ends)
        starts: dict[Key, float] = dict.fromkeys(keys, math.inf)
        missing = len(starts)
        while missing and now < math.inf:
            while ends and ends[0][0] <= now:
                queue.end(heappop(ends)[2])
            for key in queue.advance(now):
                heappush(ends, (running[key][0], number, key))
                number += 1
                if key in starts:
                    starts[key] = now
                    missing -= 1
            now = min(ends[0][0] if ends else math.inf, queue.wake_at)
        return starts

    # Steps that each discipline has of its own ----------------------------------------------------

    @abstractmethod
    def _pass(self, now: float) -> list[Key]:
        """Make a scheduling pass while there are no bookings."""

    def _is_settled(self) -> bool:
        return False

    @abstractmethod
    def _startable(self, now: float, estimate_s: float) -> int:
        """Return what is startable beside running and waiting jobs."""

    def _start_at_once(self, key: Key, *, processors: int, estimate_s: float, now: float) -> bool:
        return False

    @abstractmethod
    def _queue(self, job: Waiting[Key]) -> None:
        """Record a job at the tail of the queue."""

    @abstractmethod
    def _queue_first(self, job: Waiting[Key]) -> None:
        """Record a job at the head of the queue."""

    @abstractmethod
    def _queue_before(self, job: Waiting[Key], behind: Waiting[Key] | None) -> None:
        """Record a job that was opened right before another one, or at the tail of the queue."""

    @abstractmethod
    def _unqueue(self, job: Waiting[Key]) -> None:
        """Record that a job left the queue, or was gated, without having started."""

    @abstractmethod
    def _hold(self, release: tuple[float, int]) -> None:
        """Record the expected end and the processors of a started job."""

    @abstractmethod
    def _free(self, release: tuple[float, int]) -> None:
        """Record the end of a started job."""

    @abstractmethod
    def _disturb(self) -> None:
        """Invalidate all conclusions: processors came or went past the queue."""

    @abstractmethod
    def _unshare(self) -> None:
        """Copy what this copy of a queue shares with it."""
        self._waiting = self._waiting.copy()
        self._gated = self._gated.copy()
        self._places = self._places.copy()
        self._running = self._running.copy()
        self._booked = self._booked.copy()


def _begin_of(item: tuple[object, Booked]) -> float:
    return item[1].begin
