"""Base class of all disciplines: processors, running and waiting jobs, and the queue's
interface."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, KeysView
from enum import StrEnum
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Waiting = tuple[Key, int, float]


class Discipline(StrEnum):
    """Rule by which the queue starts jobs."""

    FCFS = "fcfs"
    EASY = "easy"
    CONSERVATIVE = "conservative"


class LocalQueue(ABC, Generic[Key]):
    """N processors and the queue in front of them. Keys are the caller's, one for each job that
    waits or runs.

    Waiting jobs are plain tuples (key, processors, estimate) and running ones (expected end,
    processors), because passes read them millions of times.
    """

    discipline: Discipline

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
        """The jobs that wait, in the order of the queue."""
        self._running: dict[Key, tuple[float, int]] = {}
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
        assert key not in self._running, key
        self._waiting[key] = job = (key, processors, estimate_s)
        self._queue(job)

    def start_at_once(self, key: Key, *, processors: int, estimate_s: float, now: float) -> bool:
        """Start a job that arrives at an empty queue, if a pass at `now` would; return False if it
        must be submitted. Completions of that instant come before. Queues that cannot tell without
        a pass start nothing."""
        return False

    def put_back(self, key: Key, *, processors: int, estimate_s: float) -> None:
        """Queue a job at the head: one that was stopped to make room."""
        assert key not in self._waiting, key
        assert key not in self._running, key
        job = (key, processors, estimate_s)
        self._waiting = {key: job, **self._waiting}
        self._queue_first(job)

    def withdraw(self, key: Key) -> None:
        """Remove a waiting job from the queue."""
        self._unqueue(self._waiting.pop(key))

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

    @abstractmethod
    def advance(self, now: float) -> list[Key]:
        """Make one scheduling pass; return the keys of the jobs that start at `now`, in order."""

    def is_settled(self) -> bool:
        """Return True if a pass would surely find nothing to do. Queues that cannot tell without a
        pass are never settled."""
        return False

    @abstractmethod
    def startable(self, now: float, estimate_s: float = math.inf) -> int:
        """Return the size of the largest job with this estimate that would start if it were
        submitted at `now`, after a pass at `now`."""

    @property
    def running(self) -> KeysView[Key]:
        """The running jobs, in order of start."""
        return self._running.keys()

    @property
    def waiting(self) -> int:
        """The number of waiting jobs."""
        return len(self._waiting)

    def order(self) -> Iterator[Key]:
        """Iterate over the waiting jobs, in the order of the queue."""
        return iter(self._waiting)

    # What a discipline keeps in its own way ---------------------------------------------------

    @abstractmethod
    def _queue(self, job: Waiting[Key]) -> None:
        """Record a job at the tail of the queue."""

    @abstractmethod
    def _queue_first(self, job: Waiting[Key]) -> None:
        """Record a job at the head of the queue."""

    @abstractmethod
    def _unqueue(self, job: Waiting[Key]) -> None:
        """Record that a job left the queue without having started."""

    @abstractmethod
    def _hold(self, release: tuple[float, int]) -> None:
        """Record the expected end and the processors of a started job."""

    @abstractmethod
    def _free(self, release: tuple[float, int]) -> None:
        """Record the end of a started job."""

    @abstractmethod
    def _disturb(self) -> None:
        """Invalidate all conclusions: processors came or went past the queue."""
