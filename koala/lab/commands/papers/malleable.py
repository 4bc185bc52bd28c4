"""`koala simulate malleable`: jobs that grow and shrink while they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from koala.cli.render.table import columns, table
from koala.lab.commands.options import simulation
from koala.lab.commands.simulation_options import Runs
from koala.lab.papers.malleable.simulation.run import Measured, groups, run, size_of
from koala.lab.papers.malleable.simulation.setting import SIMULATION, Setting
from koala.lab.sim.drawing import save
from koala.lab.sim.metrics import COLUMNS, row
from koala.lab.sim.statistics import Interval, intervals

GROUPS = {
    "all": "all jobs",
    "ft": "FT",
    "gadget": "GADGET-2",
    "rigid": "rigid jobs",
}
MEASURES = {"response": "response s", "wait": "wait s", "size": "processors", "most": "at most"}
REST = {
    "grown": "growths a job",
    "shrunk": "times a job gave way",
    "used": "% of the processors that ran jobs",
    "unfinished": "jobs that did not finish",
}


@simulation(SIMULATION, reps=5)
def malleable(setting: Setting, runs: Runs) -> None:
    """Simulate malleable jobs on the clusters of the DAS-3.

    Jobs of two applications start with two processors. They grow into what is idle, and give way
    to waiting jobs if these have precedence. A run lasts until the last job has ended. --jobs-out
    writes the jobs of the first replication.
    """
    done = runs.replicate(run, setting)
    seeds = [one.seed for one in done.results]
    found = intervals([one.values for one in done.results], done.results[0].values)
    runs.report(
        done,
        {"setting": setting.document(), "seeds": seeds, **_nested(found)},
        lambda: _text(setting, found, len(seeds)),
        jobs=lambda: (
            (*COLUMNS, "mean_processors"),
            ([*row(job), size_of(job)] for job in done.results[0].jobs),
        ),
        draw=partial(_draw, done.results),
    )


def _nested(found: Mapping[str, Interval]) -> dict[str, Any]:
    """Return the means as plain data, those of groups by measure."""
    nested: dict[str, Any] = {}
    for name, mean in found.items():
        measure, _, group = name.partition(".")
        if group:
            nested.setdefault(measure, {})[group] = mean.document()
        else:
            nested[measure] = mean.document()
    return nested


def _text(setting: Setting, found: dict[str, Interval], count: int) -> str:
    rows = [
        [words, *(str(found[f"{name}.{group}"]) for name in MEASURES)]
        for group, words in GROUPS.items()
        if found[f"response.{group}"].values
    ]
    return "\n".join(
        [
            f"{setting.policy}: {setting.jobs} jobs, one every {setting.interval_s:g} s",
            table(columns("group", *(f">{words}" for words in MEASURES.values())), rows),
            *(f"{words}: {found[name]}" for name, words in REST.items()),
            f"Means of {count} runs with 95 % confidence intervals." if count > 1 else "One run.",
        ]
    )


def _draw(runs: Sequence[Measured], path: Path) -> None:
    """Draw the share of the jobs that ended within a time, and of those with at most so many
    processors in the mean."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(7, 7), layout="constrained")
    times, sizes = drawing.subplots(2, 1)
    for group in ("ft", "gadget", "rigid"):
        jobs = [job for run in runs for job in groups(run.jobs)[group]]
        if jobs:
            times.ecdf([job.response_s or 0.0 for job in jobs], label=GROUPS[group])
            sizes.ecdf([size_of(job) for job in jobs], label=GROUPS[group])
    times.set_xlabel("response time, s")
    sizes.set_xlabel("mean processors while it ran")
    for axes in (times, sizes):
        axes.set_ylabel("share of the jobs")
        axes.legend(fontsize="small")
    save(drawing, path)
