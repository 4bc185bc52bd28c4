"""Plot of response times: lines over the load where there are several, else bars by kind."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from koala.lab.papers.multiqueue.simulation.counting import SimulatedPoint
from koala.lab.papers.multiqueue.simulation.runs import KINDS
from koala.lab.sim.drawing import COLOURS, STYLE, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(points: tuple[SimulatedPoint, ...], path: Path) -> None:
    """Write the picture; the suffix of the path chooses the format."""
    from matplotlib import style  # noqa: PLC0415 - takes longer to import than a short run
    from matplotlib.figure import Figure  # noqa: PLC0415

    with style.context(STYLE, after_reset=True):
        drawing = Figure(figsize=(7, 4), layout="constrained")
        axes = drawing.add_subplot()
        if len({point.setting.utilization for point in points}) > 1:
            _draw_lines(axes, points)
        else:
            _draw_bars(axes, points)
        axes.set_ylabel("mean response time")
        axes.set_ylim(bottom=0)
        axes.legend()
        save(drawing, path)


def _draw_lines(axes: Axes, points: tuple[SimulatedPoint, ...]) -> None:
    """Draw a line for each policy; it ends where the system is saturated."""
    for index, policy in enumerate(dict.fromkeys(point.setting.policy for point in points)):
        mine = [p for p in points if p.setting.policy == policy and not p.is_saturated]
        found = [point.response("all") for point in mine]
        axes.errorbar(
            [point.setting.utilization for point in mine],
            [one.mean for one in found],
            yerr=[one.ci95 if isfinite(one.ci95) else 0.0 for one in found],
            label=policy,
            color=COLOURS[index % len(COLOURS)],
            linestyle=("-", "--", ":")[index // len(COLOURS) % 3],
            marker="o",
            markersize=2.5,
            capsize=1.5,
        )
    axes.set_xlabel("offered gross utilization")


def _draw_bars(axes: Axes, points: tuple[SimulatedPoint, ...]) -> None:
    """Draw a group of bars for each policy, one for each kind of job."""
    share = 0.8 / len(KINDS)
    for index, kind in enumerate(KINDS):
        found = [point.response(kind) for point in points]
        axes.bar(
            [place + (index - 2) * share for place in range(len(points))],
            [one.mean if isfinite(one.mean) else 0.0 for one in found],
            width=share,
            yerr=[one.ci95 if isfinite(one.ci95) else 0.0 for one in found],
            label=kind,
            color=COLOURS[index],
        )
    names = [f"{p.setting.policy}{' SAT' if p.is_saturated else ''}" for p in points]
    axes.set_xticks(range(len(points)), names)
