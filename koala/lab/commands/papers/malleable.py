"""`koala simulate malleable`: jobs that grow and shrink while they run."""

from __future__ import annotations

from koala.cli.render.table import columns, table
from koala.lab.commands.options import simulation
from koala.lab.commands.simulation_options import Runs, write_rows
from koala.lab.papers.malleable.simulation.counting import document, summarize
from koala.lab.papers.malleable.simulation.run import run
from koala.lab.papers.malleable.simulation.setting import SIMULATION, Setting
from koala.lab.sim.statistics import Interval

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
    found = summarize(done.results)
    seeds = [one.seed for one in done.results]
    runs.show(document(setting, found, seeds), lambda: _text(setting, found, len(seeds)))
    if runs.jobs_out is not None:
        from koala.lab.papers.malleable.simulation.run import size_of
        from koala.lab.sim.metrics import COLUMNS, row

        jobs = done.results[0].jobs
        rows = ([*row(job), size_of(job)] for job in jobs)
        write_rows(runs.jobs_out, (*COLUMNS, "mean_processors"), rows)
    if runs.plot is not None:
        from koala.lab.papers.malleable.simulation.drawing import draw

        draw(done.results, runs.plot)
    runs.end(is_interrupted=done.is_interrupted)


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
