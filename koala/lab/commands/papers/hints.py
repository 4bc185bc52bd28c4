"""`koala simulate hints`: placement by processing power, links and hints (Hints 4, 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import isnan
from pathlib import Path

from koala.lab.commands.options import simulation
from koala.lab.commands.simulation_options import Runs
from koala.lab.papers.hints.simulation.counting import KINDS, LABELS, Summary, summarize
from koala.lab.papers.hints.simulation.run import RunRecord, simulate
from koala.lab.papers.hints.simulation.setting import SIMULATION, Setting
from koala.lab.sim.drawing import save

WORDS = {"all": "all jobs", "io": "I/O-bound jobs", "cpu": "CPU-bound jobs"}
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


@simulation(SIMULATION, reps=5)
def hints(setting: Setting, runs: Runs) -> None:
    """Simulate jobs that compute and read data.

    Sites and links have bounded power. NoNetwork considers processing power alone. PreferLocal
    books power and bandwidth and prefers the site with the data. Service follows the jobs' hints. A
    run ends when all jobs have ended. One replication gives batch means. --jobs-out writes the jobs
    of the first replication.
    """
    done = runs.replicate(simulate, setting)
    found = summarize(setting, done.results)
    runs.report(
        done,
        found.document(),
        lambda: _table(setting, found),
        jobs=lambda: (COLUMNS, _rows(setting, done.results[0])),
        draw=partial(_draw, found, done.results),
    )


def _table(setting: Setting, found: Summary) -> str:
    metrics = found.metrics
    lines = [f"{setting.policy}: {setting.jobs} jobs, {100 * setting.io_fraction:g} % I/O-bound"]
    for kind, words in WORDS.items():
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


def _rows(setting: Setting, run: RunRecord) -> Iterator[list[object]]:
    """Yield the jobs in order of arrival; empty cells: the job was never placed."""
    for job in run.jobs:
        home = setting.sites[job.home].name
        row = [job.number + 1, "io" if job.is_io else "cpu", repr(job.submitted_at), home]
        if job.site is not None:
            rates = [repr(job.mips), repr(job.booked_mbps)]
            site = setting.sites[job.site].name
            row += [repr(job.placed_at), site, *rates, repr(job.ended_at)]
        yield [*row, *[""] * (len(COLUMNS) - len(row))]


def _draw(found: Summary, runs: Sequence[RunRecord], path: Path) -> None:
    """Draw the share of the jobs that ended within a time, and the utilisation of each link."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(7, 7), layout="constrained")
    times, links = drawing.subplots(2, 1)
    for kind, is_of in KINDS.items():
        jobs = [job for run in runs for job in run.jobs if job.site is not None and is_of(job)]
        if jobs:
            times.ecdf([job.response_s for job in jobs], label=LABELS[kind])
    times.set_xlabel("response time, s")
    times.set_ylabel("share of the jobs")
    times.legend(fontsize="small")
    rows = {name: one for name, one in found.metrics.items() if name.startswith("links.")}
    names = [name.removeprefix("links.") for name in rows]
    bars = [one.ci95 if one.values > 1 else 0.0 for one in rows.values()]
    links.bar(names, [one.mean for one in rows.values()], yerr=bars)
    links.set_ylabel("share of the link that was used")
    links.set_ylim(0, 1)
    save(drawing, path)
