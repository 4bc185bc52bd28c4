"""Plot of one setting: the distribution of skew and conformity over the tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure as Drawing

from koala.lab.papers.synchronous.simulation.counting import Tally
from koala.lab.sim.drawing import save


def draw(runs: Sequence[Tally], path: Path) -> None:
    """Draw skews and ratios of each replication to a picture file."""
    drawing = Drawing(figsize=(7, 5), layout="constrained")
    skews, ratios = drawing.subplots(1, 2)
    for axes, names, label in (
        (skews, {"skew_eq2": "equation (2)", "skew_finish": "finish times"}, "skew, seconds"),
        (
            ratios,
            {
                "qos_conformance": "conformance",
                "effective_cycles": "effective cycles",
                "acceptance_ratio": "acceptance",
            },
            "ratio",
        ),
    ):
        for place, name in enumerate(names):
            values = [run[name] for run in runs]
            mean = sum(values) / len(values)
            axes.bar(place, mean, width=0.6, color="#4477aa", alpha=0.5)
            axes.plot([place] * len(values), values, "o", color="#4477aa", markersize=4)
        axes.set_xticks(range(len(names)), list(names.values()), rotation=20)
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
    ratios.set_ylim(0, 1.05)
    drawing.suptitle("Bars: mean; points: replications", fontsize=9)
    save(drawing, path)
