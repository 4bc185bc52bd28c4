"""Synthetic local users: the jobs that a site's own users would submit.

A pure generator from a seed: Poisson arrivals, sizes from D(q) on an interval, exponential run
times. The caller's clock decides how fast it runs. Local jobs are virtual: they hold processors of
the model and start no process.

D(q): size i has probability q^i / Q, three times that when i is a power of two, with Q such that
all sum to 1 (multiple queues, 2.4: small jobs and powers of two are the rule in real logs).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from koala.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadParameters:
    """Parameters of the local load. Durations are before the division by `speed`.

    `waiting_max` bounds the waiting local jobs: one that arrives beyond it is not submitted.
    """

    arrivals_per_hour: float
    run_mean_s: float = 600.0
    run_max_s: float = 36_000.0
    size_q: float = 0.9
    size_min: int = 1
    size_max: int = 8
    estimate_factor_max: float = 3.0
    speed: float = 1.0
    waiting_max: int = 100

    def __post_init__(self) -> None:
        positive = ("arrivals_per_hour", "run_mean_s", "run_max_s", "size_q", "speed")
        for name in positive:
            if not getattr(self, name) > 0:
                raise ConfigError(f"load.{name} is {getattr(self, name)}, it must be above 0")
        if not 1 <= self.size_min <= self.size_max:
            message = (
                f"load sizes go from {self.size_min} to {self.size_max}, it must be 1 <= min <= max"
            )
            raise ConfigError(message)
        if self.estimate_factor_max < 1:
            message = (
                f"load.estimate_factor_max is {self.estimate_factor_max}, it must be at least 1"
            )
            raise ConfigError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalJob:
    """Job of a local user; `submit_at` counts from the beginning of the load."""

    submit_at: float
    processors: int
    run_s: float
    estimate_s: float


def local_jobs(parameters: LoadParameters, rng: random.Random) -> Iterator[LocalJob]:
    """Yield jobs without end, in the order of their submission; instants and durations are not
    divided by `speed`."""
    sizes = tuple(range(parameters.size_min, parameters.size_max + 1))
    cumulative = tuple(accumulate(_weight(size, parameters.size_q) for size in sizes))
    at = 0.0
    while True:
        at += rng.expovariate(parameters.arrivals_per_hour / 3600.0)
        (processors,) = rng.choices(sizes, cum_weights=cumulative)
        run_s = min(rng.expovariate(1.0 / parameters.run_mean_s), parameters.run_max_s)
        estimate_s = run_s * rng.uniform(1.0, parameters.estimate_factor_max)
        yield LocalJob(submit_at=at, processors=processors, run_s=run_s, estimate_s=estimate_s)


def _weight(size: int, q: float) -> float:
    return q**size * (3.0 if size & (size - 1) == 0 else 1.0)
