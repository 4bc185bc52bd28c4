"""`koala simulate multiqueue`: response times under the disciplines for several queues."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import click

from koala.cli.render.table import columns, table
from koala.common.runtime.progress_bar import progress
from koala.errors import ConfigError
from koala.lab.commands.options import simulation
from koala.lab.commands.simulation_options import INTERRUPTED, Runs, check_outputs
from koala.lab.papers.multiqueue.simulation.counting import (
    SimulatedPoint,
    items_of,
    points_of,
    run_item,
)
from koala.lab.papers.multiqueue.simulation.runs import KINDS
from koala.lab.papers.multiqueue.simulation.setting import SIMULATION, Setting
from koala.lab.sim.campaign.execution import replicate_on

HEADER = ("job", "arrival", "start", "end", "queue", "components", "sizes", "sites")


@simulation(SIMULATION, reps=5)
def multiqueue(settings: tuple[Setting, ...], runs: Runs) -> None:
    """Simulate response times in several clusters with queues.

    The disciplines are those of the multiple-queues paper. Means have 95 % intervals, over
    replications, or over batches of a single one.
    """
    if runs.jobs_out is not None and len(settings) > 1:
        raise ConfigError(
            f"--jobs-out {runs.jobs_out}: one file holds the jobs of one policy at one utilization;"
            f" there are {len(settings)} points"
        )
    check_outputs(runs.jobs_out, runs.plot)
    total = len(settings) * runs.reps
    with progress("replications", total) as update:
        items = items_of(settings, runs.seeds, has_jobs=runs.jobs_out is not None)
        campaign = replicate_on(runs.engine, run_item, items, update)
    if campaign.is_interrupted:
        print(f"interrupted: {len(campaign.finished)} of {total} replications", file=sys.stderr)
    points = points_of(settings, campaign.finished)
    if not points:
        raise click.exceptions.Exit(INTERRUPTED)
    documents = [point.document() for point in points]
    runs.report(
        campaign,
        documents[0] if len(settings) == 1 else {"points": documents},
        lambda: _text(points[0]) if len(settings) == 1 else _table(points),
        jobs=lambda: (HEADER, _rows(points[0])),
        draw=partial(_draw, points),
    )


def _table(points: Sequence[SimulatedPoint]) -> str:
    """Format a row for each policy and load; the single point's text has more."""
    heads = columns("POLICY", "LOAD", "MEASURED", *(kind.upper() for kind in KINDS), "SATURATED")
    rows = [
        (
            point.setting.policy,
            f"{point.setting.utilization:g}",
            f"{point.utilization.mean:.4f}",
            *(str(found) if (found := point.response(kind)).values else "" for kind in KINDS),
            f"{point.unserved.mean:.1%} never served" if point.is_saturated else "",
        )
        for point in points
    ]
    return f"mean response times, in mean service times\n{table(heads, rows)}"


def _text(point: SimulatedPoint) -> str:
    setting = point.setting
    mix = ", ".join(f"{share:g}" for share in setting.mix)
    lines = [
        f"{setting.policy}, jobs with 1, 2, ... components in shares {mix}:"
        f" offered load {setting.utilization:g}, measured {point.utilization.mean:.4f}"
    ]
    if point.is_saturated:
        lines.append(
            "  SATURATED: queues grow; the means below depend on the length of the run"
            f" (about {point.unserved.mean:.1%} of the load is never served)"
        )
    for kind in KINDS:
        found = point.response(kind)
        if found.values:
            lines.append(f"  response {kind:<7} {found}")
    if point.queues:
        means = "  ".join(f"{q.mean:.4g}" if q.values else "no jobs" for q in point.queues)
        lines.append(f"  at the local queues: {means}")
    return "\n".join(lines)


def _rows(point: SimulatedPoint) -> Iterator[tuple[object, ...]]:
    """Yield the counted jobs of the first replication, in order of arrival."""
    for number, job, queue, at, placed in point.jobs:
        yield (
            number + 1,
            repr(job.at),
            repr(at),
            repr(at + job.service),
            "global" if queue == len(point.setting.sites) else queue + 1,
            len(job.sizes),
            " ".join(map(str, job.sizes)),
            " ".join(str(site + 1) for site in placed),
        )


def _draw(points: Sequence[SimulatedPoint], path: Path) -> None:
    """Draw a line over the load for each policy where there are several loads, else bars by
    kind."""
    from koala.lab.charts import Chart, ChartTexts, Dot, draw_means
    from koala.lab.measures import Measure

    is_over_load = len({point.setting.utilization for point in points}) > 1
    chart = Chart()
    for point in points:
        setting = point.setting
        for kind in ("all",) if is_over_load else KINDS:
            response = point.response(kind)
            x, line = (
                (setting.utilization, setting.policy) if is_over_load else (setting.policy, kind)
            )
            dot = Dot(
                x=x,
                mean=response.mean,
                low=response.low,
                high=response.high,
                is_saturated=point.is_saturated,
            )
            chart.lines.setdefault(line, []).append(dot)
    axis = "offered gross utilization" if is_over_load else "policy"
    draw_means([chart], ChartTexts(x=axis, y=Measure(name="mean response time"))).save(path)
