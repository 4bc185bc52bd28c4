"""`koala simulate hints`: placement by processing power, links and hints (Hints 4, 5)."""

from __future__ import annotations

import csv
from functools import partial
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from koala.cli.research import simulation_options as shared
from koala.errors import ConfigError
from koala.runtime.atomic_file import whole_file

if TYPE_CHECKING:
    from koala.papers.hints.simulation import JobClass, RunRecord, Setting, Summary

POLICIES = ("NoNetwork", "PreferLocal", "Service")
KINDS = {"all": "all jobs", "io": "I/O-bound jobs", "cpu": "CPU-bound jobs"}
COLUMNS = (
    "job",
    "class",
    "submitted_at",
    "home",
    "placed_at",
    "site",
    "mips",
    "booked_mbps",
    "ended_at",
)


def hints(
    *,
    policy: Annotated[
        str,
        typer.Option(
            help=f"{', '.join(POLICIES)}, or a placement policy of another package by its name."
        ),
    ] = "Service",
    io_fraction: Annotated[float, typer.Option(help="Share of the jobs that are I/O-bound.")] = 0.2,
    rate: Annotated[float, typer.Option(help="Jobs a second, at all sites together.")] = 0.00045,
    grid: Annotated[
        Path | None,
        typer.Option(
            metavar="F.toml", help="Sites and links (docs/simulation.md).  [default: three sites]"
        ),
    ] = None,
    accept: Annotated[
        float, typer.Option(help="Part of the preferred rate that hints accept.")
    ] = 0.5,
    preferred: Annotated[float, typer.Option(help="Preferred rate of a job, MIPS.")] = 1000.0,
    vpn: Annotated[
        float | None,
        typer.Option(help="Mb/s between each two sites.  [default: 6, or as in the grid file]"),
    ] = None,
    io_job: Annotated[
        str, typer.Option(metavar="MB:MI", help="Data and length of an I/O-bound job.")
    ] = "6100:12.5e6",
    cpu_job: Annotated[
        str, typer.Option(metavar="MB:MI", help="Data and length of a CPU-bound job.")
    ] = "0.4:25e6",
    blocks: Annotated[
        int,
        typer.Option(
            min=0, max=10_000, help="Blocks of a job's instructions and data; 0: a stream."
        ),
    ] = 0,
    written: Annotated[
        float, typer.Option(help="Part of the data that is written (with --blocks).")
    ] = 0.0,
    round_s: Annotated[
        float,
        typer.Option(
            "--round", help="Seconds between scheduling rounds; 0: when something changes."
        ),
    ] = 0.0,
    jobs: Annotated[
        int, typer.Option(min=1, max=shared.JOBS_MAX, help="Jobs of one run; all of them count.")
    ] = 300,
    seed: shared.Seed = 1,
    reps: shared.Reps = 5,
    workers: shared.Workers = 0,
    as_json: shared.JSON = False,
    jobs_out: shared.JobsOut = None,
    plot: shared.Plot = None,
) -> None:
    """Simulate jobs that compute and read data, on sites with bounded power and links.

    NoNetwork considers processing power alone. PreferLocal books power and bandwidth and prefers
    the site with the data. Service follows the jobs' hints. A run ends when all jobs have ended.
    One replication gives batch means. --jobs-out writes the jobs of the first replication.
    """
    from koala.papers.hints.simulation import Setting, simulate, summarize
    from koala.papers.hints.simulation.grid_file import read_grid
    from koala.papers.hints.simulation.setting import SITES
    from koala.policies import named

    sites, vpn_mbps, vpns = (SITES, 6.0, ()) if grid is None else read_grid(grid)
    setting = Setting(
        policy=_policy(policy),
        io_fraction=io_fraction,
        rate=rate,
        sites=sites,
        vpn_mbps=vpn_mbps if vpn is None else vpn,
        vpns=vpns if vpn is None else (),
        preferred_mips=preferred,
        accept=accept,
        io=_job("io-job", io_job),
        cpu=_job("cpu-job", cpu_job),
        blocks=blocks,
        written=written,
        round_s=round_s,
        jobs=jobs,
    )
    named("placement", setting.policy)
    shared.check_distinct((grid,), {"jobs-out": jobs_out, "plot": plot})
    shared.check_outputs(jobs_out, plot)
    done = shared.replications(partial(simulate, setting), seed, reps, workers)
    found = summarize(setting, done.results)
    shared.show(found.document(), as_json=as_json, text=lambda: _table(setting, found))
    if jobs_out is not None:
        _write_jobs(setting, done.results[0], jobs_out)
    if plot is not None:
        from koala.papers.hints.simulation.drawing import draw

        draw(found, done.results, plot)
    if done.is_interrupted:
        raise typer.Exit(shared.INTERRUPTED)


def _policy(text: str) -> str:
    """Match the built-in policies in any case; pass other names on unchanged."""
    return next((name for name in POLICIES if name.lower() == text.lower()), text)


def _job(option: str, text: str) -> JobClass:
    from koala.papers.hints.simulation import JobClass

    found = shared.numbers(option, text, separator=":")
    if len(found) != 2:
        raise ConfigError(f"--{option} {text}: allowed is MB:MI, for instance 6100:12.5e6")
    return JobClass(data_mb=found[0], length_mi=found[1])


def _table(setting: Setting, found: Summary) -> str:
    metrics = found.metrics
    lines = [f"{setting.policy}: {setting.jobs} jobs, {100 * setting.io_fraction:g} % I/O-bound"]
    for kind, words in KINDS.items():
        if metrics[f"response.{kind}"].values:
            lines.append(
                f"{words:<16} response {metrics[f'response.{kind}']!s:>18} s, of which waiting"
                f" {metrics[f'wait.{kind}'].mean:.6g} s; {100 * metrics[f'remote.{kind}'].mean:.3g}"
                f" % remote, {100 * metrics[f'below_preferred.{kind}'].mean:.3g} % below"
                f" {setting.preferred_mips:g} MIPS"
            )
    links = {name: one for name, one in metrics.items() if name.startswith("links.")}
    each = ", ".join(f"{n.removeprefix('links.')} {100 * x.mean:.3g} %" for n, x in links.items())
    if not isnan(used := metrics["link_utilization"].mean):  # nan if no job was placed
        lines.append(f"links: {100 * used:.3g} % used ({each})")
    if metrics["unplaced"].mean:
        lines.append(f"{metrics['unplaced'].mean:g} jobs of a run could never be placed")
    by = "replications" if found.replications > 1 else "replication"
    lines.append(f"95 % confidence intervals over {found.replications} {by}")
    return "\n".join(lines)


def _write_jobs(setting: Setting, run: RunRecord, path: Path) -> None:
    """Write the jobs in order of arrival; empty cells: the job was never placed."""
    with whole_file(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(COLUMNS)
        for job in run.jobs:
            home = setting.sites[job.home].name
            row = [job.number + 1, "io" if job.is_io else "cpu", repr(job.submitted_at), home]
            if job.site is not None:
                rates = [repr(job.mips), repr(job.booked_mbps)]
                site = setting.sites[job.site].name
                row += [repr(job.placed_at), site, *rates, repr(job.ended_at)]
            lines.writerow([*row, *[""] * (len(COLUMNS) - len(row))])
