"""`koala simulate backlog`: co-allocate over sites whose queues are never empty."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

from koala.cli.arguments import WholeNumber, examples, file, json_option, option
from koala.cli.extras import needs_sim
from koala.lab.backlog import scores
from koala.lab.commands import simulation_options as shared
from koala.lab.commands.options import Place, campaign_options, given, with_options

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
@with_options(scores.OPTIONS.options)
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
@json_option
@needs_sim
def backlog(
    *,
    scenes: tuple[str, ...],
    policies: tuple[str, ...],
    full: bool,
    reps: int | None,
    out: Path | None,
    seed: int,
    place: Place,
    **values: Any,  # noqa: ANN401 - declared options
) -> None:
    """Co-allocate over sites whose queues are never empty.

    Each site has 90 days of a log as its own users' jobs, under EASY with the users' estimates. In
    60 of these days jobs that need processors at all of its sites at once are submitted to Koala.
    Their waits are compared with those of plain jobs: of each part, submitted to its local queue
    alone, the longest wait counts. The page docs/backlog.md has definitions and results.
    """
    from dataclasses import replace

    from koala.lab.backlog import page
    from koala.lab.backlog.scenes import scene_of
    from koala.lab.rows import Rows
    from koala.policies import names_of

    places = tuple(dict.fromkeys(map(scene_of, scenes)))
    one = scores.Campaign(
        scenes=places,
        policies=tuple(dict.fromkeys(policies or names_of("tickets"))),
        **scores.OPTIONS.values(values),
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
    shared.show(document, lambda: _text(found), replaced=replaced)
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
