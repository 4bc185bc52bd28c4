"""Experiments: the jobs of a workload on a grid, under policies, with faults and own metrics."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from math import inf
from typing import Any, Self, SupportsFloat

from koala.common.runtime.foreign.guards import noting_replacements
from koala.core.model.parameters import NAMES
from koala.core.model.values import FOREVER, SiteName
from koala.core.policy_api import Policies
from koala.errors import ConfigError
from koala.lab.fields import check_fields
from koala.lab.grids import POLICIES, Grid, with_parameters
from koala.lab.progress import LineListener
from koala.lab.results import Result, flat
from koala.lab.rows import Rows
from koala.lab.sim.experiment.setting import FaultRates, Outage, RandomFaults
from koala.lab.sim.experiment.world import ExperimentReport
from koala.lab.sim.log_replay.multicluster import GridReplay, Multicluster, rule
from koala.lab.sim.metrics import COLUMNS, JobRecord
from koala.lab.sim.saturation import JUDGED_MIN, is_saturated, trend
from koala.lab.workloads import Workload
from koala.policies import chosen

Policy = str | Callable[..., Any]
"""Name of a policy, module:function, or a function."""
Metric = Callable[[Sequence[JobRecord]], float]
"""Function of the records of all jobs of a run (`koala.lab.sim.metrics.JobRecord`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Faults of the sites: the probability that a claim errs, and that a component that runs is
    lost, everywhere or by site; and outages, (site, begin, end) in seconds."""

    claim: float | Mapping[str, float] = 0.0
    component: float | Mapping[str, float] = 0.0
    outages: tuple[tuple[str, float, float], ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)

    def drawn(self, seed: int, sites: Sequence[str]) -> RandomFaults:
        """Return the faults of one run. Raises ConfigError."""
        known = {"claim": self.claim, "component": self.component}
        named = {site for one in known.values() if isinstance(one, Mapping) for site in one}
        for site in sorted(named | {site for site, _, _ in self.outages}):
            if site not in sites:
                raise ConfigError(f"faults of {site}: sites are {', '.join(sites)}")
        for site, begin, end in self.outages:
            if not 0 <= begin < end:
                raise ConfigError(
                    f"outage of {site} from {begin:g} to {end:g} s (expected an end after a begin"
                    " of 0 or more)"
                )
        rates = {
            SiteName(site): FaultRates(
                claim=_rate("claim", self.claim, site),
                component=_rate("component", self.component, site),
            )
            for site in sites
        }
        outages = [
            Outage(site=SiteName(site), at=begin, until=end) for site, begin, end in self.outages
        ]
        return RandomFaults(seed, rates, outages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Jobs on a grid. Policies and parameters that are not given are the grid's.

    - `placement`, `claiming`, `deadlines`, `queueing`, `tickets`, `resizing`, `progress`: policies,
      by name or as functions (docs/policies.md).
    - `parameters`: parameters of the scheduler that differ from the grid's.
    - `split`: how a job that no site could hold is cut: equal, fill, flexible, or the most
      processors of a component.
    - `until_s`: end of the run; without it the last job ends it.
    - `is_whole`: the run goes on until the jobs of the sites' own logs have ended, too.
    - `metrics`: own metrics by name, functions of all jobs' records.
    """

    grid: Grid
    workload: Workload
    placement: Policy | None = None
    claiming: Policy | None = None
    deadlines: Policy | None = None
    queueing: Policy | None = None
    tickets: Policy | None = None
    resizing: Policy | None = None
    progress: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    faults: Faults | None = None
    split: str | int = "equal"
    until_s: float = inf
    is_whole: bool = False
    metrics: Mapping[str, Metric] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.workload, Workload):
            raise ConfigError(
                f"workload = {self.workload!r} (expected lab.Log, lab.Synthetic or lab.Jobs,"
                " which takes jobs, or a function that makes them of a seed)"
            )
        check_fields(self)
        if self.is_whole and self.until_s == inf and self.grid.has_endless_users:
            raise ConfigError(
                "is_whole: needs until_s, as synthetic local users submit for ever (expected"
                " without it: sites whose users are those of a log)"
            )
        self.policies()
        with_parameters(self.grid.parameters, self.parameters)
        rule(str(self.split))
        if not self.until_s > 0:
            raise ConfigError(f"until_s = {self.until_s} (expected more than 0)")
        if self.faults is not None:
            self.faults.drawn(0, [site.name for site in self.grid.sites])

    def changed(self, **changes: Any) -> Self:  # noqa: ANN401 - values of any field
        """Return the experiment with other values of fields, of parameters of the scheduler, or of
        fields of fields by their path, such as `workload.stretch`. Raises ConfigError."""
        parameters = {name: value for name, value in changes.items() if name in NAMES}
        others = {name: value for name, value in changes.items() if name not in NAMES}
        if parameters:
            others["parameters"] = {**self.parameters, **parameters}
        found: Self = changed(self, others)
        return found

    def policies(self) -> Policies:
        """Return the policies. Raises ConfigError for an unknown name or a wrong function."""
        given = {name: getattr(self, name) for name in POLICIES}
        wanted = {name: one for name, one in given.items() if one is not None}
        if not isinstance(self.progress, str | None):
            raise ConfigError(
                f"progress = {label(self.progress)} (expected the name of a policy); programs"
                " report no progress in simulated time"
            )
        return chosen(**{**self.grid.policies, **wanted})

    def run(
        self,
        seed: int = 1,
        *,
        progress: Callable[[int], None] | None = None,
        has_jobs: bool = True,
    ) -> Result:
        """Run it once: a function of the seed. `progress` gets the number of jobs that arrived."""
        with noting_replacements() as replaced:
            replay = self.replay(seed)
            listener = LineListener(f"{self}, seed {seed}")
            report = replay.run(progress=progress, listener=listener)
        result = self.result(replay, report, seed, has_jobs=has_jobs)
        return result.noted(replaced)

    def replay(self, seed: int = 1) -> GridReplay:
        """Return the run of a seed, which has not begun."""
        names = [site.name for site in self.grid.sites]
        jobs, counts = self.workload.arrivals(seed, self.grid.processors)
        setting = Multicluster(
            sites=tuple(site.setting(seed) for site in self.grid.sites),
            parameters=with_parameters(self.grid.parameters, self.parameters),
            policies=self.policies(),
            split=rule(str(self.split)),
            until=FOREVER if self.until_s == inf else float(self.until_s),
            faults=None if self.faults is None else self.faults.drawn(seed, names),
            is_whole=self.is_whole,
        )
        return GridReplay(setting, jobs, summary=counts)

    def result(
        self, replay: GridReplay, report: ExperimentReport, seed: int, *, has_jobs: bool = True
    ) -> Result:
        """Return the result of a run that is over."""
        document = replay.document(report)
        own = {name: _measured(name, of, report.jobs) for name, of in self.metrics.items()}
        return Result(
            name=str(self),
            seed=seed,
            metrics={**dict(flat(document)), **own},
            jobs=job_rows(report.jobs if has_jobs else (), COLUMNS),
            is_saturated=_is_saturated(report.jobs),
            is_stopped=replay.is_stopped,
            notes=(*_warnings(document, report.jobs), *replay.notes, *report.waiting),
            document=document,
            timeline=replay.timeline if has_jobs else None,
        )

    def __str__(self) -> str:
        given = ((name, getattr(self, name)) for name in POLICIES)
        texts = [f"{name} {label(one)}" for name, one in given if one is not None]
        return "; ".join([str(self.workload), str(self.grid), *texts])


def job_rows(jobs: Iterable[Any], columns: Sequence[str]) -> Rows:
    """Return a row for each record of a job."""
    return Rows((_row(one, columns) for one in jobs), columns)


def _row(record: Any, columns: Sequence[str]) -> dict[str, Any]:  # noqa: ANN401 - a dataclass or a named tuple
    if is_dataclass(record):
        names = columns or [one.name for one in fields(record)]
        return {name: getattr(record, name) for name in names}
    found: dict[str, Any] = record._asdict()
    return found


def _measured(name: str, of: Metric, jobs: Sequence[JobRecord]) -> float:
    value: object = of(jobs)
    if not isinstance(value, SupportsFloat):
        raise ConfigError(f"metrics: {name} returned {value!r} (expected a number)")
    return float(value)


def _warnings(document: Mapping[str, Any], jobs: Sequence[JobRecord]) -> Iterator[str]:
    """Yield why means say little: no job ran, or more was asked for than the grid can give."""
    if not jobs:
        yield f"no job could run: {document['dropped']['too_large']} larger than the grid"
        return
    period_s = max(job.submitted_at for job in jobs) - min(job.submitted_at for job in jobs)
    asked = sum(job.processor_run_s for job in jobs)
    capacity = document["processors"] * period_s
    if len(jobs) >= _JOBS_MIN and asked > capacity:
        times = f"{asked / capacity:.2g} times" if capacity else "more than"
        yield (
            f"overload: while jobs are submitted, they ask for {times} what the grid has, so that"
            " waits grow with the number of jobs"
        )


_JOBS_MIN = 100
"""Fewer jobs are no load, but a burst."""


def _is_saturated(jobs: Sequence[JobRecord]) -> bool:
    """True if more and more jobs wait: the test of the multiple-queues simulation."""
    if len(jobs) < JUDGED_MIN:
        return False
    left = sorted(
        inf if end is None else end
        for end in (job.ended_at if job.started_at is None else job.started_at for job in jobs)
    )
    arrivals = sorted(job.submitted_at for job in jobs)
    waiting = [sooner - bisect_right(left, at) for sooner, at in enumerate(arrivals)]
    return is_saturated([trend(waiting)])


def label(value: object) -> Any:  # noqa: ANN401 - numbers stay numbers
    """Return a short name of a value, for a row; numbers and words stay as they are."""
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return ",".join(str(label(one)) for one in value)
    return getattr(value, "__name__", None) or str(value)


def changed(value: Any, changes: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a dataclass
    """Return a dataclass with other values of fields, or of fields of fields by their path. Raises
    ConfigError for an unknown field."""
    names = [one.name for one in fields(value) if one.init]
    direct: dict[str, Any] = {}
    deeper: dict[str, dict[str, Any]] = {}
    for path, one in changes.items():
        name, _, rest = path.partition(".")
        if name not in names:
            raise ConfigError(f"{path}: no such setting; there are {', '.join(names)}")
        if rest:
            deeper.setdefault(name, {})[rest] = one
        else:
            direct[name] = one
    for name, rests in deeper.items():
        inner = direct.get(name, getattr(value, name))
        if isinstance(inner, Mapping):
            direct[name] = {**inner, **rests}
        elif is_dataclass(inner):
            direct[name] = changed(inner, rests)
        else:
            raise ConfigError(f"{name}.{next(iter(rests))}: {name} is {inner}, which has no parts")
    return replace(value, **direct)


def _rate(what: str, rates: float | Mapping[str, float], site: str) -> float:
    found = rates.get(site, 0.0) if isinstance(rates, Mapping) else rates
    if not 0 <= found <= 1:
        raise ConfigError(f"faults: {what} = {found} (expected a probability, 0 to 1)")
    return found
