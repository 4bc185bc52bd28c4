"""Local users of the papers as a log: Poisson arrivals, sizes from D(q), exponential run times
(Multiple queues 2.3, 2.4; Deadlines 3)."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from koala.lab.workload.distributions import SizeDistribution


def jobs(
    sizes: SizeDistribution,
    *,
    processors: int,
    run_mean_s: float,
    utilization: float,
    random: Random,
) -> Iterator[tuple[int, int, int]]:
    """Yield submit time, processors and run time, without end. The arrival rate gives so many
    processors the offered load `utilization`; run times of less than a second become a second."""
    between_s = sizes.mean * run_mean_s / (utilization * processors)
    at = 0.0
    while True:
        at += random.expovariate(1 / between_s)
        yield int(at), sizes.sample(random), max(1, round(random.expovariate(1 / run_mean_s)))
