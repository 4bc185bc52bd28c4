"""Figures 1 to 5 (KOALA 3.2, 5), at any setting of the experiment."""

from __future__ import annotations

from dataclasses import replace
from itertools import starmap

from koala.lab.papers.koala.points import PRIORITIES
from koala.lab.papers.koala.simulation.run import DRAWN_S, over_time
from koala.lab.papers.koala.simulation.setting import Setting
from koala.lab.papers.paper import Difference, Figure, Mark, Panel
from koala.lab.sim.runs import Quantity

LINES = {"busy": "in all", "local": "other users", "koala": "KOALA"}


def figures(setting: Setting, *, until_s: float = DRAWN_S) -> tuple[Figure, ...]:
    """Return figures 2 to 5 at a setting; figure 2 up to an instant that all runs reach."""
    failures = replace(
        _panel(setting, "", "failures_percent", "% of the runs"),
        marks=(Mark("below 15 % while the system was stable", 0, 15),),
    )
    coallocated = _panel(setting, "", "coallocated_percent", "% of the jobs")
    times = (
        _panel(setting, "placement time", "placement_s", "seconds"),
        _panel(setting, "start delay", "start_delay_s", "seconds"),
        _by_priority(setting, "placement time, high less low, paired", "placement_s"),
        _by_priority(setting, "start delay, high less low, paired", "start_delay_s"),
    )
    return (
        Figure(2, "System utilisation during the experiment", (_utilization(setting, until_s),)),
        Figure(3, "Failures by job size", (failures,)),
        Figure(4, "Jobs that use co-allocation", (coallocated,)),
        Figure(5, "Placement times and start delays", times),
    )


def time_line(setting: Setting) -> Figure:
    """Return figure 1: the points of the time line in the last attempt of each job."""

    def lines(*metrics: str) -> dict[str, list[Quantity]]:
        return {
            f"{size} {priority}": [Quantity(setting, f"{one}.{size}.{priority}") for one in metrics]
            for size in setting.sizes
            for priority in PRIORITIES
        }

    return Figure(
        number=1,
        title="The time line of a job submission",
        panels=(
            Panel(
                title="from A (submitted) to B (placed)",
                x=("B: placed",),
                series=lines("placement_s"),
                y_label="seconds after submission",
            ),
            Panel(
                title="from B on",
                x=("C: claimed", "D: JST", "start", "E: end"),
                series=lines("claimed", "start", "started", "ended"),
                y_label="seconds after placement",
            ),
        ),
        note="Means over the last attempt of each job. C is when all components were claimed, D "
        "the JST; the start is later when a file is late.",
    )


def _utilization(setting: Setting, until_s: float) -> Panel:
    minutes = [index * setting.bin_s / 60 for index in range(int(until_s // setting.bin_s))]
    return Panel(
        title="",
        x=tuple(minutes),
        series={
            name: [Quantity(setting, over_time(use, minute)) for minute in minutes]
            for use, name in LINES.items()
        },
        x_label="minutes",
        y_label="% of the processors",
        marks=(Mark("up to 80 to 90 %", 80, 90),),
    )


def _by_priority(setting: Setting, title: str, measure: str) -> Panel:
    """Chart what high priority differs from low priority by, for each size and number of
    components."""
    shapes = [(size, count) for size in setting.sizes for count in setting.allowed(size)]
    high, low = (
        [Quantity(setting, f"{measure}.{size}x{count}.{one}") for size, count in shapes]
        for one in PRIORITIES
    )
    return Panel(
        title=title,
        x=tuple(f"{size} ({count})" for size, count in shapes),
        series={"high less low": list(starmap(Difference, zip(high, low, strict=True)))},
        x_label="job size (components)",
        y_label="seconds",
    )


def _panel(setting: Setting, title: str, measure: str, unit: str) -> Panel:
    """Make a group of bars for a size and number of components, one bar per priority."""
    shapes = [(size, count) for size in setting.sizes for count in setting.allowed(size)]
    return Panel(
        title=title,
        x=tuple(f"{size} ({count})" for size, count in shapes),
        series={
            f"{priority} priority": [
                Quantity(setting, f"{measure}.{size}x{count}.{priority}") for size, count in shapes
            ]
            for priority in PRIORITIES
        },
        x_label="job size (components)",
        y_label=unit,
    )
