"""`koala simulate deadlines`: jobs with a required start beside local users (Deadlines 2, 3)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from koala.lab.commands.options import simulation
from koala.lab.commands.simulation_options import Runs
from koala.lab.papers.deadlines.simulation.counting import Outcome, Summary, Tally, summarize
from koala.lab.papers.deadlines.simulation.run import simulate
from koala.lab.papers.deadlines.simulation.setting import SIMULATION, Setting
from koala.lab.sim.drawing import save
from koala.lab.sim.statistics import interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

UNITS = {"local_response": "s"}
WORDS = {
    "success_rate": "deadlines met",
    "local_kill_rate": "local jobs killed",
    "total_load": "busy or claimed",
    "global_load": "busy with global jobs",
    "local_load": "busy with local jobs",
    "wasted": "claimed before the deadline",
    "local_response": "response time of local jobs",
}
RATES = {"success_rate": "deadlines met", "local_kill_rate": "local jobs killed"}
LOADS = {
    "total_load": "in all",
    "local_load": "local jobs",
    "global_load": "global jobs",
    "wasted": "claimed early",
}


@simulation(SIMULATION, reps=5)
def deadlines(setting: Setting, runs: Runs) -> None:
    """Simulate jobs with deadlines on clusters with local users.

    The components of a global job must start together at its deadline. Tries to place and claim
    them come ever closer to it (the Repeated Placement Policy with Lp, Mp and Wait-X). Events in
    the warm-up are not counted. One replication gives batch means. --jobs-out writes the jobs of
    the first replication.
    """
    done = runs.replicate(simulate, setting, columns=Outcome._fields)
    found, count = summarize(setting, done.results), len(done.finished)
    runs.report(
        done,
        {**found.document(), "replications": count},
        lambda: _table(found, count),
        draw=partial(_draw, setting, done.results),
    )


def _table(found: Summary, replications: int) -> str:
    lines = [
        f"{words:<28} {found.metrics[name]!s:>20} {UNITS.get(name, '%')}"
        for name, words in WORDS.items()
    ]
    by = f"{replications} replications" if replications > 1 else "batches of one replication"
    lines.append(
        f"{found.deadlines} deadlines and {found.local_jobs} local jobs counted;"
        f" 95 % confidence intervals over {by}"
    )
    if found.is_saturated:
        lines.append("saturated: local queues grow without end, and their figures grow with time")
    return "\n".join(lines)


def _draw(setting: Setting, runs: Sequence[Sequence[Tally]], path: Path) -> None:
    """Draw rates, loads and local queues of each batch, as means over the runs: it shows warm-up
    and saturation."""
    from matplotlib.figure import Figure

    batches = list(zip(*runs, strict=True))
    span_s = batches[0][0].seconds
    middles = [setting.warmup_s + (index + 0.5) * span_s for index in range(len(batches))]
    processors = sum(setting.sites)
    drawing = Figure(figsize=(7, 8), layout="constrained")
    rates, loads, queues = drawing.subplots(3, 1, sharex=True)
    for axes, names in ((rates, RATES), (loads, LOADS)):
        for name, label in names.items():
            values = [[tally.metrics(processors)[name] for tally in batch] for batch in batches]
            _line(axes, middles, values, label)
        axes.set_ylim(0, 105)
        axes.legend(fontsize="small")
    rates.set_ylabel("percent")
    loads.set_ylabel("percent of the processors")
    growths = [list(accumulate(tally.waiting for tally in run)) for run in runs]
    _line(queues, middles, list(zip(*growths, strict=True)), "")
    queues.set_ylabel("more local jobs wait\nthan after the warm-up")
    queues.set_xlabel("simulated seconds")
    save(drawing, path)


def _line(axes: Axes, x: list[float], values: Sequence[Sequence[float]], label: str) -> None:
    found = [interval(those) for those in values]
    bars = [value.ci95 if value.values > 1 else 0.0 for value in found]
    axes.errorbar(x, [value.mean for value in found], yerr=bars, label=label)
