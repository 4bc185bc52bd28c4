"""Runs of the deadlines paper: chart points, runs observed job by job, and its arithmetic
(Deadlines 2, 3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import inf, isinf, nan
from statistics import fmean
from typing import Any

from koala.core.model.timeline import next_claim_at, next_try_at
from koala.core.model.values import Seconds
from koala.lab.papers.deadlines.simulation.counting import Outcome as JobOutcome
from koala.lab.papers.deadlines.simulation.counting import Record, Tally, summarize
from koala.lab.papers.deadlines.simulation.run import simulate
from koala.lab.papers.deadlines.simulation.setting import Setting
from koala.lab.sim.runs import ANY, Arithmetic, Level, Outcome, Run, changes
from koala.lab.sim.statistics import mean, percent
from koala.lab.workload.distributions import SizeDistribution

WAITS: tuple[Seconds, ...] = (0.0, 10.0, 100.0, 1000.0, inf)
"""X of Wait-X (Deadlines 3.3)."""
SHORT: tuple[Seconds, ...] = (0.0, 10.0, 100.0)
LONG: tuple[Seconds, ...] = (1000.0, inf)
FRACTIONS = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
"""Lp in figures 2 and 3."""
GLOBAL_LOADS = (0.05, 0.10, 0.20, 0.30, 0.40, 0.50)
"""Global loads at which the charts over the arrival rate of global jobs have points."""
LEADS_S: tuple[Seconds, ...] = (60.0, 300.0, 900.0, 1800.0, 3600.0)
"""Times from submission to required start, in figures 5 and 6."""
LEAD_BINS_S: tuple[tuple[Seconds, Seconds], ...] = (
    *((0.0, 60.0), (60.0, 300.0), (300.0, 900.0)),
    *((900.0, 1800.0), (1800.0, 3600.0)),
)
"""Classes of jobs by their own lead, from more than the first to the second."""
LOCAL_RATES = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05)
"""Local jobs a second and cluster: the axis of figure 7."""
WARMUP = 0.1
"""Share of a run that is not counted."""
OVERLOAD = 0.70
"""Requested loads from here on are near saturation: FCFS queues of local jobs alone are saturated
at 75 %, and claimed processors that wait for a deadline come on top."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A reading of what the paper leaves open; the defaults are ours."""

    tries_max: int = 10
    killed: str = "lost"
    victims: str = "youngest"

    def __str__(self) -> str:
        return changes(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLevel(Level):
    """The requested loads, local and global, and how the paper is read: `policy` is that of the
    sentences that name none."""

    local_load: float
    global_load: float
    policy: str = "GP"
    reading: Reading = Reading()

    @property
    def is_low(self) -> bool:
        """True at the paper's low local load."""
        return self.local_load == LOW

    @property
    def is_both_high(self) -> bool:
        """True where both the local and the global load are high."""
        return (self.local_load, self.global_load) == (HIGH, 0.4)


def _level(local_load: float, global_load: float) -> LoadLevel:
    return LoadLevel(
        name=f"local {100 * local_load:.0f} %, global {100 * global_load:.0f} %",
        is_near=local_load + global_load > OVERLOAD - 1e-9,
        local_load=local_load,
        global_load=global_load,
    )


LOW, HIGH = 0.3, 0.6
"""Local loads of the paper."""
LOW_LEVELS = tuple(_level(LOW, load) for load in (0.1, 0.2, 0.4))
HIGH_LEVELS = tuple(_level(HIGH, load) for load in (0.2, 0.4))
LEVELS = (ANY, *LOW_LEVELS, *HIGH_LEVELS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLevel(Level):
    """A reading under which claims are judged, at these loads."""

    levels: tuple[LoadLevel, ...]


def _reading(
    name: str,
    *at_levels: LoadLevel,
    policy: str = "GP",
    **changed: Any,  # noqa: ANN401
) -> ReadLevel:
    """Make a reading at these loads, by default a local one of 30 % and a global one of 40 %: the
    one level near saturation at which the paper compares policies."""
    levels = tuple(
        replace(one, policy=policy, reading=Reading(**changed))
        for one in at_levels or LOW_LEVELS[-1:]
    )
    return ReadLevel(name=name, is_near=True, levels=levels)


READINGS = (
    _reading("LP where no policy is named", LOW_LEVELS[-1], HIGH_LEVELS[-1], policy="LP"),
    _reading("Mp = 3", tries_max=3),
    _reading("Mp = 50", tries_max=50),
    _reading("the oldest are killed", victims="oldest"),
    _reading("killed jobs go back", killed="requeue"),
)
"""Other readings; each differs from the default only in what it names."""


# Points of charts.


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A setting of the paper; unset fields are as in its section 3.1."""

    policy: str = "GP"
    fraction: float = 0.7
    wait_s: Seconds = inf
    local_load: float = LOW
    global_load: float = 0.2
    lead_s: Seconds | None = None
    """Same for all jobs; None: uniform on [1, 3599]."""
    reading: Reading = Reading()

    def __str__(self) -> str:
        lead = "" if self.lead_s is None else f", lead {self.lead_s:g} s"
        other = f", {self.reading}" if self.reading != Reading() else ""
        return (
            f"{self.policy} {name_of_wait(self.wait_s)}, Lp {self.fraction:g}, local "
            f"{100 * self.local_load:.3g} %, global {100 * self.global_load:.3g} %{lead}{other}"
        )

    def setting(self, time_s: Seconds) -> Setting:
        """Return the simulator's setting."""
        lead_s = (1.0, 3599.0) if self.lead_s is None else (self.lead_s, self.lead_s)
        return Setting(
            at_deadline={"GP": "kill", "LP": "fail"}[self.policy],
            fraction=self.fraction,
            tries_max=self.reading.tries_max,
            is_requeued=self.reading.killed == "requeue",
            is_oldest_first=self.reading.victims == "oldest",
            wait_s=self.wait_s,
            local_load=self.local_load,
            global_load=self.global_load,
            lead_s=lead_s,
            time_s=time_s,
            warmup_s=WARMUP * time_s,
        )

    @property
    def global_rate(self) -> float:
        """Global jobs a second: the x axis of most charts."""
        return self.setting(1.0).global_rate


def name_of_wait(wait_s: Seconds) -> str:
    """Name of a Wait-X policy, as the paper writes it."""
    return "Wait-∞" if isinf(wait_s) else f"Wait-{wait_s:g}"


def at(level: Level, point: Point | None = None) -> Point:
    """Return a point at the loads of a level, as the level reads the paper. Without a point, the
    policy is that of sentences that name none."""
    assert isinstance(level, LoadLevel)
    return replace(
        point or Point(policy=level.policy),
        local_load=level.local_load,
        global_load=level.global_load,
        reading=level.reading,
    )


def point_of_rate(rate: float, point: Point) -> Point:
    """Return the point with so many local jobs a second at each cluster."""
    unit = replace(point, local_load=1.0).setting(1.0)
    return replace(point, local_load=rate / unit.local_rate(unit.sites[0]))


# Runs that are watched job by job.


@dataclass(frozen=True, slots=True)
class Watched:
    """A point whose global jobs are examined one by one."""

    point: Point

    def __str__(self) -> str:
        return str(self.point)


@dataclass(frozen=True, slots=True)
class Beginning:
    """A point that starts from an empty grid, many times: the first jobs, and those after them."""

    point: Point

    def __str__(self) -> str:
        return f"{self.point}, from an empty grid"


FIRST_JOBS = 5
"""Jobs that count as the first ones; they come before waiting claims can fill the grid."""
LATER_JOBS = 20
"""Arrivals to skip before jobs count as later ones: by then the first ones have been claimed
for."""
BEGINNING_S = 36_000.0


# Running.


Anything = Point | Watched | Beginning | Arithmetic


def run(one: Run) -> Outcome:
    """Make one run of any kind."""
    setting = one.setting
    assert isinstance(setting, Anything), setting
    match setting:
        case Point():
            return _run_point(setting, one)
        case Watched(point=point):
            return _run_watched(point, one)
        case Beginning(point=point):
            return _run_beginning(point, one)
        case Arithmetic():
            return Outcome(values=_arithmetic())


def _run_point(point: Point, one: Run) -> Outcome:
    setting = point.setting(one.effort.length)
    return _outcome(setting, simulate(setting, one.seed))


def _outcome(setting: Setting, batches: Sequence[Tally]) -> Outcome:
    found = summarize(setting, [batches])
    values = {name: metric.mean for name, metric in found.metrics.items()}
    # The mean response of a queue that grows depends on the length of the run: it is drawn, but
    # never compared.
    values["measured_response"] = values["local_response"]
    values["fail_rate"] = 100.0 - values["success_rate"]
    killed = sum(tally.killed for tally in batches)
    values["killed_of_ended"] = percent(killed, killed + sum(one.completed for one in batches))
    return Outcome(values=values, is_saturated=found.is_saturated)


def _run_watched(point: Point, one: Run) -> Outcome:
    setting = point.setting(one.effort.length)
    jobs: list[JobOutcome] = []
    batches = simulate(setting, one.seed, _keep_global(jobs))
    counted = [job for job in jobs if _deadline(job) >= setting.warmup_s]
    found = _outcome(setting, batches)
    return Outcome(
        values={**found.values, **_watch(counted, len(setting.sites))},
        is_saturated=found.is_saturated,
    )


def _keep_global(jobs: list[JobOutcome]) -> Record:
    def keep(outcome: JobOutcome) -> None:
        if outcome.kind == "global":
            jobs.append(outcome)

    return keep


def _deadline(job: JobOutcome) -> float:
    assert job.deadline_at is not None
    return job.deadline_at


def _watch(jobs: Sequence[JobOutcome], sites: int) -> dict[str, float]:
    started = [job for job in jobs if job.outcome == "started"]
    work = [0.0] * sites
    for job in started:
        for site in job.sites:
            work[site] += job.processors * job.run_s
    values = {f"share.{site}": percent(part, sum(work)) for site, part in enumerate(work)}
    return {
        **values,
        **_success_by_lead(jobs),
        "tries": mean(job.tries for job in jobs),
        "most_tries": max((float(job.tries) for job in jobs), default=nan),
        "later_try": percent(sum(job.tries > 1 for job in started), len(started)),
        "overtaken": percent(_overtaken(started), len(started)),
    }


def _success_by_lead(jobs: Sequence[JobOutcome]) -> dict[str, float]:
    """Return the success rate of the jobs of each class of LEAD_BINS_S; nan where there are
    none."""
    found = {}
    leads_s = [round(_deadline(job) - job.submitted_at, 6) for job in jobs]  # a sum less its part
    for low_s, high_s in LEAD_BINS_S:
        group = [job for job, lead_s in zip(jobs, leads_s, strict=True) if low_s < lead_s <= high_s]
        started = sum(job.outcome == "started" for job in group)
        found[f"success.lead.{high_s:g}"] = percent(started, len(group)) if group else nan
    return found


def _overtaken(started: Iterable[JobOutcome]) -> int:
    """Count the jobs that were claimed for after one that had been submitted later."""
    earliest, count = inf, 0
    for job in sorted(started, key=lambda one: one.submitted_at, reverse=True):
        assert job.claimed_at is not None
        count += job.claimed_at > earliest
        earliest = min(earliest, job.claimed_at)
    return count


def _run_beginning(point: Point, one: Run) -> Outcome:
    """Make as many short runs as fit in the length of the others, each from an empty grid."""
    setting = replace(point.setting(BEGINNING_S), warmup_s=0.0)
    count = max(1, round(one.effort.length / BEGINNING_S))
    jobs: list[JobOutcome] = []
    runs = [simulate(setting, _seed(one.seed, index), _keep_global(jobs)) for index in range(count)]
    first = [job for job in jobs if job.job <= FIRST_JOBS]
    later = [job for job in jobs if job.job > LATER_JOBS]
    begun = [batches[0] for batches in runs]
    filled = [tally for batches in runs for tally in batches[len(batches) // 2 :]]
    processors = sum(setting.sites)
    values = {
        "success.first": percent(sum(job.outcome == "started" for job in first), len(first)),
        "success.later": percent(sum(job.outcome == "started" for job in later), len(later)),
        "load.first": fmean(tally.metrics(processors)["total_load"] for tally in begun),
        "load.later": fmean(tally.metrics(processors)["total_load"] for tally in filled),
        "wasted.first": fmean(tally.metrics(processors)["wasted"] for tally in begun),
        "taken.later": fmean(_taken(tally, processors) for tally in filled),
    }
    return Outcome(values=values)


def _seed(seed: int, index: int) -> int:
    """Seed of the index-th short run; no two replications share one."""
    return 1_000_000 * seed + index


def _taken(tally: Tally, processors: int) -> float:
    found = tally.metrics(processors)
    return found["wasted"] + found["global_load"]


SMALL = 8
"""Largest component that counts as small: a quarter of a cluster."""
TRIES = 11
"""Tries 0 to Mp = 10."""


def _arithmetic() -> dict[str, float]:
    local = SizeDistribution(low=1, high=32, q=0.9)
    real = SizeDistribution(low=4, high=32, q=0.9)
    sizes = range(4, 33)
    probabilities = dict(zip(sizes, real.probabilities, strict=True))
    small = [size for size in sizes if size <= SMALL]
    powers = [size for size in sizes if size & (size - 1) == 0]
    *_, last_try_s = islice(_tries(3599.0, 0.7), TRIES)
    return {
        "local_size": local.mean,
        "global_size": real.mean,
        "uniform_size": sum(sizes) / len(sizes),
        "small": 100 * sum(probabilities[size] for size in small),
        "uniform_small": 100 * len(small) / len(sizes),
        "powers": 100 * sum(probabilities[size] for size in powers),
        "uniform_powers": 100 * len(powers) / len(sizes),
        "left_s": 3599.0 - last_try_s,
        "claiming_difference_s": _difference(),
    }


def _tries(lead_s: Seconds, fraction: float) -> Iterable[Seconds]:
    """PT of each try of a job submitted at 0."""
    at_s = 0.0
    while at_s < lead_s:
        at_s = next_try_at(at_s, lead_s, fraction=fraction)
        yield at_s


def _difference() -> float:
    """Difference between the tries of RPP and the claiming tries of KOALA, with Lp = L and D =
    JST."""
    at_s = claim_s = largest = 0.0
    for _ in range(TRIES):
        at_s = next_try_at(at_s, 3599.0, fraction=0.7)
        claim_s = next_claim_at(claim_s, 3599.0, fraction=0.7, step_min_s=0.0)
        largest = max(largest, abs(at_s - claim_s))
    return largest
