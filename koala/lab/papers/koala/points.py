"""Runs of the KOALA paper: its experiment (`koala.lab.papers.koala.simulation`) at several regular
loads, the same with one change, and measures beyond `koala simulate koala` (KOALA 4, 5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan, nan
from statistics import fmean

from koala.core.invariants import check
from koala.core.model.actions import Action
from koala.core.model.events import ClaimGone, ClaimPassed, Event
from koala.core.model.job import EndKind, Failed
from koala.core.model.values import Instant
from koala.core.scheduler import Scheduler
from koala.lab.papers.koala.simulation.run import DRAWN_S, Measured, measured, over_time, world
from koala.lab.papers.koala.simulation.run import run as run_once
from koala.lab.papers.koala.simulation.setting import Setting
from koala.lab.sim.metrics import JobRecord
from koala.lab.sim.runs import ANY, Arithmetic, Level, Outcome, Run
from koala.lab.sim.statistics import mean, percent, ratio

EXPERIMENT = Setting()
SIZES = EXPERIMENT.sizes
SHAPES = tuple((size, count) for size in SIZES for count in EXPERIMENT.allowed(size))
"""Sizes and numbers of components, in the order of the paper's charts."""
PRIORITIES = ("high", "low")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLevel(Level):
    """Load of the sites' regular users."""

    setting: Setting


def _level(local_load: float, *, is_near: bool = False) -> LoadLevel:
    setting = replace(EXPERIMENT, local_load=local_load)
    return LoadLevel(
        name=f"regular load {100 * local_load:.0f} %", is_near=is_near, setting=setting
    )


LIGHT, MIDDLE = _level(0.2), _level(0.5)
BUSY = _level(EXPERIMENT.local_load, is_near=True)
LEVELS = (ANY, LIGHT, MIDDLE, BUSY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading(LoadLevel):
    """Another value of what the paper does not print, at the load of the experiment. The claims
    about figures are judged under it."""


def _reading(name: str, **changes: object) -> Reading:
    return Reading(name=name, is_near=True, setting=replace(EXPERIMENT, **changes))  # type: ignore[arg-type]


def _failing(factor: float) -> dict[str, object]:
    """Return the failure rates of the experiment, multiplied."""
    rates = {"claim_errs": EXPERIMENT.claim_errs, "component_fails": EXPERIMENT.component_fails}
    return {name: tuple(factor * one for one in found) for name, found in rates.items()}


READINGS = (
    _reading("half the failures", **_failing(0.5)),
    _reading("twice the failures", **_failing(2.0)),
    _reading("regular load 65 %", local_load=0.65),
    _reading("a job every 60 s", interval_s=60.0),
    _reading("a job every 240 s", interval_s=240.0),
    _reading(
        "errors of distinct jobs counted",
        parameters=replace(EXPERIMENT.parameters, errors_counted="jobs"),
    ),
    _reading("each copy has a whole link", shared_links=False),
    _reading("local FCFS", discipline="fcfs"),
)
"""Other values; each differs from the experiment only in what it names."""


# The experiment with one thing changed.


def _scheduled(**changes: float | str) -> Change:
    """Return the experiment with other parameters of the scheduler."""

    def change(setting: Setting) -> Setting:
        parameters = replace(setting.parameters, **changes)  # type: ignore[arg-type]
        return replace(setting, parameters=parameters)

    return change


def _small(setting: Setting) -> Setting:
    """Return the experiment with jobs of 36 only, on a testbed that does not fail."""
    reliable = CHANGES["reliable"](setting)
    return replace(reliable, sizes=SIZES[:1], lost_site=None)


WHOLE = (1,)
"""Jobs of one component."""
Change = Callable[[Setting], Setting]
CHANGES: dict[str, Change] = {
    "whole": lambda setting: replace(setting, components=WHOLE),
    "worst fit": lambda setting: replace(setting, placement="WF"),
    "claim at once": _scheduled(  # L = 0: as soon as the job is placed
        claim_fraction=0.0, claim_fraction_step=0.0, claim_fraction_min=0.0
    ),
    "S = 1": _scheduled(high_scans_per_low=1),
    "L fixed": _scheduled(claim_fraction_step=0.0),
    "atomic": _scheduled(claim_threshold=1.0),
    "no preemption": _scheduled(preempt="none"),
    "reliable": lambda setting: replace(  # but for the site that is lost
        setting, claim_errs=(0.0,), component_fails=(0.0,)
    ),
    "small": _small,
    "small and whole": lambda setting: replace(_small(setting), components=WHOLE),
}


def changed(setting: Setting, change: str) -> Setting:
    """Return the experiment with one of these changes."""
    return CHANGES[change](setting)


LARGER = replace(
    EXPERIMENT,
    local_load=0.0,
    sizes=(144,),
    components=(3, 4),
    lost_site=None,
    claim_errs=(0.0,),
    component_fails=(0.0,),
)
"""Jobs that no site could run alone, on a grid that is theirs and does not fail."""


@dataclass(frozen=True, slots=True)
class Watched:
    """The experiment, with the scheduler inspected after every event."""

    setting: Setting

    def __str__(self) -> str:
        return f"{self.setting}, watched"


# Running.

Anything = Setting | Watched | Arithmetic
CHECKED_EVERY = 50
"""Events between two checks of the scheduler's invariants: a check looks at everything."""


def run(wanted: Run) -> Outcome:
    """Make one run; the effort says how many jobs are submitted."""
    setting = wanted.setting
    assert isinstance(setting, Anything), setting
    jobs = round(wanted.effort.length)
    match setting:
        case Setting():
            return _outcome(run_once(replace(setting, jobs=jobs), wanted.seed))
        case Watched():
            return _run_watched(replace(setting.setting, jobs=jobs), wanted.seed)
        case Arithmetic():
            return Outcome(values=_arithmetic())


def _outcome(found: Measured, seen: Mapping[str, float] | None = None) -> Outcome:
    values = {**found.values, **_beyond(found), **(seen or {})}
    return Outcome(values=values, is_saturated=found.unfinished > 0, notes=found.waiting)


@dataclass(slots=True)
class _Observer:
    """Observer of every event."""

    events: int = 0
    most_delayed: int = 0
    failed_before: int = 0
    failed_running: int = 0
    most_skew_s: float = 0.0
    first_passes: dict[str, Instant] = field(default_factory=dict)

    def __call__(
        self, scheduler: Scheduler, event: Event, _actions: Sequence[Action], now: Instant
    ) -> None:
        self.events += 1
        self.most_delayed = max(self.most_delayed, len(scheduler.queues.delayed))
        if isinstance(event, ClaimGone):
            self.failed_before += event.end.kind is EndKind.FAILED
            self.failed_running += event.end.kind is EndKind.VANISHED
        if isinstance(event, ClaimPassed):
            attempt = event.claim.rsplit("/", 2)[0]
            first = self.first_passes.setdefault(attempt, event.passed_at)
            self.most_skew_s = max(self.most_skew_s, abs(event.passed_at - first))
        if self.events % CHECKED_EVERY == 0:
            check(scheduler, now)


def _run_watched(setting: Setting, seed: int) -> Outcome:
    eye = _Observer()
    made = world(setting, seed, watch=eye).run(until=setting.warmup_s + setting.horizon_s)
    seen = {
        "most_delayed": float(eye.most_delayed),
        "failed_before": float(eye.failed_before),
        "failed_running": float(eye.failed_running),
        "most_skew_s": eye.most_skew_s,
        "checks": float(eye.events // CHECKED_EVERY),
    }
    return _outcome(measured(setting, seed, made), seen)


# Measures beyond those of `koala simulate koala`.


def _beyond(found: Measured) -> dict[str, float]:
    jobs = found.jobs
    ran = [job for job in jobs if job.is_finished]
    claimed_s = sum(job.processor_wasted_s + job.processor_run_s for job in jobs)
    return {
        "finished_percent": percent(len(ran), len(jobs)),
        "failed_percent": percent(sum(job.phase == Failed.__name__ for job in jobs), len(jobs)),
        "failed_once_percent": percent(sum(job.failures > 0 for job in jobs), len(jobs)),
        "most_failures": float(max(job.failures for job in jobs)),
        "sharing_percent": percent(sum(_sites(job) < job.components for job in ran), len(ran)),
        "wasted_percent": percent(sum(job.processor_wasted_s for job in jobs), claimed_s),
        "spread_failures": _spread(ran),
        "peak_busy": _peak(found),
        "processors.begin": found.spans[0].processors,
        "processors.end": found.spans[-1].processors,
        **_tries_an_hour(jobs),
        **_transfers(ran),
        **_by_class(ran),
    }


def _sites(job: JobRecord) -> int:
    return len(dict.fromkeys(job.sites))


def _since(job: JobRecord, at: Instant | None) -> float | None:
    return None if at is None or job.placed_at is None else at - job.placed_at


def _tries_an_hour(jobs: Sequence[JobRecord]) -> dict[str, float]:
    """Count placement tries in each hour in which a job is not placed, by priority."""
    found = {}
    for priority in PRIORITIES:
        group = [job for job in jobs if job.priority == priority]
        tries = sum(job.placement_tries for job in group)
        hours = sum(job.placement_s or 0.0 for job in group) / 3600
        found[f"tries_an_hour.{priority}"] = ratio(tries, hours)
    return found


def _transfers(ran: Sequence[JobRecord]) -> dict[str, float]:
    """Measure FTT of the last placement, from JPT to JST; and count placements that were undone
    though nothing failed and no job was preferred."""
    return {
        "transfer_s": mean(_since(job, job.start_at) for job in ran),
        "lateness_s": mean(job.start_lateness_s for job in ran),
        "returned": mean(job.attempts - 1 - job.failures - job.preemptions for job in ran),
    }


def _by_class(ran: Sequence[JobRecord]) -> dict[str, float]:
    """Group by size and number of components: how many sites; by size and priority: the time
    line."""
    found: dict[str, float] = {}
    for size, count in SHAPES:
        group = [job for job in ran if (job.processors, job.components) == (size, count)]
        found[f"sites.{size}x{count}"] = mean(_sites(job) for job in group)
    for size in SIZES:
        for priority in PRIORITIES:
            name = f"{size}.{priority}"
            group = [job for job in ran if (job.processors, job.priority) == (size, priority)]
            found[f"claimed.{name}"] = mean(_since(job, job.claimed_at) for job in group)
            found[f"start.{name}"] = mean(_since(job, job.start_at) for job in group)
            found[f"started.{name}"] = mean(_since(job, job.started_at) for job in group)
            found[f"ended.{name}"] = mean(_since(job, job.ended_at) for job in group)
    return found


def _spread(ran: Sequence[JobRecord]) -> float:
    """Measure how many more failures jobs on several sites have, among jobs of the same size and
    number of components."""
    excess = []
    for shape in SHAPES:
        group = [job for job in ran if (job.processors, job.components) == shape]
        spread = [job.failures for job in group if job.is_coallocated]
        together = [job.failures for job in group if not job.is_coallocated]
        if spread and together:
            excess.append(fmean(spread) - fmean(together))
    return mean(excess)


def _peak(found: Measured) -> float:
    """Return the busiest bin in the time that the paper's figure 2 shows."""
    bins = [found.values.get(over_time("busy", minute), nan) for minute in _minutes(found)]
    return max((busy for busy in bins if not isnan(busy)), default=nan)


def _minutes(found: Measured) -> list[float]:
    return [span.begin_at / 60 for span in found.spans if span.begin_at < DRAWN_S]


def _arithmetic() -> dict[str, float]:
    small, large = (EXPERIMENT.allowed(size) for size in SIZES)
    return {
        "most_components.36": float(max(small)),
        "most_components.72": float(max(large)),
        "least_component": float(min(size // count for size, count in SHAPES)),
    }
