"""`koala simulate backlog`: co-allocate over sites whose queues are never empty."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.exceptions import Exit

from koala.cli.arguments import Number, Whole, examples, file, option
from koala.cli.extras import needs_sim
from koala.errors import ConfigError
from koala.lab.commands import simulation_options as shared
from koala.lab.commands.campaign_options import Place, campaign_options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koala.lab.backlog.bound import BoundTask
    from koala.lab.backlog.scores import Bounds
    from koala.lab.rows import Rows

VERSION = 1
DIGITS = 3


@examples(
    "koala simulate backlog kth.swf:110+ctc.swf:250 --policy dodge --reps 6",
    "koala simulate backlog kth.swf:110+ctc.swf:250 --no-forecast --policy turns",
)
@click.command
@click.argument(
    "scenes", nargs=-1, required=True, metavar="LOG:DAY+LOG:DAY...",
    help="Sites that are tried together: the log of each, and the day from its first job on which"
    " the 60 days begin.",
)  # fmt: skip
@option(
    "--policy", "policies", multiple=True, metavar="NAME",
    help="A policy of tickets, by its name or as module:function.", unset="all of Koala's",
)  # fmt: skip
@option(
    "--size", "percent", type=Number(0.1, 100), default=10.0, metavar="PERCENT",
    help="Processors of a job at each site, of all that it has.",
)  # fmt: skip
@option("--run", "run_s", type=Whole(1), default=3600, metavar="SECONDS", help="Run time of jobs.")
@option(
    "--every", "every_s", type=Whole(1), default=432_000, metavar="SECONDS",
    help="One job in each so long time.",
)  # fmt: skip
@option("--no-gate", is_flag=True, help="The sites have no gates.")
@option("--no-forecast", is_flag=True, help="The sites do not tell when claims would start.")
@option("--reps", type=Whole(1), default=1, help="Replications with further seeds.")
@option("--out", type=file, metavar="DIR", help="Write runs.csv, table.csv and sites.csv there.")
@shared.seed_option
@campaign_options
@shared.json_option
@needs_sim
def backlog(
    *,
    scenes: tuple[str, ...],
    policies: tuple[str, ...],
    percent: float,
    run_s: int,
    every_s: int,
    no_gate: bool,
    no_forecast: bool,
    reps: int,
    out: Path | None,
    seed: int,
    place: Place,
    as_json: bool,
) -> None:
    """Co-allocate over sites whose queues are never empty.

    Each site has 90 days of a log as its own users' jobs, under EASY with the users' estimates. In
    60 of these days jobs that need processors at all of its sites at once are submitted to Koala.
    Their waits are compared with those of plain jobs: of each part, submitted to its local queue
    alone, the longest wait counts. The page docs/backlog.md has definitions and results.
    """
    from koala.lab.backlog.scenes import JOBS_D, scene_of
    from koala.lab.backlog.scores import Campaign, scene_rows, table
    from koala.lab.sweeps import Sweep, work_of
    from koala.policies import names_of

    if every_s > JOBS_D * 86_400:
        raise ConfigError(f"--every {every_s}: allowed are {JOBS_D * 86_400} s, all days with jobs")
    campaign = Campaign(
        scenes=tuple(dict.fromkeys(map(scene_of, scenes))),
        policies=tuple(dict.fromkeys(policies or names_of("tickets"))),
        percent=percent,
        run_s=run_s,
        every_s=every_s,
        has_gate=not no_gate,
        has_forecast=not no_forecast,
    )
    seeds = range(seed, seed + reps)
    points = campaign.points()
    if out is not None:
        place.make_out(out)
    bounds = _bounds(campaign.bounds(seeds), place)
    made = place.execute(work_of(points, seeds))
    runs = Sweep(points, seeds, made).rows()
    rows = table(runs, campaign.policies, bounds)
    by_scene = scene_rows(runs, campaign.policies, bounds)
    if out is not None:
        for name, one in (("runs", runs), ("table", rows), ("sites", by_scene)):
            one.to_csv(out / f"{name}.csv")
    document = {
        "version": VERSION,
        "percent": percent,
        "run_s": run_s,
        "every_s": every_s,
        "seeds": [*seeds],
        "interrupted": made.is_interrupted,
        "alone": {name: dict(values) for name, values in bounds.alone.items()},
        "policies": shared.plain_rows(rows),
        "sites": shared.plain_rows(by_scene),
    }
    text = "\n\n".join([*_alone(bounds), _text(rows, HEADS), _text(by_scene, SCENE_HEADS)])
    shared.show(document, as_json=as_json, text=lambda: text, replaced=made.replaced)
    if made.is_interrupted:
        raise Exit(shared.INTERRUPTED)


def _bounds(tasks: Iterable[BoundTask], place: Place) -> Bounds:
    """Run the local queues alone and with plain jobs."""
    from koala.lab.backlog.bound import run_bound
    from koala.lab.backlog.scores import Bounds
    from koala.lab.sim.campaign.code import code_of_module
    from koala.lab.sim.campaign.identity import run_id
    from koala.lab.sim.campaign.work import Work

    items = tuple(tasks)
    work = Work(
        run=run_bound,
        code=code_of_module("koala.lab.backlog.bound"),
        items=items,
        names=tuple(run_id("bound", (one.scene, one.jobs), seed=one.seed) for one in items),
        own=("",) * len(items),
    )
    made = place.execute(work, "bounds")
    if made.is_interrupted:
        raise KeyboardInterrupt
    found = [(task, one.outcome.values) for task, one in made.finished]
    return Bounds(
        alone={task.scene.name: values for task, values in found if task.jobs is None},
        plain={
            (task.scene.name, task.seed): values for task, values in found if task.jobs is not None
        },
    )


HEADS = (
    "POLICY", "RUNS", "MEDIAN", "P90", "MEAN", "WASTED, %", "IN 72 H, %", "GIVEN BACK", "HARM, S",
)  # fmt: skip
SCENE_HEADS = ("SITES", "POLICY", "MEDIAN, H", "P90, H", "MEAN, H")


def _alone(bounds: Bounds) -> list[str]:
    """Format utilization and mean wait of each site without these jobs."""
    lines = []
    for values in bounds.alone.values():
        for name in (key.removesuffix(" utilization") for key in values if "utilization" in key):
            busy, wait_s = values[f"{name} utilization"], values[f"{name} wait_s"]
            lines.append(f"{name}: {100 * busy:.0f} % busy, mean wait {wait_s / 3600:.1f} h")
    return ["\n".join(dict.fromkeys(lines))]


def _text(rows: Rows, heads: tuple[str, ...]) -> str:
    from koala.cli.render.table import columns, table

    cells = [[_cell(value) for value in row.values()] for row in rows]
    return table(columns(*heads), cells)


def _cell(value: object) -> str:
    from math import isfinite

    if isinstance(value, float):
        return f"{value:.{DIGITS}g}" if isfinite(value) else "-"
    return str(value)
