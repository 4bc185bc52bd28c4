"""Bound: how long plain jobs of the same sizes wait, submitted to each local queue alone.

A co-allocated job can hardly start sooner than the last of its parts would as a job of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from statistics import fmean, median

from koala.lab.backlog.scenes import BEFORE_D, DAY_S, END_S, JOBS_D, Coallocated, Machine, Scene
from koala.lab.sim.log_replay.run import TraceRun
from koala.lab.sim.log_replay.tally import Ended
from koala.lab.sim.runs import Outcome
from koala.lab.workload.arrivals import Arrival
from koala.queue_model import Discipline

PLAIN_AT = -1
"""Number of the first plain job; those of a log are not negative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Local queue after a run: waits of the local jobs that started, and of the plain jobs. Of the
    60 days alone: the utilization by local jobs, and the mean wait of those submitted in them."""

    local_waits_s: tuple[float, ...]
    plain_waits_s: tuple[float, ...]
    utilization: float
    window_wait_s: float


class _EndedJobs(list[Ended]):
    """Jobs of a run that have ended."""

    def add(self, ended: Sequence[Ended], _cut: Sequence[Ended]) -> None:
        """See JobRows."""
        self += ended


def simulate(machine: Machine, plain: Iterable[tuple[int, int, int]] = ()) -> Queue:
    """Run a machine's log and plain jobs (instant, processors, run time) under EASY. A plain job
    that has not started at the end has waited until then."""
    plain = [*plain]
    added: list[Arrival] = [
        (at, PLAIN_AT - place, processors, run_s, run_s)
        for place, (at, processors, run_s) in enumerate(plain)
    ]
    arrivals = sorted([*_local(machine), *added], key=lambda job: job[0])
    ended = _EndedJobs()
    run = TraceRun(arrivals, processors=machine.processors, discipline=Discipline.EASY, rows=ended)
    run.go(int(END_S) - 1)
    begin, end = BEFORE_D * DAY_S, (BEFORE_D + JOBS_D) * DAY_S
    plain_waits = [END_S - at for at, _, _ in plain]
    waits, window, busy_s = [], [], 0.0
    for end_at, _, (at, number, processors, _, _), start in chain(ended, run.running()):
        if number <= PLAIN_AT:
            plain_waits[PLAIN_AT - number] = start - at
            continue
        waits.append(start - at)
        busy_s += processors * max(0.0, min(end_at, end) - max(start, begin))
        if begin <= at < end:
            window.append(start - at)
    return Queue(
        local_waits_s=tuple(waits),
        plain_waits_s=tuple(plain_waits),
        utilization=busy_s / (machine.processors * (end - begin)),
        window_wait_s=fmean(window) if window else 0.0,
    )


@lru_cache(maxsize=4)
def _local(machine: Machine) -> list[Arrival]:
    """Read the jobs that the machine can hold."""
    return [
        (int(at), number, processors, run_s, estimate_s)
        for number, (at, processors, run_s, estimate_s) in enumerate(machine.log.local_jobs())
        if processors <= machine.processors
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundTask:
    """The plain jobs of a seed in a scene; without jobs the local ones alone."""

    scene: Scene
    jobs: Coallocated | None = None
    seed: int = 0


def run_bound(task: BoundTask) -> Outcome:
    """Run each site by itself; a job has waited for the last of its parts, at the sites where they
    start first if it may choose."""
    queues = [
        simulate(machine, [] if task.jobs is None else task.jobs.parts(task.seed, place))
        for place, machine in enumerate(task.scene.machines)
    ]
    local = [wait for queue in queues for wait in queue.local_waits_s]
    values: dict[str, float] = {"local_wait_mean": fmean(local) if local else 0.0}
    if task.jobs is not None:
        last = (task.jobs.components or len(queues)) - 1
        by_job = zip(*(queue.plain_waits_s for queue in queues), strict=True)
        values |= summarised(sorted(each)[last] for each in by_job)
    else:
        for machine, queue in zip(task.scene.machines, queues, strict=True):
            values[f"{machine.name} utilization"] = queue.utilization
            values[f"{machine.name} wait_s"] = queue.window_wait_s
    return Outcome(values=values)


def summarised(waits_s: Iterable[float]) -> Mapping[str, float]:
    """Return median, 90th percentile and mean of waits, and the share of at most 72 hours."""
    ordered = sorted(waits_s)
    return {
        "median_s": median(ordered),
        "p90_s": _p90(ordered),
        "mean_s": fmean(ordered),
        "in_72h_percent": 100 * sum(wait <= 3 * DAY_S for wait in ordered) / len(ordered),
    }


def _p90(ordered: list[float]) -> float:
    """Return the 90th percentile, between two values in proportion."""
    place = 0.9 * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
