"""`koala simulate koala`: KOALA's experiment on the DAS (KOALA 4, 5)."""

from __future__ import annotations

import csv
from dataclasses import replace
from functools import partial
from math import floor, isfinite, log10
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from koala.cli.render.table import columns, table
from koala.cli.research import simulation_options as shared
from koala.errors import ConfigError
from koala.runtime.atomic_file import whole_file

if TYPE_CHECKING:
    from koala.papers.koala.simulation.run import Measured
    from koala.papers.koala.simulation.setting import Group
    from koala.papers.koala.simulation.summary import Summary
    from koala.sim.statistics import Interval

DISCIPLINES = ("easy", "fcfs", "conservative")
PLACEMENTS = ("CF", "WF")
PREEMPTIONS = ("component", "complete", "none")


def koala(
    *,
    jobs: Annotated[
        int, typer.Option(min=1, max=shared.JOBS_MAX, help="Jobs to be co-allocated.")
    ] = 500,
    sites: Annotated[str, typer.Option(help="Processors of each site.")] = "130,3x60",
    lost_site: Annotated[
        int, typer.Option(help="The site that breaks down, counted from 1; 0: none.")
    ] = 4,
    lost_at: Annotated[float, typer.Option(help="Time of the breakdown, s.")] = 36_000.0,
    sizes: Annotated[str, typer.Option(help="Processors of a job.")] = "36,72",
    components: Annotated[
        str, typer.Option(help="Components of a job, all equally large.")
    ] = "3,4,6,8",
    component_above: Annotated[
        int, typer.Option(help="A component has more processors than this.")
    ] = 8,
    files: Annotated[str, typer.Option(help="Sizes of an input file, GByte.")] = "4,8",
    replicas: Annotated[int, typer.Option(help="Sites that hold a file.")] = 2,
    run: Annotated[str, typer.Option(metavar="LOW:HIGH", help="Run time, s; uniform.")] = "30:192",
    high: Annotated[float, typer.Option(help="Share of jobs with high priority.")] = 0.5,
    interval: Annotated[float, typer.Option(help="Mean time between two submissions, s.")] = 120.0,
    queue_limit: Annotated[
        int, typer.Option(help="Jobs in both placement queues; a further submission is delayed.")
    ] = 100,
    scan: Annotated[float, typer.Option(help="Time between two scans of a queue, s.")] = 240.0,
    high_scans: Annotated[
        int, typer.Option(help="S: scans of the high queue for each scan of the low one.")
    ] = 2,
    claim_fraction: Annotated[
        float, typer.Option(help="L: share of the time to the start that passes before a try.")
    ] = 0.75,
    step: Annotated[float, typer.Option(help="Decrease of L each time a job returns.")] = 0.125,
    floor: Annotated[float, typer.Option(help="Lower bound of L.")] = 0.25,
    threshold: Annotated[
        float, typer.Option(help="T: least startable fraction of the components; 1: atomic.")
    ] = 0.0,
    step_min: Annotated[
        float, typer.Option(help="A shorter step to the next claiming try lands on the start, s.")
    ] = 1.0,
    placement_tries: Annotated[int, typer.Option(help="Limit for a job; 0: no limit.")] = 0,
    claiming_tries: Annotated[int, typer.Option(help="Limit for a job; 0: no limit.")] = 0,
    hold: Annotated[float, typer.Option(help="Longest time a claim is held unused, s.")] = 86_400.0,
    preempt: Annotated[
        str, typer.Option(help="component: as in the paper; complete: for a whole job; none.")
    ] = "component",
    placement: Annotated[str, typer.Option(help="CF (Close-to-Files) or WF (Worst-Fit).")] = "CF",
    errors_max: Annotated[
        int, typer.Option(help="Consecutive errors after which a site is unusable.")
    ] = 8,
    claim_errs: Annotated[
        str | None,
        typer.Option(
            help="Probability that a claim errs: at every site, or at each."
            "  [default: 0.01, and 0.1 at the lost site]"
        ),
    ] = None,
    component_fails: Annotated[
        str | None,
        typer.Option(
            help="Probability that a running component is lost."
            "  [default: 0.06, and 0.2 at the lost site]"
        ),
    ] = None,
    bandwidth: Annotated[float, typer.Option(help="Bandwidth between two sites, Mbit/s.")] = 100,
    exclusive_links: Annotated[
        bool, typer.Option("--exclusive-links", help="Each copy has the whole bandwidth.")
    ] = False,
    discipline: Annotated[
        str, typer.Option(help="Local managers: easy, fcfs or conservative.")
    ] = "easy",
    grace: Annotated[
        float, typer.Option(help="Longest time a claim waits in a local queue, s.")
    ] = 1.0,
    local_load: Annotated[float, typer.Option(help="Offered load of the regular users.")] = 0.74,
    local_sizes: Annotated[
        str, typer.Option(help="Processors of a regular user's job.")
    ] = "1,2,4,8,16",
    local_run: Annotated[
        float, typer.Option(help="Mean run time of regular users' jobs, s; exponential.")
    ] = 300.0,
    local_estimate: Annotated[
        float,
        typer.Option(help="Their estimates, in multiples of their run times."),
    ] = 2.0,
    warmup: Annotated[
        float, typer.Option(help="Time with regular users alone before the first job, s.")
    ] = 7200.0,
    bin: Annotated[float, typer.Option(help="Averaging interval of the utilisation, s.")] = 1200.0,  # noqa: A002 - the option's name
    horizon: Annotated[float, typer.Option(help="End a run after so many days.")] = 60.0,
    seed: shared.Seed = 1,
    reps: shared.Reps = 5,
    workers: shared.Workers = 0,
    as_json: shared.JSON = False,
    jobs_out: shared.JobsOut = None,
    plot: shared.Plot = None,
) -> None:
    """Simulate KOALA's experiment: jobs co-allocated over the DAS, with failures and other users.

    Defaults are the paper's where it prints a value; the output lists the other ones. A run lasts
    until the last job has ended. Times count from the end of the warm-up. --jobs-out writes the
    jobs of the first replication.
    """
    from koala.core.model.parameters import PAPER
    from koala.papers.koala.simulation import setting as das
    from koala.papers.koala.simulation.run import run as run_once
    from koala.papers.koala.simulation.summary import Summary
    from koala_agent.lrm.model import Discipline

    parameters = replace(
        PAPER,
        queue_jobs_max=queue_limit,
        scan_interval_s=scan,
        high_scans_per_low=high_scans,
        claim_fraction=claim_fraction,
        claim_fraction_step=step,
        claim_fraction_min=min(floor, claim_fraction),
        claim_threshold=threshold,
        claiming_step_min_s=step_min,
        placement_tries_max=placement_tries,
        claiming_tries_max=claiming_tries,
        hold_s=hold,
        preempt=shared.one_of("preempt", preempt, PREEMPTIONS),
        consecutive_errors_max=errors_max,
    )
    processors = shared.sites("sites", sites)
    setting = das.Setting(
        sites=processors,
        lost_site=lost_site or None,
        lost_at_s=lost_at,
        bandwidth_bps=bandwidth * 1e6 / 8,
        shared_links=not exclusive_links,
        discipline=Discipline(shared.one_of("discipline", discipline, DISCIPLINES)),
        grace_s=grace,
        jobs=jobs,
        interval_s=interval,
        sizes=_whole("sizes", sizes),
        components=_whole("components", components),
        component_above=component_above,
        file_bytes=tuple(round(size * das.GB) for size in shared.numbers("files", files)),
        replicas=replicas,
        run_s=_span("run", run),
        high_share=high,
        local_load=local_load,
        local_sizes=_whole("local-sizes", local_sizes),
        local_run_s=local_run,
        local_estimate=local_estimate,
        warmup_s=warmup,
        claim_errs=shared.numbers("claim-errs", claim_errs)
        if claim_errs is not None
        else _rates(len(processors), lost_site, das.CLAIM_ERRS, das.CLAIM_ERRS_BAD),
        component_fails=shared.numbers("component-fails", component_fails)
        if component_fails is not None
        else _rates(len(processors), lost_site, das.COMPONENT_FAILS, das.COMPONENT_FAILS_BAD),
        placement=shared.one_of("placement", placement, PLACEMENTS),
        parameters=parameters,
        bin_s=bin,
        horizon_s=horizon * 86_400.0,
    )
    shared.check_outputs(jobs_out, plot)
    done = shared.replications(partial(run_once, setting), seed, reps, workers)
    found = Summary(setting, done.results)
    shared.show(found.document(), as_json=as_json, text=lambda: _text(found))
    if jobs_out is not None:
        _write_jobs(jobs_out, done.results[0])
    if plot is not None:
        _draw(found, plot)
    if done.is_interrupted:
        raise typer.Exit(shared.INTERRUPTED)


def _rates(sites: int, lost_site: int, rate: float, bad_rate: float) -> tuple[float, ...]:
    return tuple(bad_rate if number == lost_site else rate for number in range(1, sites + 1))


def _whole(option: str, text: str) -> tuple[int, ...]:
    found = shared.numbers(option, text)
    if not all(one == int(one) for one in found):
        raise ConfigError(f"--{option} {text}: allowed are whole numbers")
    return tuple(int(one) for one in found)


def _span(option: str, text: str) -> tuple[float, float]:
    ends = shared.numbers(option, text, separator=":")
    if len(ends) != 2:
        raise ConfigError(f"--{option} {text}: allowed is LOW:HIGH, for instance 30:192")
    return ends[0], ends[1]


def _write_jobs(path: Path, run: Measured) -> None:
    from koala.sim.metrics import COLUMNS, row

    with whole_file(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(COLUMNS)
        lines.writerows(row(job) for job in run.jobs)


def _draw(found: Summary, path: Path) -> None:
    from koala.papers.figures import picture
    from koala.papers.koala.figures import figures
    from koala.papers.paper import Effort, Outcome, Run
    from koala.papers.results import Results

    effort = Effort(name="simulate", replications=len(found.runs), length=0.0, levels=())
    results = Results(
        (Run(setting=found.setting, seed=run.seed, effort=effort), Outcome(values=run.values))
        for run in found.runs
    )
    drawn = figures(found.setting, until_s=min(run.ended_at for run in found.runs))
    panels = [
        replace(panel, title=f"{figure.number}. {panel.title or figure.title}")
        for figure in drawn
        for panel in figure.panels
    ]
    picture(panels, "KOALA's experiment", results, (path,))


MEASURES = {
    "jobs": ">jobs",
    "failures_percent": ">failures %",
    "coallocated_percent": ">co-allocated %",
    "placement_s": ">placement s",
    "start_delay_s": ">start delay s",
    "processor_wasted_s": ">PWT",
    "extra_claiming_tries": ">ACT",
}


def _text(found: Summary) -> str:
    rows = [
        [_name(group), *(_cell(found.measure(name, group)) for name in MEASURES)]
        for group in found.setting.groups
        if (group.processors is None) == (group.components is None)
    ]
    lines = [
        table(columns("job size (components)", *MEASURES.values()), rows),
        "",
        *(
            f"{words:<32} {_cell(found.value(name))} {unit}".rstrip()
            for words, name, unit in (
                ("busy while jobs arrive", "utilization.arrivals.busy", "%"),
                ("busy during the whole run", "utilization.whole.busy", "%"),
                ("of it the regular users", "utilization.whole.local", "%"),
                ("of it claims before the barrier", "utilization.whole.held", "%"),
                ("of it components", "utilization.whole.running", "%"),
                ("jobs that had not ended", "unfinished", ""),
                ("first submission to last end", "makespan_s", "s"),
            )
        ),
        "",
        *(f"seed {run.seed}: {one}" for run in found.runs for one in run.waiting),
        "PWT: processor-seconds a job that were claimed and waited; ACT: claiming tries beyond the"
        f" first. {_of(len(found.runs))}",
        "Values that the paper does not print:",
        *(f"  {name}: {why}" for name, why in found.document()["ours"].items()),
    ]
    return "\n".join(lines)


def _of(runs: int) -> str:
    return "One run." if runs == 1 else f"Means of {runs} runs with 95 % confidence intervals."


def _name(group: Group) -> str:
    size = f"{group.processors} ({group.components})" if group.processors else "all"
    return f"{size} {group.priority}" if group.priority else size


def _cell(found: Interval) -> str:
    """Format a mean with four digits, and its interval with the same precision."""
    if not isfinite(found.mean):
        return "-"
    if found.mean == int(found.mean) and not isfinite(found.ci95):
        return f"{found.mean:.0f}"
    digits = max(0, 3 - floor(log10(abs(found.mean)))) if found.mean else 0
    width = f" ± {found.ci95:.{digits}f}" if isfinite(found.ci95) else ""
    return f"{found.mean:.{digits}f}{width}"
