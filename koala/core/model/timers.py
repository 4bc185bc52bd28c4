"""Timers of the core: one heap, of which the driver sees only the earliest instant.

A timer is never cancelled. When it fires, its handler checks if it still applies.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from heapq import heappop, heappush

from koala.core.model.values import Instant


class TimerKind(StrEnum):
    """Purpose of a timer."""

    SCAN = "scan"  # the placement queues
    CLAIM = "claim"  # a job's next claiming try
    EVALUATE = "evaluate"  # the try at the JST, if answers are outstanding
    AGAIN = "again"  # a site that refused a job
    TRY = "try"  # a job with a deadline that is not placed yet
    MISS = "miss"  # such a job's deadline and the time by which it may be missed
    ARM = "arm"  # a job whose JST is near
    PATHS = "paths"  # the time by which a job's TCP paths must have been tried
    RESIZE = "resize"  # of a running job: a claim that joins, an Arm, a component that gives way
    RELEASE = "release"  # T of an arming: released by then, or armed again
    SILENT = "silent"  # a site that may have come back
    PROBE = "probe"  # a site that has rested


@dataclass(frozen=True, slots=True, order=True)
class Timer:
    """Timer of a job or site (`key`); timers of the same instant fire in the order of setting."""

    at: Instant
    number: int
    kind: TimerKind
    key: str


class Timers:
    """A heap of timers."""

    __slots__ = ("_heap", "_number")

    def __init__(self) -> None:
        self._heap: list[Timer] = []
        self._number = 0

    def set(self, at: Instant, kind: TimerKind, key: str = "") -> None:
        """Set a timer that fires at `at`; none if that is infinite."""
        if at < float("inf"):
            self._number += 1
            heappush(self._heap, Timer(at, self._number, kind, key))

    @property
    def next_at(self) -> Instant | None:
        """The earliest instant, or None."""
        return self._heap[0].at if self._heap else None

    def due(self, now: Instant) -> Timer | None:
        """Remove and return the earliest timer that is due, or None."""
        return heappop(self._heap) if self._heap and self._heap[0].at <= now else None
