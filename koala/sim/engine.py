"""Event heap and simulated clock.

Entries are called in the total order (instant, rank, number). At equal instants outcomes come
first, then scheduling passes of local managers, which so see all that ended and arrived, then
wake-ups. Within a rank, entries run in the order in which they were set. So a run is a function of
its inputs, and `now` never runs back.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from heapq import heappop, heappush

from koala.core.model.values import Instant, Seconds

NEVER = float("inf")


class Rank(IntEnum):
    """Order of entries at one instant."""

    OUTCOME = 0
    PASS = 1
    WAKE = 2


class Entry:
    """A scheduled call. After `cancel` the heap drops it when its instant comes."""

    __slots__ = ("at", "call")

    def __init__(self, at: Instant, call: Callable[[], None]) -> None:
        self.at = at
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Cancel the call."""
        self.call = None


class Engine:
    """Heap of scheduled calls, and the only clock of a simulated world."""

    __slots__ = ("_heap", "_number", "calls", "now")

    def __init__(self, now: Instant = 0.0) -> None:
        self.now = now
        self.calls = 0
        self._heap: list[tuple[Instant, int, int, Entry]] = []
        self._number = 0

    def at(self, instant: Instant, call: Callable[[], None], *, rank: Rank = Rank.OUTCOME) -> Entry:
        """Schedule a call at `instant`; a past instant means now. A call at infinity never runs."""
        at = instant if instant > self.now else self.now  # noqa: FURB136 - quicker than a call
        entry = Entry(at, call)
        if at < NEVER:
            self._number += 1
            heappush(self._heap, (at, rank, self._number, entry))
        return entry

    def after(self, duration_s: Seconds, call: Callable[[], None]) -> Entry:
        """Schedule a call in `duration_s` from now."""
        return self.at(self.now + duration_s, call)

    def every(self, period_s: Seconds, call: Callable[[], None]) -> None:
        """Schedule a call at every interval, without end."""

        def again() -> None:
            call()
            self.after(period_s, again)

        self.after(period_s, again)

    @property
    def next_at(self) -> Instant | None:
        """Return the instant of the next call, or None when the heap is empty."""
        while self._heap and self._heap[0][3].call is None:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def step(self) -> bool:
        """Make the next call; return False when there is none."""
        while self._heap:
            at, _, _, entry = heappop(self._heap)
            if entry.call is not None:
                self.now = at
                self.calls += 1
                entry.call()
                return True
        return False

    def step_until(self, until: Instant) -> bool:
        """Make the next call if it is due by `until`; return False if it is not."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            at, _, _, entry = heappop(heap)
            if entry.call is not None:
                self.now = at
                self.calls += 1
                entry.call()
                return True
        return False

    def run(self, until: Instant) -> None:
        """Make all calls up to and including `until`, and set the clock to it."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            at, _, _, entry = heappop(heap)
            if entry.call is not None:
                self.now = at
                self.calls += 1
                entry.call()
        self.now = max(self.now, until)
