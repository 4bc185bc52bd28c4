"""`koala simulate sq`: synchronous queuing against strict admission control (SQ 5)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from koala.lab.commands.options import simulation
from koala.lab.commands.simulation_options import Runs
from koala.lab.papers.synchronous.simulation.counting import Outcome, Summary, Tally, summarize
from koala.lab.papers.synchronous.simulation.run import simulate
from koala.lab.papers.synchronous.simulation.setting import SIMULATION, Setting
from koala.lab.sim.drawing import save

WORDS = {
    "skew_eq2": ("skew by equation (2), mean over cycles", "s"),
    "skew_eq2_largest": ("  its largest value", "s"),
    "skew_finish": ("difference of finish times", "s"),
    "qos_conformance": ("cycles within the overall deviation", ""),
    "effective_cycles": ("quanta given within the asynchrony", ""),
    "acceptance_ratio": ("tasks accepted", ""),
    "corrections": ("corrections a task", ""),
}


@simulation(SIMULATION, reps=3)
def sq(setting: Setting, runs: Runs) -> None:
    """Simulate subtasks that must advance together.

    The machines have other users. Each machine shares its processor among local tasks, Grid QoS
    subtasks and Grid best-effort tasks, quantum by quantum. SQ watches the subtasks of each task
    and slows down or speeds up those that drift apart; QoS admits tasks strictly and leaves them
    alone. --jobs-out writes the QoS tasks of the first replication.
    """
    done = runs.replicate(simulate, setting, columns=Outcome._fields)
    found, count = summarize(done.results), len(done.finished)
    runs.report(
        done,
        {**found.document(), "replications": count},
        lambda: _table(found, count),
        draw=partial(_draw, done.results),
    )


def _table(found: Summary, replications: int) -> str:
    lines = [
        f"{words:<38} {found.metrics[name]!s:>20} {unit}".rstrip()
        for name, (words, unit) in WORDS.items()
    ]
    lines.append(
        f"{found.accepted} of {found.tasks} tasks accepted;"
        f" 95 % confidence intervals over {replications} replications"
    )
    return "\n".join(lines)


def _draw(runs: Sequence[Tally], path: Path) -> None:
    """Draw skews and ratios of each replication."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(7, 5), layout="constrained")
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
