"""Random jobs of a run.

Every purpose has a random stream of its own. So under one seed all policies meet the same jobs, and
with another share of I/O jobs only kinds change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from koala.core.model.values import Instant
from koala.lab.papers.hints.simulation.setting import Setting
from koala.lab.workload.random_streams import stream


class Arrival(NamedTuple):
    """Submission of a job at a site (an index), where its data lie."""

    at: Instant
    home: int
    is_io: bool


def arrivals(setting: Setting, seed: int) -> Iterator[Arrival]:
    """Generate all jobs of a run: a Poisson stream, each at a site drawn uniformly."""
    gaps, homes, kinds = (stream(seed, f"hints {name}") for name in ("arrivals", "homes", "kinds"))
    at = 0.0
    for _ in range(setting.jobs):
        at += gaps.expovariate(setting.rate)
        home = homes.randrange(len(setting.sites))
        yield Arrival(at, home, kinds.random() < setting.io_fraction)
