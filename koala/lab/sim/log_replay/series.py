"""Series of utilisation and demand over time, for a plot."""

from __future__ import annotations

from itertools import accumulate

from koala.lab.sim.log_replay.tally import Distribution, Ended

_BINS = 1_024


class BinnedLevel:
    """A level over time, as the mean of each of at most 1,024 equal spans that grow with it."""

    def __init__(self) -> None:
        self.width = 1
        self._areas = [0] * _BINS
        self._steps = [0] * (_BINS + 1)
        """Rise of the level at the beginning of each span, for whole spans."""

    def add(self, begin: int, end: int, amount: int) -> None:
        """Raise the level from `begin` until `end`."""
        while end > self.width * _BINS:
            self._double()
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

    def _double(self) -> None:
        whole = self._whole()
        joined = [a + b for a, b in zip(whole[::2], whole[1::2], strict=True)]
        self._areas = joined + [0] * (_BINS - len(joined))
        self._steps = [0] * (_BINS + 1)
        self.width *= 2


class Series:
    """Busy processors, and waited-for processors, of jobs that have ended."""

    def __init__(self) -> None:
        self.busy = BinnedLevel()
        self.wanted = BinnedLevel()
        self.waits = Distribution()

    def add(self, ended: list[Ended]) -> None:
        """Add jobs that ended."""
        self.waits.add([start - job[0] for _, _, job, start in ended])
        for end, _, job, start in ended:
            self.busy.add(start, end, job[2])
            if start > job[0]:
                self.wanted.add(job[0], start, job[2])
