"""`koala simulate multiqueue`: response times under the disciplines for several queues."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from koala.cli.render.progress_bar import progress
from koala.cli.research import simulation_options as shared
from koala.errors import ConfigError
from koala.runtime.atomic_file import whole_file

if TYPE_CHECKING:
    from koala.papers.multiqueue.simulation.points import SimulatedPoint

POLICIES = "GS, LS-OR|RD|RO|DO, GP, LP-LF|GF|RD, EQ-LF|GF|RD, LQ"


def multiqueue(
    *,
    policy: Annotated[
        str, typer.Option(help=f"{POLICIES}; several with commas between, or all.")
    ] = "LS-DO",
    mix: Annotated[
        str, typer.Option(help="Shares of the jobs with 1, 2, ... components.")
    ] = "25,25,25,25",
    split: Annotated[
        str, typer.Option(help="Shares of the local queues; equal ones when not given.")
    ] = "",
    sizes: Annotated[str, typer.Option(help="Least and largest size of a component.")] = "1:8",
    q: Annotated[float, typer.Option(help="q of the size distribution D(q).")] = 0.9,
    sites: Annotated[str, typer.Option(help="Processors of the sites.")] = "4x32",
    utilization: Annotated[
        str, typer.Option(help="Offered gross load, 1 is all processors; several with commas.")
    ] = "0.5",
    service_cv: Annotated[
        float,
        typer.Option(
            min=0,
            help="Coefficient of variation of service times (their mean is 1): 0 constant,"
            " 1 exponential, more: hyperexponential.",
        ),
    ] = 1.0,
    ageing: Annotated[
        float | None,
        typer.Option(min=0, help="Waiting time after which a job goes first; default: never."),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, max=shared.JOBS_MAX, help="Arrivals of one run.")
    ] = 300_000,
    warmup: Annotated[
        int, typer.Option(min=0, help="Number of first arrivals that are not counted.")
    ] = 50_000,
    seed: shared.Seed = 1,
    reps: shared.Reps = 5,
    workers: shared.Workers = 0,
    json: shared.JSON = False,
    jobs_out: shared.JobsOut = None,
    plot: shared.Plot = None,
) -> None:
    """Simulate response times in several clusters, under the disciplines of the multiple-queues
    paper: means with 95 % intervals, over replications, or over batches of a single one."""
    from koala.papers.multiqueue.simulation.points import sweep
    from koala.papers.multiqueue.simulation.runs import setting

    grid = shared.sites("sites", sites)
    common: dict[str, Any] = {
        "mix": shared.numbers("mix", mix),
        "split": shared.numbers("split", split) if split else (1.0,) * len(grid),
        "sizes": shared.bounds("sizes", sizes),
        "q": q,
        "sites": grid,
        "jobs": jobs,
        "warmup": warmup,
        "service_cv": service_cv,
        "ageing": ageing,
    }
    settings = tuple(
        setting(policy=name, utilization=load, **common)
        for name in _policies(policy)
        for load in dict.fromkeys(shared.numbers("utilization", utilization))
    )
    if jobs_out is not None and len(settings) > 1:
        raise ConfigError(
            f"--jobs-out {jobs_out}: one file holds the jobs of one policy at one utilization;"
            f" there are {len(settings)} points"
        )
    shared.check_outputs(jobs_out, plot)
    with progress("replications", len(settings) * reps) as update:
        swept = sweep(
            settings,
            seeds=range(seed, seed + reps),
            workers=workers,
            has_jobs=jobs_out is not None,
            progress=update,
        )
    if swept.is_interrupted:
        finished = sum(len(point.runs) for point in swept.points)
        print(f"interrupted: {finished} of {len(settings) * reps} replications", file=sys.stderr)
    if not swept.points:
        raise typer.Exit(shared.INTERRUPTED)
    _print_points(swept.points, as_json=json, is_one=len(settings) == 1)
    if jobs_out is not None:
        _write_jobs(swept.points[0], jobs_out)
    if plot is not None:
        from koala.papers.multiqueue.simulation.drawing import draw

        draw(swept.points, plot)
    if swept.is_interrupted:
        raise typer.Exit(shared.INTERRUPTED)


def _policies(text: str) -> tuple[str, ...]:
    from koala.policies.queueing.multiqueue import DISCIPLINES

    names = tuple(DISCIPLINES)
    if text.lower() == "all":
        return names
    named = (shared.one_of("policy", word.strip(), names) for word in text.split(","))
    return tuple(dict.fromkeys(named))


def _print_points(points: tuple[SimulatedPoint, ...], *, as_json: bool, is_one: bool) -> None:
    if is_one:
        document = points[0].document()
    else:
        document = {"points": [point.document() for point in points]}
    shared.show(document, as_json=as_json, text=lambda: "\n\n".join(map(_text, points)))


def _text(point: SimulatedPoint) -> str:
    from koala.papers.multiqueue.simulation.runs import KINDS

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


def _write_jobs(point: SimulatedPoint, path: Path) -> None:
    """Write the counted jobs of the first replication, in order of arrival."""
    import csv

    header = ("job", "arrival", "start", "end", "queue", "components", "sizes", "sites")
    sites = len(point.setting.sites)
    with whole_file(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(header)
        for number, job, queue, at, placed in point.jobs:
            lines.writerow(
                (
                    number + 1,
                    repr(job.at),
                    repr(at),
                    repr(at + job.service),
                    "global" if queue == sites else queue + 1,
                    len(job.sizes),
                    " ".join(str(size) for size in job.sizes),
                    " ".join(str(site + 1) for site in placed),
                )
            )
