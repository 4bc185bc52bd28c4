"""`koala simulate koala`: KOALA's experiment on the DAS (KOALA 4, 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import floor, isfinite, log10, nan
from pathlib import Path
from typing import Any

from koala.cli.render.table import columns, table
from koala.lab.commands.options import simulation
from koala.lab.commands.simulation_options import Runs
from koala.lab.papers.koala.simulation.run import USES, Measured, over_time, run
from koala.lab.papers.koala.simulation.setting import OURS, SIMULATION, Group, Setting
from koala.lab.sim.metrics import COLUMNS, MEASURES, row
from koala.lab.sim.statistics import Interval, interval


@simulation(SIMULATION, reps=5)
def koala(setting: Setting, runs: Runs) -> None:
    """Simulate KOALA's experiment on the DAS.

    Jobs are co-allocated, beside other users and with failures. Defaults are the paper's where it
    prints a value; the output lists the other ones. A run lasts until the last job has ended. Times
    count from the end of the warm-up. --jobs-out writes the jobs of the first replication.
    """
    done = runs.replicate(run, setting)
    found = Summary(setting, done.results)
    runs.report(
        done,
        found.document(),
        lambda: _text(found),
        jobs=lambda: (COLUMNS, map(row, done.results[0].jobs)),
        draw=partial(_draw, found),
    )


class Summary:
    """Means with intervals over replications."""

    def __init__(self, setting: Setting, runs: Sequence[Measured]) -> None:
        self.setting = setting
        self.runs = tuple(runs)

    def value(self, name: str) -> Interval:
        """A figure by its name in `Measured.values`."""
        return interval([run.values[name] for run in self.runs])

    def measure(self, name: str, group: Group | None = None) -> Interval:
        """A measure of a group of jobs."""
        return self.value(f"{name}.{group or 'all'}")

    def over_time(self) -> list[dict[str, Any]]:
        """Utilisation in percent by the minute at which a bin begins, over the runs that last so
        long (KOALA, figure 2)."""
        bins = max((len(run.spans) for run in self.runs), default=0)
        minutes = [index * self.setting.bin_s / 60 for index in range(bins)]
        return [
            {
                "minute": minute,
                **{
                    use: interval(
                        [run.values.get(over_time(use, minute), nan) for run in self.runs]
                    ).document()
                    for use in USES
                },
            }
            for minute in minutes
        ]

    def document(self) -> dict[str, Any]:
        """Return the summary as plain data."""
        return {
            "setting": self.setting.document(),
            "ours": OURS,
            "seeds": [run.seed for run in self.runs],
            "unfinished": self.value("unfinished").document(),
            "makespan_s": self.value("makespan_s").document(),
            "utilization": {
                **{
                    period: {
                        use: self.value(f"utilization.{period}.{use}").document() for use in USES
                    }
                    for period in ("arrivals", "whole")
                },
                "over_time": self.over_time(),
            },
            "groups": [self._group(group) for group in self.setting.groups],
        }

    def _group(self, group: Group) -> dict[str, Any]:
        return {
            "group": str(group),
            "processors": group.processors,
            "components": group.components,
            "priority": group.priority,
            **{name: self.measure(name, group).document() for name in MEASURES},
        }


def _draw(found: Summary, path: Path) -> None:
    from koala.lab.papers.figures import picture
    from koala.lab.papers.koala.figures import figures
    from koala.lab.papers.results import Results
    from koala.lab.sim.runs import Effort, Outcome, Run

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


SHOWN = {
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
        [_name(group), *(_cell(found.measure(name, group)) for name in SHOWN)]
        for group in found.setting.groups
        if (group.processors is None) == (group.components is None)
    ]
    lines = [
        table(columns("job size (components)", *SHOWN.values()), rows),
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
        *(f"seed {run.seed}: {waiting}" for run in found.runs for waiting in run.waiting),
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
    """Format a mean with its interval; one of a single run has four digits and no interval."""
    if not isfinite(found.mean):
        return "-"
    if isfinite(found.ci95):
        return str(found)
    digits = max(0, 3 - floor(log10(abs(found.mean)))) if found.mean % 1 else 0
    return f"{found.mean:.{digits}f}"
