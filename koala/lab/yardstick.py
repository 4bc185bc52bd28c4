"""Yardstick: a fixed benchmark of co-allocation, run as a sweep over grids, workloads and policies.

The five grids are shapes of machines of public logs, and synthetic ones. The twelve workloads are
three kinds of jobs, each with four shares of jobs of several components. The work of a job,
processors times run time, does not depend on the share: a job of several components is a single one
cut into equal parts. All workloads offer the same load. Half of the jobs of one component are
submitted at a site and run there, as local jobs do.

Never change a grid or a workload: results of different versions would no longer be comparable; add
another.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain, islice
from math import ceil, nan
from random import Random
from typing import Any, NamedTuple

from koala.common.runtime.option_values import did_you_mean
from koala.errors import ConfigError, SpecError
from koala.lab.experiments import Experiment
from koala.lab.grids import POLICIES, Grid, LocalUsers, Site
from koala.lab.rows import Row, Rows
from koala.lab.sim.metrics import JobRecord
from koala.lab.sim.statistics import geometric, percent
from koala.lab.sweeps import Point
from koala.lab.workload import lublin
from koala.lab.workload.distributions import SizeDistribution
from koala.lab.workloads import Job, Jobs, Log
from koala.policies import named, names_of

# Grids.

SHORT = LocalUsers(load=0.3, run_mean_s=600.0, sizes=(1, 8))
LONG = LocalUsers(load=0.4, run_mean_s=3600.0, sizes=(1, 32), q=0.95)


def _grid(users: LocalUsers, **sizes: int) -> Grid:
    return Grid(sites=tuple(Site(name, size, users=users) for name, size in sizes.items()))


GRIDS = {
    "das2": _grid(SHORT, vu=144, amsterdam=64, delft=64, leiden=64, utrecht=64),
    "archive": _grid(LONG, ctc=338, sdsc=128, kth=100),
    "equal": _grid(SHORT, left=128, right=128),
    "uneven": _grid(LONG, s512=512, s128=128, s64=64, s32=32),
    "many": _grid(SHORT, **{f"c{number:02}": 32 for number in range(1, 13)}),
}

# Workloads.

LOAD = 0.5
"""Share of all processors that the jobs of a workload need, beside the sites' own users."""
SHARES = (0.0, 0.1, 0.25, 0.5)
COMPONENTS = (2, 3, 4)
LOCAL = 0.5
"""Share of the jobs of one component that are submitted at a site."""
USERS = {f"user{number}": 1 / number for number in range(1, 9)}
"""Users of the grid, and what each submits."""
OVERESTIMATE = 3.0
"""Estimates are run times times 1 to this."""
HEAVY_MAX_S = 4 * 3600
JOBS = {"short": 300, "heavy": 60, "wide": 100, "log": 100}
"""Jobs of a cell by kind: so many that a run takes some tenths of a second."""
QUICK_SHARE, QUICK_PART = 0.25, 3
"""A quick cell has a third of the jobs."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed:
    """Jobs of a kind for sites, each with its name and processors. `log` has the jobs of the kind
    `log`."""

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
        period_s = sum(size * run_s for size, run_s in drawn) / (LOAD * sum(sizes))
        instants = sorted(arrivals.uniform(0, period_s) for _ in drawn)
        return [
            Job(
                at=at,
                processors=(shape := _shape(size, sizes, shapes, self.share)),
                run_s=run_s,
                estimate_s=run_s * estimates.uniform(1, OVERESTIMATE),
                user=users.choices([*USERS], [*USERS.values()])[0],
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

    def __str__(self) -> str:
        return f"{self.kind}-{round(100 * self.share):02}"


def _shape(size: int, sites: list[int], random: Random, share: float) -> tuple[int, ...]:
    """Return the components of a job: one, or two to four equal ones, which fit on sites of their
    own. Each job makes the same draws, whatever the share."""
    draw, count = random.random(), random.choice(COMPONENTS)
    if draw >= share or size < 2:
        return (size,)
    count = min(count, len(sites), size)
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


# Policies.

SLOTS = ("placement", "claiming", "queueing")
"""Slots that matter here: no job has a deadline, and programs do not report progress."""
REFERENCE = {slot: POLICIES[slot] for slot in SLOTS}


class Entry(NamedTuple):
    """Policies that are measured: the reference, but for one slot."""

    slot: str
    policy: str

    def __str__(self) -> str:
        is_reference = REFERENCE[self.slot] == self.policy
        return "reference" if is_reference else f"{self.slot} {self.policy}"


def entry_of(text: str) -> Entry:
    """Read SLOT=NAME; without a slot it is a placement policy. Raises SpecError for an unknown
    slot, ConfigError for an unknown policy."""
    slot, _, policy = text.rpartition("=")
    slot = slot or "placement"
    if slot not in SLOTS:
        raise SpecError(
            f"--policy {text}: slot {slot} is unknown (expected one of"
            f" {', '.join(SLOTS)}{did_you_mean(slot, SLOTS)})"
        )
    try:
        named(slot, policy)
    except ConfigError as error:
        raise ConfigError(f"--policy {text}: {error}") from error
    return Entry(slot, policy)


def entries(texts: Iterable[str], *, has_all: bool) -> tuple[Entry, ...]:
    """List the reference, all of Koala's policies if `has_all`, and those of the texts."""
    known = [Entry(slot, name) for slot in SLOTS for name in names_of(slot) if has_all]
    others = dict.fromkeys(one for one in (*known, *map(entry_of, texts)))
    base = Entry("placement", REFERENCE["placement"])
    return (base, *(one for one in others if str(one) != str(base)))


# Metrics, and the table over all cells. A cell is a grid with a workload.

WARM_UP = 0.2
"""Share of the jobs, the first ones, that run and are not measured."""
PERIODS_MAX = 10
"""A run ends after so many periods at the latest."""
RATIOS = ("slowdown_all", "slowdown_single", "slowdown_multi")
"""Metrics that are given as ratios to the reference."""
MEANS = ("local_wait_mean", "wasted_percent", "unfinished_percent")


def _measured(name: str, jobs: Sequence[JobRecord]) -> float:
    """Compute a metric of the jobs that count."""
    ordered = sorted(jobs, key=lambda job: (job.submitted_at, job.job))
    found = ordered[int(WARM_UP * len(ordered)) :]
    if name == "wasted_percent":
        ran_s = sum(job.processor_run_s for job in found)
        return percent(sum(job.processor_wasted_s for job in found), ran_s)
    if name == "unfinished_percent":
        return percent(sum(not job.is_finished for job in found), len(found))
    kinds = {"slowdown_single": (True,), "slowdown_multi": (False,)}.get(name, (True, False))
    return _plain_mean(
        job.bounded_slowdown for job in found if job.is_finished and (job.components == 1) in kinds
    )


def _plain_mean(values: Iterable[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else nan


METRICS = {name: partial(_measured, name) for name in (*RATIOS, *MEANS[1:])}


def points(
    measured: Sequence[Entry], *, is_full: bool, log_file: Log | None = None
) -> tuple[Point, ...]:
    """List each cell under each entry: of the three kinds, or of a log alone. Raises
    ConfigError."""
    found = []
    for kind in KINDS if log_file is None else ("log",):
        jobs = JOBS[kind] if is_full else JOBS[kind] // QUICK_PART
        for share in SHARES if is_full else (QUICK_SHARE,):
            for name, grid in GRIDS.items():
                sites = tuple((site.name, site.processors) for site in grid.sites)
                mixed = Mixed(kind=kind, share=share, jobs=jobs, sites=sites, log=log_file)
                base = Experiment(
                    grid=grid,
                    workload=Jobs(mixed, name=str(mixed)),
                    until_s=PERIODS_MAX * mixed(1)[-1].at,
                    metrics=METRICS,
                ).changed(**REFERENCE)
                for entry in measured:
                    labels = (("grid", name), ("workload", str(mixed)), ("policy", str(entry)))
                    changed = base.changed(**{entry.slot: entry.policy})
                    found.append(Point(labels=labels, base=changed))
    return tuple(found)


def table(rows: Iterable[Row], measured: Iterable[Entry]) -> Rows:
    """Summarise the runs: a row for each entry.

    A ratio is the geometric mean, over cells and seeds, of an entry's metric by the reference's,
    with the bounds of its 95 % confidence interval: below 1 is better. Other metrics are means over
    cells and seeds.
    """
    by_entry: dict[str, dict[tuple[Any, ...], Row]] = {}
    for row in rows:
        cell = (row["grid"], row["workload"], row["seed"])
        by_entry.setdefault(row["policy"], {})[cell] = row
    base = by_entry.get("reference", {})
    return Rows([_scored(str(one), by_entry.get(str(one), {}), base) for one in measured])


def _scored(name: str, own: dict[tuple[Any, ...], Row], base: dict[tuple[Any, ...], Row]) -> Row:
    row: Row = {"policy": name, "runs": len(own)}
    for metric in RATIOS:
        pairs = [
            (one.get(metric, nan), base[cell].get(metric, nan))
            for cell, one in own.items()
            if cell in base
        ]
        found = geometric(mine / other for mine, other in pairs if mine > 0 and other > 0)
        row[metric], row[f"{metric}_low"], row[f"{metric}_high"] = found
    for metric in MEANS:
        values = [one.get(metric, nan) for one in own.values()]
        row[metric] = _plain_mean(value for value in values if value == value)  # noqa: PLR0124 - nan differs from itself
    return row
