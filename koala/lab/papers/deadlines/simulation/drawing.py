"""Plot of one setting: the metrics over time, which shows warm-up and saturation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from koala.lab.papers.deadlines.simulation.counting import Tally
from koala.lab.papers.deadlines.simulation.setting import Setting
from koala.lab.sim.drawing import save
from koala.lab.sim.statistics import interval

RATES = {"success_rate": "deadlines met", "local_kill_rate": "local jobs killed"}
LOADS = {
    "total_load": "in all",
    "local_load": "local jobs",
    "global_load": "global jobs",
    "wasted": "claimed early",
}


def draw(setting: Setting, runs: Sequence[Sequence[Tally]], path: Path) -> None:
    """Draw rates, loads and local queues of each batch, as means over the runs, to a picture
    file."""
    batches = list(zip(*runs, strict=True))
    span_s = batches[0][0].seconds
    middles = [setting.warmup_s + (index + 0.5) * span_s for index in range(len(batches))]
    processors = sum(setting.sites)
    drawing = Drawing(figsize=(7, 8), layout="constrained")
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
