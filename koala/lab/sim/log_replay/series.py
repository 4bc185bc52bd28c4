"""Series of utilisation and demand over time, and waits by size, for a plot."""

from __future__ import annotations

from itertools import accumulate

from koala.lab.sim.drawing import size_class
from koala.lab.sim.log_replay.tally import Distribution, Ended

_BINS = 400
_JOINED = (60, 10, 6, 24, 7, 4)
"""Spans become minutes, ten minutes, hours, days, weeks and four weeks as the time goes on; then
they double."""


class BinnedLevel:
    """A level over time, as the mean of each of at most 400 equal spans that grow with it: days,
    for a log of a year."""

    def __init__(self) -> None:
        self.width = 1
        self._growth = iter(_JOINED)
        self._areas = [0] * _BINS
        self._steps = [0] * (_BINS + 1)
        """Rise of the level at the beginning of each span, for whole spans."""

    def add(self, begin: int, end: int, amount: int) -> None:
        """Raise the level from `begin` until `end`."""
        while end > self.width * _BINS:
            self._widen()
        width = self.width
        first, last = begin // width, end // width
        if first == last:
            self._areas[first] += amount * (end - begin)
            return
        self._areas[first] += amount * ((first + 1) * width - begin)
        if last < _BINS:
            self._areas[last] += amount * (end - last * width)
        self._steps[first + 1] += amount
        self._steps[last] -= amount

    def means(self) -> list[float]:
        """List the mean of each span."""
        return [area / self.width for area in self._whole()]

    def _whole(self) -> list[int]:
        levels = accumulate(self._steps[:-1])
        return [a + level * self.width for a, level in zip(self._areas, levels, strict=True)]

    def _widen(self) -> None:
        whole = self._whole()
        factor = next(self._growth, 2)
        joined = [sum(whole[place : place + factor]) for place in range(0, _BINS, factor)]
        self._areas = joined + [0] * (_BINS - len(joined))
        self._steps = [0] * (_BINS + 1)
        self.width *= factor


class Series:
    """Busy processors, and waited-for processors, of jobs that have ended."""

    def __init__(self) -> None:
        self.busy = BinnedLevel()
        self.wanted = BinnedLevel()
        self.waits: dict[int, Distribution] = {}
        """Waits by class of sizes (`koala.lab.sim.drawing.size_class`)."""

    def add(self, ended: list[Ended]) -> None:
        """Add jobs that ended."""
        waits: dict[int, list[int]] = {}
        for end, _, job, start in ended:
            waits.setdefault(size_class(job[2]), []).append(start - job[0])
            self.busy.add(start, end, job[2])
            if start > job[0]:
                self.wanted.add(job[0], start, job[2])
        for number, values in waits.items():
            self.waits.setdefault(number, Distribution()).add(values)
