"""The event heap and the simulated clock.

Entries are called in the total order (instant, rank, number): at equal instants outcomes come
first, then scheduling passes of local managers, which so see all that ended and arrived, then
wake-ups; and all in the order in which they were set. So a run is a function of its inputs,
and `now` never runs back.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from heapq import heappop, heappush

from koala.core.model.values import Instant, Seconds

NEVER = float("inf")


class Rank(IntEnum):
    """What goes first at one instant."""

    OUTCOME = 0
    PASS = 1
    WAKE = 2


class Entry:
    """A call to come. `cancel` takes it back; the heap forgets it when its instant comes."""

    __slots__ = ("at", "call")

    def __init__(self, at: Instant, call: Callable[[], None]) -> None:
        self.at = at
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Never call it."""
        self.call = None


class Engine:
    """The heap of calls to come, and the only clock of a simulated world."""

    __slots__ = ("_heap", "_number", "calls", "now")

    def __init__(self, now: Instant = 0.0) -> None:
        self.now = now
        self.calls = 0
        self._heap: list[tuple[Instant, int, int, Entry]] = []
        self._number = 0

    def at(self, instant: Instant, call: Callable[[], None], *, rank: Rank = Rank.OUTCOME) -> Entry:
        """Call at `instant`; an instant that is past means now. An infinite one never comes."""
        at = max(self.now, instant)
        entry = Entry(at, call)
        if at < NEVER:
            self._number += 1
            heappush(self._heap, (at, rank, self._number, entry))
        return entry

    def after(self, duration_s: Seconds, call: Callable[[], None]) -> Entry:
        """Call in `duration_s` from now."""
        return self.at(self.now + duration_s, call)

    def every(self, period_s: Seconds, call: Callable[[], None]) -> None:
        """Call again and again, for ever."""

        def again() -> None:
            call()
            self.after(period_s, again)

        self.after(period_s, again)

    @property
    def next_at(self) -> Instant | None:
        """The instant of the next call, or None when nothing will ever happen again."""
        while self._heap and self._heap[0][3].call is None:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def step(self) -> bool:
        """Make the next call; False when there is none."""
        while self._heap:
            at, _, _, entry = heappop(self._heap)
            if entry.call is not None:
                self.now = at
                self.calls += 1
                entry.call()
                return True
        return False

    def run(self, until: Instant) -> None:
        """Make all calls up to and including `until`, and put the clock there."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            at, _, _, entry = heappop(heap)
            if entry.call is not None:
                self.now = at
                self.calls += 1
                entry.call()
        self.now = max(self.now, until)
