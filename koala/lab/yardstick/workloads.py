"""The twelve workloads: three kinds of jobs, each with four shares of jobs of several components.

The work of a job, processors times run time, does not depend on the share: a job of several
components is a single one cut into equal parts. All workloads offer the same load. Half of the jobs
of one component are submitted at a site and run there, as local jobs do.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice
from math import ceil
from pathlib import Path
from random import Random

from koala.errors import ConfigError
from koala.lab.workload import lublin
from koala.lab.workload.distributions import SizeDistribution
from koala.lab.workloads import Job, Log

LOAD = 0.5
"""Share of all processors that the jobs of a workload need, beside the sites' own users."""
SHARES = (0.0, 0.1, 0.25, 0.5)
COMPONENTS = (2, 3, 4)
LOCAL = 0.5
"""Share of the jobs of one component that are submitted at a site."""
USERS = 8
"""Users of the grid. The k-th submits 1/k of what the first does."""
OVERESTIMATE = 3.0
"""Estimates are run times times 1 to this."""
HEAVY_MAX_S = 4 * 3600
Drawn = tuple[int, float]
"""Processors, run time in seconds."""


def _short(random: Random, _largest: int) -> Iterator[Drawn]:
    """Draw sizes from D(0.9) on 1 to 32, exponential run times of 10 minutes in the mean."""
    sizes = SizeDistribution(low=1, high=32, q=0.9)
    while True:
        yield sizes.sample(random), max(1.0, random.expovariate(1 / 600))


def _heavy(random: Random, _largest: int) -> Iterator[Drawn]:
    """Draw jobs of the model of Lublin and Feitelson for 128 processors, with run times of seconds
    to four hours: longer ones are cut, as by the limit of a queue."""
    for job in lublin.jobs(lublin.ALL.on(128), random=random):
        yield job.processors, float(min(max(1, job.run_s), HEAVY_MAX_S))


def _wide(random: Random, largest: int) -> Iterator[Drawn]:
    """Draw an eighth to a half of the largest site, for 5 to 30 minutes."""
    while True:
        yield random.randint(max(1, largest // 8), max(1, largest // 2)), random.uniform(300, 1800)


KINDS: dict[str, Callable[[Random, int], Iterator[Drawn]]] = {
    "short": _short,
    "heavy": _heavy,
    "wide": _wide,
}
NAMES = tuple(f"user{number}" for number in range(1, USERS + 1))
WEIGHTS = tuple(1 / number for number in range(1, USERS + 1))
LOG = "log"
JOBS = {"short": 300, "heavy": 60, "wide": 100, LOG: 100}
"""Jobs of a cell by kind: so many that a run takes some tenths of a second."""
QUICK_SHARES = (0.25,)
QUICK_PART = 3
"""A quick cell has a third of the jobs."""


def workloads(*, is_full: bool, has_log: bool) -> tuple[tuple[str, float], ...]:
    """List kinds with shares: of the three kinds, or of a log alone."""
    kinds = (LOG,) if has_log else tuple(KINDS)
    return tuple((kind, share) for kind in kinds for share in (SHARES if is_full else QUICK_SHARES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed:
    """Jobs of a workload for sites, each with its name and processors. `log` has the jobs of the
    kind `log`."""

    kind: str
    share: float
    jobs: int
    sites: tuple[tuple[str, int], ...]
    log: Log | None = None

    def __call__(self, seed: int) -> list[Job]:
        """Draw the jobs of a seed. The period is as long as makes their load the wanted one, and
        instants are uniform in it. Raises ConfigError for a log with too few jobs."""
        sizes = sorted((processors for _, processors in self.sites), reverse=True)
        jobs, shapes, arrivals, estimates, queues, users = (
            Random(f"{seed}/{self.kind}/{purpose}")
            for purpose in ("jobs", "shapes", "arrivals", "estimates", "queues", "users")
        )
        drawn = [
            (min(size, sizes[0]), run_s)
            for size, run_s in islice(self._drawn(jobs, sizes[0]), self.jobs)
        ]
        work = sum(size * run_s for size, run_s in drawn)
        period_s = work / (LOAD * sum(sizes))
        instants = sorted(arrivals.uniform(0, period_s) for _ in drawn)
        return [
            Job(
                at=at,
                processors=(shape := _shape(size, sizes, shapes, self.share)),
                run_s=run_s,
                estimate_s=run_s * estimates.uniform(1, OVERESTIMATE),
                user=users.choices(NAMES, WEIGHTS)[0],
                queue=_queue(shape, self.sites, queues),
            )
            for at, (size, run_s) in zip(instants, drawn, strict=True)
        ]

    def _drawn(self, random: Random, largest: int) -> Iterator[Drawn]:
        if self.log is None:
            return KINDS[self.kind](random, largest)
        found = [(size, float(run_s)) for _, size, run_s, _ in self.log.local_jobs()]
        if len(found) < self.jobs:
            raise ConfigError(
                f"{self.log}: {len(found)} jobs that ran (expected a log with {self.jobs} or more)"
            )
        begin = random.randrange(len(found))
        return chain(found[begin:], found[:begin])


def _shape(size: int, sites: list[int], random: Random, share: float) -> tuple[int, ...]:
    """Return the components of a job: one, or two to four equal ones, which fit on sites of their
    own. Each job makes the same draws, whatever the share."""
    draw, count = random.random(), random.choice(COMPONENTS)
    count = min(count, len(sites))
    if draw >= share or size < 2:
        return (size,)
    count = min(count, size)
    return (min(ceil(size / count), sites[count - 1]),) * count


def _queue(shape: tuple[int, ...], sites: Sequence[tuple[str, int]], random: Random) -> str | None:
    """Draw the site at which a job is submitted, among those on which it fits and in proportion to
    their processors; None for a job that may run anywhere. Each job makes the same draws."""
    draw, place = random.random(), random.random()
    if len(shape) > 1 or draw >= LOCAL:
        return None
    fitting = [(name, processors) for name, processors in sites if processors >= shape[0]]
    ends = list(accumulate(processors for _, processors in fitting))
    return fitting[bisect(ends, place * ends[-1])][0]


def workload_name(kind: str, share: float) -> str:
    """Name a workload, such as short-25."""
    return f"{kind}-{round(100 * share):02}"


def log_of(path: Path | None) -> Log | None:
    """Return the log of the kind `log`. Raises ConfigError if it cannot be read."""
    if path is None:
        return None
    if not path.is_file():
        raise ConfigError(f"--log {path}: no such file")
    return Log(path)
