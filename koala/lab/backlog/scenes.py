"""Scenes: some sites, each with 90 days of a log as its own users' jobs, and co-allocated jobs.

Jobs are submitted in 60 days. The logs begin ten days earlier, so that queues have grown by then,
and end 20 days later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from koala.errors import ConfigError
from koala.lab.grids import Grid, Site
from koala.lab.sim.log_replay.multicluster import GridJob
from koala.lab.workload.arrivals import machine
from koala.lab.workload.random_streams import stream
from koala.lab.workloads import Counts, Job, Jobs, Log

DAY_S = 86_400.0
BEFORE_D, JOBS_D, AFTER_D = 10, 60, 20
END_S = (BEFORE_D + JOBS_D + AFTER_D) * DAY_S
"""End of a run; it begins with the logs."""


@dataclass(frozen=True)
class Machine:
    """A machine with its log, in which the 60 days begin at a day (0: that of the first job)."""

    path: Path
    day: int

    def __post_init__(self) -> None:
        if self.day < BEFORE_D:
            raise ConfigError(f"{self} (expected a day from {BEFORE_D} on: the log begins earlier)")

    @property
    def log(self) -> Log:
        """The jobs of its users."""
        begin_s = (self.day - BEFORE_D) * DAY_S
        return Log(self.path, begin_s=begin_s, end_s=begin_s + END_S)

    @cached_property
    def processors(self) -> int:
        """Processors by the log. Raises WorkloadError when it has no jobs."""
        file = self.log.file()
        return machine(file, file.header())[0]

    @property
    def name(self) -> str:
        """Short name of the machine, and the day."""
        return f"{self.path.name.partition('.')[0].partition('-')[0]}:{self.day}"

    def identity(self) -> object:
        """Return what results depend on: the jobs, not the name of their file."""
        return [self.log.identity(), self.processors]

    def site(self, *, has_gate: bool, has_forecast: bool, books: bool) -> Site:
        """Return the site under EASY."""
        return Site(
            self.name,
            self.processors,
            users=self.log,
            has_gate=has_gate,
            has_forecast=has_forecast,
            books=books,
        )

    def __str__(self) -> str:
        return f"{self.path}:{self.day}"


@dataclass(frozen=True)
class Scene:
    """Some machines."""

    machines: tuple[Machine, ...]

    def __post_init__(self) -> None:
        names = [one.name for one in self.machines]
        if len(names) < 2 or len({*names}) < len(names):
            raise ConfigError(
                f"{'+'.join(map(str, self.machines))} (expected two or more logs with different"
                " names or days)"
            )

    def grid(
        self, *, has_gate: bool = True, has_forecast: bool = True, books: Sequence[bool] = ()
    ) -> Grid:
        """Return the sites, whose names are those of the machines, and which of them book."""
        booked = books or [False] * len(self.machines)
        sites = [
            one.site(has_gate=has_gate, has_forecast=has_forecast, books=is_booked)
            for one, is_booked in zip(self.machines, booked, strict=True)
        ]
        return Grid(sites=tuple(sites), name=self.name)

    @property
    def name(self) -> str:
        """Names of the machines."""
        return "+".join(one.name for one in self.machines)


def scene_of(text: str) -> Scene:
    """Read LOG:DAY+LOG:DAY... Raises ConfigError."""
    machines = []
    for one in text.split("+"):
        path, _, day = one.rpartition(":")
        if not (path and day.isdecimal()):
            raise ConfigError(f"{text} (expected logs with days, as kth.swf:110+ctc.swf:250)")
        machines.append(Machine(Path(path), int(day)))
    return Scene(tuple(machines))


@dataclass(frozen=True, slots=True, kw_only=True)
class Coallocated:
    """Jobs that need `percent` of the processors of each site for `run_s`: one in each `every_s`,
    at a random instant of it. With a number of `components` these may run at any of the sites, have
    `percent` of the smallest one, and wait at up to `redundancy` of them."""

    sites: tuple[tuple[str, int], ...]
    percent: float
    run_s: int
    every_s: int
    components: int | None = None
    redundancy: int = 1

    def __post_init__(self) -> None:
        if not (0 < self.percent <= 100 and self.run_s > 0 and self.every_s > 0):
            raise ConfigError(
                f"jobs of {self.percent} % for {self.run_s} s, one in {self.every_s} s (expected"
                " 100 % at most, and numbers above 0)"
            )
        if not 1 <= (self.components or 1) <= len(self.sites) >= self.redundancy >= 1:
            raise ConfigError(
                f"{self.components} components with redundancy {self.redundancy} (expected 1 to"
                f" {len(self.sites)}, a site for each)"
            )
        if self.redundancy > 1 and self.components is None:
            raise ConfigError(f"redundancy {self.redundancy}: needs a number of components")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Processors of a component at each of the sites."""
        smallest = min(processors for _, processors in self.sites)
        of = [smallest if self.components else processors for _, processors in self.sites]
        return tuple(max(1, round(one * self.percent / 100)) for one in of)

    def jobs(self, seed: int) -> list[Job]:
        """Draw the jobs of a seed."""
        draws = stream(seed, "co-allocated jobs")
        return [
            Job(
                at=int(BEFORE_D * DAY_S + (number + draws.random()) * self.every_s),
                processors=self.sizes[: self.components],
                run_s=self.run_s,
                name=f"job{number}",
                sites=() if self.components else tuple(name for name, _ in self.sites),
                redundancy=self.redundancy,
            )
            for number in range(int(JOBS_D * DAY_S) // self.every_s)
        ]

    def parts(self, seed: int, place: int) -> list[tuple[int, int, int]]:
        """Return instant, processors and run time of each job's part at a site."""
        return [(int(job.at), self.sizes[place], self.run_s) for job in self.jobs(seed)]

    def arrivals(self, seed: int, processors: int) -> tuple[Iterable[GridJob], Counts]:
        """Return the jobs of a seed."""
        return Jobs(self.jobs(seed)).arrivals(seed, processors)

    def __str__(self) -> str:
        return f"jobs of {self.percent:g} % for {self.run_s} s"
