"""Random jobs of a run.

Every purpose has a random stream of its own, drawn in the order of arrivals. So under one seed all
policies see the same jobs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import count, islice
from math import inf, log
from operator import itemgetter
from random import Random
from typing import NamedTuple

from koala.core.model.values import Instant, Seconds
from koala.lab.papers.deadlines.simulation.setting import Setting

PORTION = 256
"""Local jobs of a site that are drawn at a time."""


class LocalArrival(NamedTuple):
    """Arrival of a local job at its cluster."""

    at: Instant
    processors: int
    run_s: Seconds


LocalJob = tuple[Instant, int, int, Seconds, int]
"""Arrival, site, processors, run time, and number in order of arrival. A plain tuple, because a run
makes and reads a third of a million of them."""


class GlobalArrival(NamedTuple):
    """Arrival of a global job: `components` of `processors` each, to start together at the
    deadline."""

    at: Instant
    deadline_at: Instant
    components: int
    processors: int
    run_s: Seconds


def local_arrivals(setting: Setting, seed: int, index: int) -> Iterator[LocalArrival]:
    """Generate the local jobs of one cluster, without end."""
    rate = setting.local_rate(setting.sites[index])
    if not rate:
        return
    gaps, sizes, runs = (
        Random(f"{seed}/local {purpose} {index}") for purpose in ("arrivals", "sizes", "run times")
    )
    distribution = setting.local_size_distribution
    low, thresholds = distribution.low, distribution.thresholds
    end_rate = 1 / setting.local_run_s
    next_gap, next_size, next_run = gaps.random, sizes.random, runs.random
    at = 0.0
    while True:  # as expovariate and sample draw, without their calls: most of a run is local jobs
        at += -log(1.0 - next_gap()) / rate
        processors = low + bisect_right(thresholds, next_size())
        run_s = -log(1.0 - next_run()) / end_rate
        yield tuple.__new__(LocalArrival, (at, processors, run_s))


def local_jobs(setting: Setting, seed: int) -> Iterator[LocalJob]:
    """Generate the local jobs of all clusters, without end."""
    return merged([local_arrivals(setting, seed, index) for index in range(len(setting.sites))])


def merged(streams: Sequence[Iterator[LocalArrival]]) -> Iterator[LocalJob]:
    """Merge the local jobs of the sites, each stream in order of arrival. Portions are drawn and
    sorted: a heap would compare jobs one by one."""
    held: list[tuple[Instant, int, int, Seconds]] = []
    drawn_to = dict.fromkeys(range(len(streams)), 0.0)
    """The last arrival that was drawn of each site that has more."""
    numbers = count(1)
    while drawn_to:
        site = min(drawn_to, key=drawn_to.__getitem__)
        portion = [(at, site, processors, run_s)
                   for at, processors, run_s in islice(streams[site], PORTION)]  # fmt: skip
        held += portion
        if len(portion) == PORTION:
            drawn_to[site] = portion[-1][0]
        else:
            del drawn_to[site]
        held.sort(key=itemgetter(0))
        until = min(drawn_to.values(), default=inf)
        ready = bisect_left(held, (until,))
        for (at, site, processors, run_s), number in zip(held[:ready], numbers, strict=False):
            yield at, site, processors, run_s, number
        del held[:ready]


def global_arrivals(setting: Setting, seed: int) -> Iterator[GlobalArrival]:
    """Generate all global jobs, without end."""
    rate = setting.global_rate
    if not rate:
        return
    gaps, leads, counts, sizes, runs = (
        Random(f"{seed}/global {purpose}")
        for purpose in ("arrivals", "leads", "components", "sizes", "run times")
    )
    distribution = setting.size_distribution
    at = 0.0
    while True:
        at += gaps.expovariate(rate)
        yield GlobalArrival(
            at,
            at + leads.uniform(*setting.lead_s),
            counts.randint(*setting.component_bounds),
            sizes.randint(*setting.size_bounds)
            if setting.is_uniform
            else distribution.sample(sizes),
            runs.expovariate(1 / setting.global_run_s),
        )
