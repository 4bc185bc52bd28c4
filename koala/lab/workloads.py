"""Workloads: jobs of logs, of models, and own ones. A workload is a function of the seed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from itertools import chain, count, dropwhile, islice, takewhile
from math import inf, isfinite
from operator import index
from pathlib import Path
from random import Random
from typing import Protocol, runtime_checkable

from koala.common.runtime.option_values import Bounds, bounds
from koala.core.model.values import Priority
from koala.errors import ConfigError
from koala.lab.fields import check_fields
from koala.lab.rows import Rows
from koala.lab.sim.log_replay.multicluster import GridJob
from koala.lab.sim.options import Option, declared, flag, number, require_declared, text
from koala.lab.workload import gwf, lublin, papers, swf
from koala.lab.workload import logs as log_files
from koala.lab.workload.arrivals import Arrivals, Overrun, Summary
from koala.lab.workload.distributions import SizeDistribution

FORMATS = {"swf": swf.FORMAT, "gwf": gwf.FORMAT}
MODELS = ("lublin", "das")
ANY_SIZE = 1 << 62
POSITIVE = Bounds(above=0)
Counts = Callable[[], Summary]
Drawn = tuple[int, int, int, int]
"""Submit, processors, run time, queue."""


@runtime_checkable
class Workload(Protocol):
    """Jobs for a grid of so many processors."""

    def arrivals(self, seed: int, processors: int) -> tuple[Iterable[GridJob], Counts]:
        """Return the jobs in order of their instants, and the counts of a log so far."""


@dataclass(frozen=True)
class Log:
    """Jobs of a log in the Standard or the Grid Workload Format, gzipped or not.

    - `overrun`: what happens to a job that runs over its estimate: raise, kill, extend.
    - `begin_s`, `end_s`: only jobs that were submitted in this time, in seconds since the first job
      of the log; `jobs`: at most so many of them.
    - `part_s`: only a part of so many seconds: the seed n has the n-th one.

    Counts of what was read and dropped are those of the whole log.
    """

    path: str | Path
    format: str | None = None
    overrun: str = "raise"
    _: KW_ONLY
    begin_s: float = 0
    end_s: float | None = None
    jobs: int | None = None
    part_s: float | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        _one_of("overrun", self.overrun, [one.value for one in Overrun])
        if self.format is not None:
            _one_of("format", self.format, list(FORMATS))
        if not 0 <= self.begin_s < (inf if self.end_s is None else self.end_s):
            raise ConfigError(
                f"begin_s = {self.begin_s}, end_s = {self.end_s} (expected an end after a begin"
                " of 0 or more)"
            )
        for name, value in (("jobs", self.jobs), ("part_s", self.part_s)):
            if value is not None and not value > 0:
                raise ConfigError(f"{name} = {value} (expected more than 0)")
        if not Path(self.path).is_file():
            raise ConfigError(f"{self.path} does not exist")

    @property
    def is_whole(self) -> bool:
        """True if all jobs of the log are meant."""
        return (self.begin_s, self.end_s, self.jobs, self.part_s) == (0, None, None, None)

    def file(self) -> log_files.Log:
        """Return the file, to be read."""
        return log_files.Log(Path(self.path), format_of(Path(self.path), self.format))

    def arrivals(self, seed: int, processors: int) -> tuple[Iterable[GridJob], Counts]:
        """Return the jobs of the log, the same for every seed without `part_s`; the first is
        submitted at 0. Raises WorkloadError when one cannot be read, and ConfigError if there is
        none."""
        found = Arrivals(self.file(), processors=ANY_SIZE, overrun=Overrun(self.overrun))
        return self._cut(found, seed), lambda: found.summary

    def _cut(self, found: Arrivals, seed: int) -> Iterator[GridJob]:
        begin, end = self.begin_s, inf if self.end_s is None else self.end_s
        if self.part_s is not None:
            begin, end = begin + (seed - 1) * self.part_s, min(end, begin + seed * self.part_s)
        first = None
        jobs = chain.from_iterable(found.sorted_blocks())
        within = takewhile(lambda job: job[0] < end, dropwhile(lambda job: job[0] < begin, jobs))
        for at, job, size, run_s, estimate_s in islice(within, self.jobs):
            first = at if first is None else first
            yield GridJob(at - first, job, size, run_s, estimate_s)
        if first is None:
            raise ConfigError(f"{self}: no job that could be replayed from {begin:g} to {end:g} s")

    def rows(self) -> Rows:
        """Read all jobs of the file with all fields of the format, to look at and to choose from;
        names have underscores. Raises WorkloadError."""
        form = self.file().format
        names = [name.replace(" ", "_") for name in form.fields]
        return Rows(
            (
                {
                    name: float(value) if "." in value else int(value)
                    for name, value in zip(names[: form.numbers], fields, strict=False)
                }
                | dict(zip(names[form.numbers :], fields[form.numbers :], strict=True))
                for fields in self.file().lines()
            ),
            names,
        )

    def local_jobs(self) -> Iterator[tuple[float, int, int, int]]:
        """Yield instant, processors, run time and estimate of each job, at the instants that the
        log has, or from `begin_s` on. Raises WorkloadError when one cannot be read."""
        found = Arrivals(self.file(), processors=ANY_SIZE, overrun=Overrun(self.overrun))
        begin, end = self.begin_s, inf if self.end_s is None else self.end_s
        for at, _, processors, run_s, estimate_s in chain.from_iterable(found.sorted_blocks()):
            if at >= end:
                return
            if at >= begin:
                shift = found.shift if self.is_whole else -begin
                yield at + shift, processors, run_s, estimate_s

    def shift_s(self) -> int:
        """Return the instant in the log of the job that `arrivals` submits at 0."""
        found = Arrivals(self.file(), processors=ANY_SIZE)
        next(found.sorted_blocks(), None)
        return found.shift

    def identity(self) -> object:
        """Return what results depend on: the content of the file, not its name."""
        cut = [] if self.is_whole else [self.begin_s, self.end_s, self.jobs, self.part_s]
        return [self.content, format_of(Path(self.path), self.format).name, self.overrun, *cut]

    @property
    def content(self) -> str:
        """Digest of the file as it is now. Raises ConfigError if it cannot be read."""
        try:
            found = Path(self.path).stat()
            return _content(str(self.path), (found.st_ino, found.st_size, found.st_mtime_ns))
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be read: {error.strerror}") from error

    def __str__(self) -> str:
        return Path(self.path).name


@lru_cache(maxsize=64)
def _content(path: str, _version: tuple[int, ...]) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def format_of(path: Path, name: str | None = None) -> log_files.Format:
    """Return the format of a log, by its name or by that of the file."""
    return FORMATS[name or ("gwf" if ".gwf" in path.suffixes else "swf")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthetic:
    """Jobs of a model: lublin (Lublin and Feitelson) or das (the papers' local users).

    The fields are the options of `koala simulate workload`. `processors` is the size of the machine
    that the jobs are for; None for all of the grid's.
    """

    model: str = "lublin"
    jobs: int = number(10_000, "Number of jobs.", bounds=Bounds(low=1))
    processors: int | None = declared(
        None,
        Option(default=128, kind="whole", bounds=Bounds(low=2), help="Processors of the machine."),
    )
    kinds: bool = flag("lublin: separate batch (queue 1) and interactive (0) jobs.", name="kinds")
    stretch: float = number(1.0, "lublin: factor of the times between arrivals.", bounds=POSITIVE)
    sizes: tuple[int, int] | None = text(
        None, bounds, "das: sizes.", metavar="LOW:HIGH", unset="1 to the processors"
    )
    q: float = number(
        0.9, "das: q of D(q); the smaller q, the more small sizes.", bounds=Bounds(above=0, high=1)
    )
    run_mean_s: float = number(
        600.0, "das: mean run time.", name="run", metavar="SECONDS", bounds=POSITIVE
    )
    utilization: float = number(0.7, "das: offered load; 1 is all processors.", bounds=POSITIVE)
    overestimate: float = number(
        0.0,
        "Estimates: run time times 1 to this (uniform), 1 or more; 0: none.",
        bounds=Bounds(low=0),
    )

    def __post_init__(self) -> None:
        check_fields(self)
        _one_of("MODEL", self.model, MODELS)
        require_declared(self)
        if 0 < self.overestimate < 1:
            raise ConfigError(f"overestimate = {self.overestimate} (expected 0, or 1 or more)")
        if self.sizes is not None and not 1 <= self.sizes[0] <= self.sizes[1]:
            raise ConfigError(
                f"--sizes {self.sizes[0]}:{self.sizes[1]} (expected sizes of 1 or more, the smaller"
                " first)"
            )

    def drawn(self, seed: int, processors: int) -> Iterator[Drawn]:
        """Draw the jobs. Raises ConfigError."""
        random = Random(seed)
        make = self._lublin if self.model == "lublin" else self._das
        return islice(make(self.processors or processors, random), self.jobs)

    def estimates(self, seed: int) -> Callable[[int], int]:
        """Return the function that draws the estimate of a run time; -1 without estimates."""
        random = Random(f"{seed} estimates")
        factor = self.overestimate
        return lambda run_s: round(run_s * random.uniform(1, factor)) if factor else -1

    def arrivals(self, seed: int, processors: int) -> tuple[Iterable[GridJob], Counts]:
        """Return the jobs of this seed; the first is submitted at 0."""
        return self._jobs(seed, processors), Summary

    def _jobs(self, seed: int, processors: int) -> Iterator[GridJob]:
        estimate, begin = self.estimates(seed), None
        for job, (at, size, run_s, _) in enumerate(self.drawn(seed, processors), start=1):
            begin = at if begin is None else begin
            run = run_s or 1
            estimate_s = estimate(run_s)
            yield GridJob(at - begin, job, size, run, max(run, estimate_s))

    def _lublin(self, processors: int, random: Random) -> Iterator[Drawn]:
        chosen = (lublin.BATCH, lublin.INTERACTIVE) if self.kinds else (lublin.ALL,)
        drawn = lublin.jobs(*(kind.on(processors) for kind in chosen), random=random)
        return (
            (int(job.submit_at * self.stretch), job.processors, job.run_s, int(job.is_batch))
            for job in drawn
        )

    def _das(self, processors: int, random: Random) -> Iterator[Drawn]:
        low, high = self.sizes or (1, processors)
        if high > processors:
            raise ConfigError(f"--sizes {low}:{high}: at most {processors}, all --processors")
        distribution = SizeDistribution(low=low, high=high, q=self.q)
        drawn = papers.jobs(
            distribution,
            processors=processors,
            run_mean_s=self.run_mean_s,
            utilization=self.utilization,
            random=random,
        )
        return ((*job, -1) for job in drawn)

    def __str__(self) -> str:
        return f"{self.jobs} jobs of {self.model}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job of your own. `processors` is a number, which is split where no site could hold it, or
    those of each component, which may have `sites`; without them each waits in the queues of up to
    `redundancy` sites. Without an estimate it is exact. `queue` is the site at whose queue it is
    submitted; a job of one component runs only there."""

    at: float
    processors: int | tuple[int, ...]
    run_s: float
    estimate_s: float | None = None
    priority: str = "low"
    name: str | None = None
    user: str = ""
    queue: str | None = None
    sites: tuple[str, ...] = ()
    redundancy: int = 1

    def __post_init__(self) -> None:
        try:
            self._check()
        except TypeError:  # of a comparison: types are looked at only then, as jobs are many
            check_fields(self)
            raise

    def _check(self) -> None:
        given = self.processors
        sizes = [index(one) for one in (given if isinstance(given, Sequence) else (given,))]
        if not sizes or min(sizes) < 1 or max(sizes) >= ANY_SIZE:
            raise ConfigError(f"job with processors {self.processors} (expected 1 or more)")
        if not (self.at >= 0 and isfinite(self.at) and self.run_s > 0 and isfinite(self.run_s)):
            raise ConfigError(
                f"job at {self.at} with run_s {self.run_s} (expected an instant of 0 or more and a"
                " run time above 0)"
            )
        if self.estimate_s is not None and self.estimate_s < self.run_s:
            raise ConfigError(f"job at {self.at}: estimate_s {self.estimate_s} is below its run_s")
        if self.sites and not (isinstance(given, Sequence) and len(self.sites) == len(sizes)):
            raise ConfigError(
                f"job at {self.at} with processors {given} and sites {', '.join(self.sites)}"
                " (expected a site for each of its components)"
            )
        _one_of("priority", self.priority, [one.value for one in Priority])

    def grid_job(self, number: int) -> GridJob:
        """Return it in the simulator's form."""
        return GridJob(
            float(self.at),
            self.name or number,
            tuple(map(int, self.processors))
            if isinstance(self.processors, Sequence)
            else int(self.processors),
            float(self.run_s),
            float(self.run_s if self.estimate_s is None else self.estimate_s),
            Priority(self.priority),
            self.user,
            self.queue,
            self.sites,
            self.redundancy,
        )


Source = Iterable[Job] | Callable[[int], Iterable[Job]]


@dataclass(frozen=True)
class Jobs:
    """Own jobs: an iterable of `Job`s, the same for every seed, or a function that makes one of a
    seed. They are sorted by their instants."""

    source: Source
    name: str = "own jobs"

    def __post_init__(self) -> None:
        if not callable(self.source):  # an iterator could be read once only
            object.__setattr__(self, "source", tuple(self.source))

    def arrivals(self, seed: int, processors: int) -> tuple[Iterable[GridJob], Counts]:
        """Return the jobs of this seed. Raises ConfigError for anything but jobs."""
        found = self.source(seed) if callable(self.source) else self.source
        jobs = list(found)
        for one in jobs:
            if not isinstance(one, Job):
                raise ConfigError(f"{one!r} is not a koala.lab.Job")
        jobs.sort(key=lambda one: one.at)
        numbers = count(1)
        return [one.grid_job(next(numbers)) for one in jobs], lambda: Summary(read=len(jobs))

    def identity(self) -> object:
        """Return what results depend on."""
        return self.source

    def __str__(self) -> str:
        return self.name


def _one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ConfigError(f"{name} {value} (expected one of {', '.join(allowed)})")
