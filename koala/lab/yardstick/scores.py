"""Metrics of the yardstick, and the table over all cells.

A cell is a grid with a workload. The first fifth of its jobs warms it up: they run and are not
measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp, log, nan

from koala.lab.experiments import Experiment
from koala.lab.grids import Grid
from koala.lab.rows import Row, Rows
from koala.lab.sim.metrics import JobRecord
from koala.lab.sim.statistics import interval
from koala.lab.sweeps import Point
from koala.lab.workloads import Jobs, Log
from koala.lab.yardstick.entries import Entry
from koala.lab.yardstick.workloads import JOBS, LOG, QUICK_PART, Mixed, workload_name

WARM_UP = 0.2
PERIODS_MAX = 10
"""A run ends after so many periods at the latest."""


def measured(jobs: Sequence[JobRecord]) -> list[JobRecord]:
    """Return the jobs that count: all but the first fifth."""
    ordered = sorted(jobs, key=lambda job: (job.submitted_at, job.job))
    return ordered[int(WARM_UP * len(ordered)) :]


def _mean_slowdown(jobs: Iterable[JobRecord]) -> float:
    values = [
        found for job in jobs if job.is_finished and (found := job.bounded_slowdown) is not None
    ]
    return sum(values) / len(values) if values else nan


def slowdown_all(jobs: Sequence[JobRecord]) -> float:
    """Return the mean bounded slowdown of all jobs."""
    return _mean_slowdown(measured(jobs))


def slowdown_single(jobs: Sequence[JobRecord]) -> float:
    """Return the mean bounded slowdown of jobs of one component."""
    return _mean_slowdown(job for job in measured(jobs) if job.components == 1)


def slowdown_multi(jobs: Sequence[JobRecord]) -> float:
    """Return the mean bounded slowdown of jobs of several components."""
    return _mean_slowdown(job for job in measured(jobs) if job.components > 1)


def wasted_percent(jobs: Sequence[JobRecord]) -> float:
    """Return the processor-seconds that were held before a start, in percent of those that ran."""
    found = measured(jobs)
    ran = sum(job.processor_run_s for job in found)
    return 100 * sum(job.processor_wasted_s for job in found) / ran if ran else nan


def unfinished_percent(jobs: Sequence[JobRecord]) -> float:
    """Return the jobs that had not ended well when the run was over, in percent."""
    found = measured(jobs)
    return 100 * sum(not job.is_finished for job in found) / len(found) if found else nan


METRICS = {
    one.__name__: one
    for one in (slowdown_all, slowdown_single, slowdown_multi, wasted_percent, unfinished_percent)
}
RATIOS = ("slowdown_all", "slowdown_single", "slowdown_multi")
"""Metrics that are given as ratios to the reference."""
MEANS = ("local_wait_mean", "wasted_percent", "unfinished_percent")


def points(
    grids: Mapping[str, Grid],
    workloads: Iterable[tuple[str, float]],
    entries: Sequence[Entry],
    *,
    is_full: bool,
    log_file: Log | None = None,
) -> tuple[Point, ...]:
    """List each cell under each entry. Raises ConfigError."""
    found = []
    for kind, share in workloads:
        jobs = JOBS[kind] if is_full else JOBS[kind] // QUICK_PART
        for grid_name, grid in grids.items():
            sites = tuple((site.name, site.processors) for site in grid.sites)
            mixed = Mixed(
                kind=kind,
                share=share,
                jobs=jobs,
                sites=sites,
                log=log_file if kind == LOG else None,
            )
            name = workload_name(kind, share)
            until_s = PERIODS_MAX * mixed(1)[-1].at
            for entry in entries:
                experiment = Experiment(
                    grid=grid,
                    workload=Jobs(mixed, name=name),
                    until_s=until_s,
                    metrics=METRICS,
                    **entry.changes,
                )
                labels = (("grid", grid_name), ("workload", name), ("policy", entry.name))
                found.append(Point(labels=labels, base=experiment))
    return tuple(found)


def table(rows: Iterable[Row], entries: Sequence[Entry]) -> Rows:
    """Summarise the runs: a row for each entry.

    A ratio is the geometric mean, over cells and seeds, of an entry's metric by the reference's,
    with the bounds of its 95 % confidence interval: below 1 is better. Other metrics are means over
    cells and seeds.
    """
    by_entry: dict[str, dict[tuple[str, str, int], Row]] = {}
    for row in rows:
        cell = (row["grid"], row["workload"], row["seed"])
        by_entry.setdefault(row["policy"], {})[cell] = row
    base = by_entry.get("reference", {})
    return Rows([_scored(one, by_entry.get(one.name, {}), base) for one in entries])


def _scored(
    entry: Entry,
    own: Mapping[tuple[str, str, int], Row],
    base: Mapping[tuple[str, str, int], Row],
) -> Row:
    row: Row = {"policy": entry.name, "runs": len(own)}
    for name in RATIOS:
        logs = [
            log(mine / other)
            for cell, one in own.items()
            if cell in base
            and (mine := one.get(name, nan)) > 0
            and (other := base[cell].get(name, nan)) > 0
        ]
        found = interval(logs)
        row[name] = exp(found.mean)
        row[f"{name}_low"], row[f"{name}_high"] = _bound(found.low), _bound(found.high)
    for name in MEANS:
        values = [value for one in own.values() if (value := one.get(name, nan)) == value]
        row[name] = sum(values) / len(values) if values else nan
    return row


def _bound(value: float) -> float:
    """Return e to this; bounds of one run are infinite."""
    try:
        return exp(value)
    except OverflowError:
        return float("inf")
