"""The distribution of job-component sizes that the papers draw from."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from random import Random

POWER_OF_TWO_WEIGHT = 3
"""Weight of a power of two, relative to q to its power alone (Multiple queues 2.4)."""


class SizeDistribution:
    """D(q) on [low, high]: size i has probability q^i / Q, three times that when i is a power of
    two; Q makes them sum to 1 (Multiple queues 2.4, Deadlines 3)."""

    __slots__ = ("high", "low", "mean", "probabilities", "q", "thresholds")

    def __init__(self, *, low: int, high: int, q: float) -> None:
        if not 1 <= low <= high:
            message = f"sizes {low} to {high} (expected 1 <= lowest <= highest)"
            raise ValueError(message)
        if not 0 < q <= 1:
            message = f"q is {q} (expected 0 < q <= 1)"
            raise ValueError(message)
        self.low = low
        self.high = high
        self.q = q
        sizes = range(low, high + 1)
        # Relative to the lowest size, so that no weight of a far interval vanishes altogether.
        weights = [_weight(size) * q ** (size - low) for size in sizes]
        total = sum(weights)
        self.probabilities = tuple(weight / total for weight in weights)
        """Probability of each size from low to high."""
        self.mean = sum(s * p for s, p in zip(sizes, self.probabilities, strict=True))
        self.thresholds = [*accumulate(self.probabilities)][:-1]
        """Cumulative bounds for a uniform draw, below the first: the lowest size; the last size
        needs none."""

    def sample(self, random: Random) -> int:
        """Draw one size, at the cost of one uniform draw."""
        return self.low + bisect_right(self.thresholds, random.random())


def _weight(size: int) -> int:
    return POWER_OF_TWO_WEIGHT if size & (size - 1) == 0 else 1
