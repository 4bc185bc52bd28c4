"""Questions to a twin: which jobs could have been co-allocated, and what that is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from koala.common.runtime.option_values import Bounds
from koala.errors import ConfigError
from koala.lab.experiments import Experiment
from koala.lab.fields import check_fields
from koala.lab.grids import Grid
from koala.lab.reading import read_grid
from koala.lab.sim.metrics import JobRecord
from koala.lab.sim.options import number, require, require_declared
from koala.lab.twin.durations import DAY_S, HOUR_S, duration
from koala.lab.twin.folders import GRID
from koala.lab.workload import swf
from koala.lab.workloads import Job, Jobs, Log, Workload
from koala.views.units import counted

ONE_OR_MORE = Bounds(low=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Jobs that come at random instants (Poisson), one every `every_s` in the mean over `period_s`,
    each with `components` of `processors` processors and an exact run time of `run_s`."""

    components: int = number(2, "Components of each co-allocated job.", bounds=ONE_OR_MORE)
    processors: int = number(16, "Processors of each component.", bounds=ONE_OR_MORE)
    run_s: float = number(HOUR_S, "Run time.", bounds=ONE_OR_MORE)
    every_s: float = number(6 * HOUR_S, "Mean time between two such jobs.", bounds=ONE_OR_MORE)
    period_s: float = DAY_S

    def __post_init__(self) -> None:
        check_fields(self)
        require_declared(self)
        require(self.period_s > 0, "period_s", self.period_s, "more than 0")

    def __call__(self, seed: int) -> list[Job]:
        """Draw the jobs of a seed; there is one at least."""
        random = Random(f"{seed} co-allocated jobs")
        instants: list[float] = []
        at = random.expovariate(1 / self.every_s)
        while at < self.period_s:
            instants.append(at)
            at += random.expovariate(1 / self.every_s)
        sizes = (self.processors,) * self.components
        return [
            Job(at=at, processors=sizes, run_s=self.run_s)
            for at in instants or [random.uniform(0, self.period_s)]
        ]

    def __str__(self) -> str:
        return (
            f"one job every {duration(self.every_s)} in the mean, of"
            f" {counted(self.components, 'component')} with"
            f" {counted(self.processors, 'processor')} for {duration(self.run_s)}"
        )

    def identity(self) -> object:
        """Return what the jobs depend on."""
        return [self.components, self.processors, self.run_s, self.every_s, self.period_s]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSite:
    """A site of a twin: its log, and the length and the waits that were recorded."""

    name: str
    processors: int
    jobs: int
    until_s: int
    waits_s: tuple[int, ...] = field(repr=False)

    @property
    def mean_wait_s(self) -> float:
        """Return the mean wait as recorded."""
        return sum(self.waits_s) / len(self.waits_s) if self.waits_s else float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A twin as it is read: the grid whose sites' users are the logs, and their figures."""

    path: Path
    grid: Grid
    sites: tuple[LogSite, ...]

    @property
    def period_s(self) -> int:
        """Return the time to the end of the last recorded job."""
        return max(site.until_s for site in self.sites)


def read_folder(path: Path) -> Folder:
    """Read a folder of `koala twin import`. Raises ConfigError for a missing file and for a log
    without jobs."""
    if not (path / GRID).is_file():
        raise ConfigError(f"{path}: has no {GRID}: `koala twin import` makes such a folder")
    grid = read_grid(path / GRID)
    sites, read = [], []
    for site in grid.sites:
        log = path / f"{site.name}.swf"
        if not log.is_file():
            raise ConfigError(f"{log}: is missing, and {GRID} has a site {site.name}")
        sites.append(replace(site, users=Log(log), load=None))
        jobs = [*swf.jobs(Log(log).file())]
        if not jobs:
            raise ConfigError(f"{log} has no job (expected a log with one or more)")
        read.append(
            LogSite(
                name=site.name,
                processors=site.processors,
                jobs=len(jobs),
                until_s=int(max(job[1] + max(job[2], 0) + max(job[3], 0) for job in jobs)),
                waits_s=tuple(int(job[2]) for job in jobs if job[2] >= 0),
            )
        )
    return Folder(path=path, grid=replace(grid, sites=tuple(sites)), sites=tuple(read))


def without(folder: Folder) -> Experiment:
    """Return the twin alone: its own users, and no co-allocated job."""
    return Experiment(grid=folder.grid, workload=Jobs((), name="nothing"), is_whole=True)


def with_jobs(folder: Folder, workload: Workload, *, split: str = "equal") -> Experiment:
    """Return the twin with co-allocated jobs."""
    return Experiment(
        grid=folder.grid,
        workload=workload,
        split=split,
        is_whole=True,
        metrics={
            "started": started,
            "started_in_1h": started_in_an_hour,
            "started_in_24h": started_in_a_day,
            "on_several_sites": on_several_sites,
            "used_processor_s": used_processor_s,
        },
    )


def started(jobs: Sequence[JobRecord]) -> float:
    """Count the jobs that started."""
    return float(sum(job.started_at is not None for job in jobs))


def started_in_an_hour(jobs: Sequence[JobRecord]) -> float:
    """Return the share of jobs that started within an hour."""
    return _share(jobs, HOUR_S)


def started_in_a_day(jobs: Sequence[JobRecord]) -> float:
    """Return the share of jobs that started within a day."""
    return _share(jobs, DAY_S)


def _share(jobs: Sequence[JobRecord], limit_s: float) -> float:
    found = sum(job.waiting_s is not None and job.waiting_s <= limit_s for job in jobs)
    return found / len(jobs) if jobs else float("nan")


def on_several_sites(jobs: Sequence[JobRecord]) -> float:
    """Count the jobs that started on more than one site."""
    return float(sum(job.started_at is not None and job.is_coallocated for job in jobs))


def used_processor_s(jobs: Sequence[JobRecord]) -> float:
    """Add up the processor-seconds in which components ran."""
    return sum(job.processor_run_s for job in jobs)
