"""Job stream of the multiple-queues paper (Multiple queues 2.2 to 2.4, 3).

Arrivals are Poisson. Jobs have one to as many components as there are sites, of sizes from D(q),
and a service time that all components share. Each purpose has a random stream of its own, named
after it. Each job makes the same number of draws, whatever its fate. So every policy gets the very
same jobs from the same seed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from math import log, sqrt
from random import Random
from typing import NamedTuple

from koala.lab.workload.distributions import SizeDistribution

PORTION = 2048
"""Jobs drawn at a time."""


_tuple = tuple.__new__
"""Makes a named tuple of its parts in a third of the time."""


class StreamJob(NamedTuple):
    """A job: its arrival, service time, component sizes (largest first), and the site at whose
    local queue it is submitted, if its kind goes to local queues."""

    at: float
    service: float
    sizes: tuple[int, ...]
    home: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStream:
    """A kind of job stream. `mix`: weights of jobs with 1, 2, ... components; `split`: of the local
    queues; `rate`: jobs in a unit of time; `service_cv`: coefficient of variation of the service
    time, whose mean is 1."""

    mix: tuple[float, ...]
    split: tuple[float, ...]
    sizes: SizeDistribution
    rate: float
    service_cv: float = 1.0

    def jobs(self, seed: int) -> Iterator[StreamJob]:
        """Yield jobs without end, in order of arrival."""
        gaps, services, counts, sizes, homes = (
            Random(f"{seed}/{purpose}")
            for purpose in ("arrivals", "services", "components", "sizes", "queues")
        )
        draw_service = service_times(self.service_cv, services)
        by_count = [*accumulate(self.mix)]
        by_home = [*accumulate(self.split)]
        thresholds, low = self.sizes.thresholds, self.sizes.low
        uniform, uniform_gap, scale = sizes.random, gaps.random, -1.0 / self.rate
        at = 0.0
        drawn: tuple[int, ...]
        while True:
            components = counts.choices(
                range(1, len(by_count) + 1), cum_weights=by_count, k=PORTION
            )
            places = homes.choices(range(len(by_home)), cum_weights=by_home, k=PORTION)
            for count, home in zip(components, places, strict=True):
                at += log(1.0 - uniform_gap()) * scale
                if count == 1:
                    drawn = (low + bisect_right(thresholds, uniform()),)
                else:
                    several = [low + bisect_right(thresholds, uniform()) for _ in range(count)]
                    several.sort(reverse=True)
                    drawn = (*several,)
                yield _tuple(StreamJob, (at, draw_service(), drawn, home))


def service_times(cv: float, random: Random) -> Callable[[], float]:
    """Make a sampler of service times with mean 1 and this coefficient of variation: constant at 0,
    exponential at 1, hyperexponential with two phases of equal load above."""
    uniform = random.random
    if cv == 0:
        return lambda: 1.0
    if cv == 1:
        return lambda: -log(1.0 - uniform())
    if not cv > 1:
        message = f"coefficient of variation {cv}: there are service times for 0, 1 and more than 1"
        raise ValueError(message)
    likelier = (1.0 + sqrt((cv * cv - 1.0) / (cv * cv + 1.0))) / 2
    means = 0.5 / likelier, 0.5 / (1.0 - likelier)
    return lambda: -log(1.0 - uniform()) * means[uniform() >= likelier]
