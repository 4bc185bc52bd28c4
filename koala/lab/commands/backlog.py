"""`koala simulate backlog`: co-allocate over sites whose queues are never empty."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.exceptions import Exit

from koala.cli.arguments import Number, WholeNumber, examples, file, option
from koala.cli.extras import needs_sim
from koala.errors import ConfigError
from koala.lab.commands import simulation_options as shared
from koala.lab.commands.options import Place, campaign_options, given

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from koala.lab.backlog.bound import BoundTask
    from koala.lab.backlog.page import Found
    from koala.lab.backlog.scores import Bounds, Campaign

VERSION = 2


@examples(
    "koala simulate backlog kth.swf:110+ctc.swf:250 --policy dodge --reps 6",
    "koala simulate backlog kth.swf:110+ctc.swf:250 --no-forecast --policy turns",
    "koala simulate backlog kth.swf:110+ctc.swf:250 --full --out results",
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
@option(
    "--run", "run_s", type=WholeNumber(1), default=3600, metavar="SECONDS", help="Run time of jobs."
)
@option(
    "--every", "every_s", type=WholeNumber(1), default=432_000, metavar="SECONDS",
    help="One job in each so long time.",
)  # fmt: skip
@option(
    "--components", type=WholeNumber(1), metavar="N",
    help="Components of a job, which may run at any of the sites.", unset="one at each site",
)  # fmt: skip
@option(
    "--redundancy", type=WholeNumber(1), default=1, metavar="QUEUES",
    help="With --components: sites in whose queues a component waits.",
)  # fmt: skip
@option("--no-gate", is_flag=True, help="The sites have no gates.")
@option("--no-forecast", is_flag=True, help="The sites do not tell when claims would start.")
@option(
    "--bookable", type=Number(0, 1), default=0.0, metavar="SHARE",
    help="Share of all sites that book processors for a planned start.",
)  # fmt: skip
@option(
    "--full", is_flag=True,
    help="All settings of the page instead: shares, run times, rates, with and without gates.",
)  # fmt: skip
@option(
    "--reps", type=WholeNumber(1), help="Replications with further seeds.",
    unset="1; with --full those of the page",
)  # fmt: skip
@option("--out", type=file, metavar="DIR", help="Write results.md, figures, and CSV files there.")
@given("seed")
@campaign_options
@given("as_json")
@needs_sim
def backlog(
    *,
    scenes: tuple[str, ...],
    policies: tuple[str, ...],
    percent: float,
    run_s: int,
    every_s: int,
    components: int | None,
    redundancy: int,
    no_gate: bool,
    no_forecast: bool,
    bookable: float,
    full: bool,
    reps: int | None,
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
    from dataclasses import replace

    from koala.lab.backlog import page, scores
    from koala.lab.backlog.scenes import JOBS_D, scene_of
    from koala.lab.rows import Rows
    from koala.policies import names_of

    if every_s > JOBS_D * 86_400:
        raise ConfigError(
            f"--every {every_s} (expected at most {JOBS_D * 86_400} s, all days with jobs)"
        )
    places = tuple(dict.fromkeys(map(scene_of, scenes)))
    one = scores.Campaign(
        scenes=places,
        policies=tuple(dict.fromkeys(policies or names_of("tickets"))),
        percent=percent,
        run_s=run_s,
        every_s=every_s,
        components=components,
        redundancy=redundancy,
        has_gate=not no_gate,
        has_forecast=not no_forecast,
        bookable=bookable,
    )
    campaigns = [
        replace(campaign, reps=reps or campaign.reps)
        for campaign in (scores.full(places) if full else (one,))
    ]
    for campaign in campaigns:
        campaign.points()
    if out is not None:
        place.make_out(out)
    found: list[Found] = []
    replaced: list[str] = []
    is_interrupted = False
    for campaign in campaigns:
        seeds = range(seed, seed + campaign.reps)
        results, told, is_interrupted = _run(campaign, seeds, place)
        found.append(results)
        replaced += told
        if is_interrupted:
            break
    if out is not None and not is_interrupted:
        command = f"koala simulate backlog {' '.join(one.name for one in places)}"
        page.write(found, out, f"{command}{' --full' if full else ''}")
        for name in ("runs", "table", "scenes"):
            rows = [
                {"setting": str(one.campaign), **row} for one in found for row in getattr(one, name)
            ]
            Rows(rows).to_csv(out / f"{name}.csv")
    document = {
        "version": VERSION,
        "interrupted": is_interrupted,
        "alone": {name: dict(of) for name, of in found[0].bounds.alone.items()},
        "settings": [
            {
                "setting": str(one.campaign),
                "policies": shared.plain_rows(one.table),
                "sites": shared.plain_rows(one.scenes),
            }
            for one in found
        ],
    }
    shared.show(document, as_json=as_json, text=lambda: _text(found), replaced=replaced)
    if is_interrupted:
        raise Exit(shared.INTERRUPTED)


def _run(campaign: Campaign, seeds: range, place: Place) -> tuple[Found, Sequence[str], bool]:
    """Make the runs of a campaign; return its results, policies that were replaced, and whether it
    was interrupted."""
    from koala.lab.backlog.page import Found
    from koala.lab.backlog.scores import scene_rows, table
    from koala.lab.sweeps import Sweep, work_of

    points = campaign.points()
    bounds = _bounds(campaign.bounds(seeds), place)
    made = place.execute(work_of(points, seeds), f"runs: {campaign}")
    runs = Sweep(points, seeds, made).rows()
    found = Found(
        campaign=campaign,
        bounds=bounds,
        runs=runs,
        table=table(runs, campaign.policies, bounds),
        scenes=scene_rows(runs, campaign.policies, bounds),
    )
    return found, made.replaced, made.is_interrupted


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


def _text(found: Sequence[Found]) -> str:
    from koala.cli.render.table import columns, table
    from koala.lab.backlog.page import HEADS, SCENE_HEADS, machines, shown

    parts = ["\n".join(machines(found))]
    for one in found:
        parts.append(str(one.campaign))
        for rows, heads in ((one.table, HEADS), (one.scenes, SCENE_HEADS)):
            titles = columns(*(head.upper() for head in heads.values()))
            parts.append(table(titles, shown(rows, heads)))
    return "\n\n".join(parts)
