"""Profile of free processors over time, into which reservations are fitted."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from itertools import accumulate


class Profile:
    """Step function of time. From `_at[i]` until `_at[i + 1]`, and from the last one on without
    end, `_free[i]` processors are free."""

    def __init__(self, free: int) -> None:
        self._at: list[float] = [-math.inf]
        self._free = [free]
        self._highest: list[int] | None = None
        """The largest step up to each one; None when it must be recomputed."""

    def copy(self) -> Profile:
        """Return a profile of the same steps."""
        twin = Profile(0)
        twin._at, twin._free = self._at.copy(), self._free.copy()
        return twin

    def forget(self, now: float) -> None:
        """Drop everything before `now`."""
        passed = bisect_right(self._at, now) - 1
        if passed > 0:
            del self._at[:passed]
            del self._free[:passed]
            self._highest = None
        self._at[0] = now

    def add(self, processors: int, begin: float, end: float) -> None:
        """Add so many free processors from `begin` until `end`; a negative number reserves them."""
        if begin >= end:
            return
        free = self._free
        first = self._step(begin)
        last = len(free) if end == math.inf else self._step(end)
        for index in range(first, last):
            free[index] += processors
        for index in (last, first):
            if 0 < index < len(free) and free[index] == free[index - 1]:
                del free[index]
                del self._at[index]
        self._highest = None

    def earliest(
        self, processors: int, duration_s: float, *, begin: float, before: float = math.inf
    ) -> float:
        """Return the first instant from `begin` on at which so many are free for so long; `before`
        when there is none before that. From `before` on they count as free, as they are for a job
        that has them reserved from then on."""
        at, free = self._at, self._free
        count = len(at)
        index = max(bisect_right(at, begin) - 1, 0)
        while True:
            while index < count and free[index] < processors:
                index += 1
            if index == count:
                return before
            start = max(at[index], begin)
            if start >= before:
                return before
            until = min(start + duration_s, before)
            index += 1
            while index < count and at[index] < until and free[index] >= processors:
                index += 1
            if index == count or at[index] >= until:
                return start

    def least(self, *, begin: float, end: float) -> int:
        """Return the number that is free all the time from `begin` until `end`."""
        first = max(bisect_right(self._at, begin) - 1, 0)
        return min(self._free[first : max(bisect_left(self._at, end), first + 1)])

    def most_before(self, instant: float) -> int:
        """Return the largest number that is free at some time before `instant`; 0 for no time."""
        if self._highest is None:
            self._highest = [*accumulate(self._free, max)]
        passed = bisect_left(self._at, instant)
        return self._highest[passed - 1] if passed else 0

    def _step(self, instant: float) -> int:
        """Return the index of the step that begins then, inserting it if needed."""
        index = bisect_left(self._at, instant)
        if index == len(self._at) or self._at[index] != instant:
            assert index > 0, instant
            self._at.insert(index, instant)
            self._free.insert(index, self._free[index - 1])
        return index
