"""Saturation test of a queueing system, from the number of waiting jobs at each arrival.

In a saturated system that number grows for as long as it runs, and a mean response time reflects
only the length of the run. A system is saturated if both conditions hold:

- The means over consecutive windows of arrivals ascend (Mann and Kendall's test for a trend, over
  all replications together, at 1 in 1000).
- At least one of a thousand arrivals is never served.

Both look at the queue and not at response times, which fall towards the end of a run in which a
kind of job is starved.

Limits: just below its capacity a system fills for longer than the warm-up that was cut. It is then
called saturated though it is not, and a longer run tells. Just above capacity, within about a
hundredth, a short run does not tell either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import sqrt
from statistics import fmean, linear_regression

from koala.lab.sim.statistics import means_of_batches

WINDOWS = 20
TREND_LEAST = 3.09
"""Quantile of the standard normal distribution: one in a thousand lies above."""
GROWTH_LEAST = 0.001
JUDGED_MIN = 1000
"""Fewest jobs from which a run with an end is judged: a queue that begins empty grows by chance in
so many of the shorter runs that nothing could be concluded."""
_SAMPLES = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """Trend of one run: Kendall's S over `windows` windows, and the growth of the queue per
    arrival, which is the share of the load that is never served."""

    score: int
    windows: int
    growth: float


def trend(waiting: Sequence[float]) -> Trend:
    """Compute the trend of the number of waiting jobs, one number an arrival."""
    means = means_of_batches(waiting, WINDOWS)
    score = sum((later > sooner) - (later < sooner) for sooner, later in combinations(means, 2))
    count = len(means)
    if count < 2:
        return Trend(score=0, windows=count, growth=0.0)
    arrivals = [(index + 0.5) * len(waiting) / count for index in range(count)]
    return Trend(score=score, windows=count, growth=linear_regression(arrivals, means).slope)


class QueueSamples:
    """Numbers of waiting jobs at evenly spaced arrivals, in bounded memory."""

    def __init__(self) -> None:
        self.next_at = 1
        """Number of the arrival that is sampled next."""
        self._spacing = 1
        self._lengths: list[int] = []

    def add(self, waiting: int) -> None:
        """Add the number of waiting jobs at the arrival `next_at`, or at one soon after it."""
        self._lengths.append(waiting)
        if len(self._lengths) == _SAMPLES:
            del self._lengths[1::2]
            self._spacing *= 2
        self.next_at = len(self._lengths) * self._spacing + 1

    def is_saturated(self, arrived: int) -> bool:
        """Return True if the queue grows; a run of few arrivals is not judged."""
        if arrived < JUDGED_MIN:
            return False
        found = trend(self._lengths)
        return is_saturated([replace(found, growth=found.growth / self._spacing)])


def is_saturated(trends: Sequence[Trend]) -> bool:
    """Return True if the queues of the runs grow, significantly and by enough to matter."""
    variance = sum(t.windows * (t.windows - 1) * (2 * t.windows + 5) / 18 for t in trends)
    if not variance:
        return False
    score = sum(t.score for t in trends) / sqrt(variance)
    return score > TREND_LEAST and fmean(t.growth for t in trends) > GROWTH_LEAST
