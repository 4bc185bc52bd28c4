"""Event heap and simulated clock.

Entries are called in the total order (instant, rank, number). At equal instants outcomes come
first, then changes of a site and arrivals where they are told apart, then scheduling passes of
local managers, which so see all that ended and arrived, then wake-ups. Within a rank, entries run
in the order in which they were set. So a run is a function of its inputs, and `now` never runs
back.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from heapq import heappop, heappush
from itertools import repeat
from typing import Any

from koala.core.model.values import Instant, Seconds

NEVER = float("inf")


class Rank(IntEnum):
    """Order of entries at one instant."""

    OUTCOME = 0
    CHANGE = 1
    ARRIVAL = 2
    PASS = 3
    WAKE = 4


_OUTCOME = int(Rank.OUTCOME)  # a member takes four times as long to read


class Entry(list[Any]):
    """A scheduled call: instant, rank, number and call. As a list it is its own place in the heap,
    which saves an object an event. After `cancel` the heap drops it when its instant comes."""

    __slots__ = ()

    @property
    def at(self) -> Instant:
        """Instant of the call."""
        instant: Instant = self[0]
        return instant

    def cancel(self) -> None:
        """Cancel the call."""
        self[3] = None


class Engine:
    """Heap of scheduled calls, and the only clock of a simulated world."""

    __slots__ = ("_heap", "_is_paused", "_number", "now")

    def __init__(self, now: Instant = 0.0) -> None:
        self.now = now
        self._heap: list[list[Any]] = []
        self._number = 0
        self._is_paused = False

    def at(self, instant: Instant, call: Callable[[], None], *, rank: Rank = Rank.OUTCOME) -> Entry:
        """Schedule a call at `instant`; a past instant means now. A call at infinity never runs."""
        at = instant if instant > self.now else self.now  # noqa: FURB136 - quicker than a call
        self._number += 1
        entry = Entry((at, rank, self._number, call))
        if at < NEVER:
            heappush(self._heap, entry)
        return entry

    def surely_at(self, instant: Instant, call: Callable[[], None]) -> None:
        """Schedule a call at an instant that is not past; it cannot be cancelled. Quicker than
        `at`, for entries by the hundred thousand."""
        self._number += 1
        if instant < NEVER:
            heappush(self._heap, [instant, _OUTCOME, self._number, call])

    def after(self, duration_s: Seconds, call: Callable[[], None]) -> Entry:
        """Schedule a call in `duration_s` from now."""
        return self.at(self.now + duration_s, call)

    @property
    def scheduled(self) -> int:
        """Number of calls that were scheduled so far."""
        return self._number

    @property
    def is_last_of_instant(self) -> bool:
        """True if nothing else is scheduled at this instant."""
        return not self._heap or self._heap[0][0] > self.now

    @property
    def next_at(self) -> Instant | None:
        """Return the instant of the next call, or None when the heap is empty."""
        while self._heap and self._heap[0][3] is None:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def step(self) -> bool:
        """Make the next call; return False when there is none."""
        while self._heap:
            at, _, _, call = heappop(self._heap)
            if call is not None:
                self.now = at
                call()
                return True
        return False

    def run_some(self, until: Instant, *, most: int) -> bool:
        """Make at most so many calls that are due by `until`, and none after one that calls
        `pause`; return False when no more are due."""
        heap = self._heap
        self._is_paused = False
        for _ in repeat(None, most):
            if not heap or heap[0][0] > until:
                return False
            at, _, _, call = heappop(heap)
            if call is not None:
                self.now = at
                call()
                if self._is_paused:
                    break
        return True

    def pause(self) -> None:
        """End `run_some` after the present call."""
        self._is_paused = True

    def run(self, until: Instant) -> None:
        """Make all calls up to and including `until`, and set the clock to it."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            at, _, _, call = heappop(heap)
            if call is not None:
                self.now = at
                call()
        self.now = max(self.now, until)
