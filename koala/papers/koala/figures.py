"""Figures 1 to 5 (KOALA 3.2, 5), at any setting of the experiment."""

from __future__ import annotations

from koala.papers.koala.points import PRIORITIES
from koala.papers.koala.simulation.run import DRAWN_S, over_time
from koala.papers.koala.simulation.setting import Group, Setting
from koala.papers.paper import Figure, Panel, Quantity, Series

LINES = {"busy": "in all", "local": "other users", "koala": "KOALA"}


def figures(setting: Setting, *, until_s: float = DRAWN_S) -> tuple[Figure, ...]:
    """Return figures 2 to 5 at a setting; figure 2 up to an instant that all runs reach."""
    return (
        _utilization(setting, until_s),
        _bars(setting, 3, "Failures by job size", "failures_percent", "% of the runs"),
        _bars(setting, 4, "Jobs that use co-allocation", "coallocated_percent", "% of the jobs"),
        Figure(
            number=5,
            title="Placement times and start delays",
            panels=(
                _panel(setting, "placement time", "placement_s", "s"),
                _panel(setting, "start delay", "start_delay_s", "s"),
            ),
        ),
    )


def time_line(setting: Setting) -> Figure:
    """Return figure 1: the points of the time line in the last attempt of each job."""
    classes = [(size, priority) for size in setting.sizes for priority in PRIORITIES]
    points = {
        "C: claimed": "claimed",
        "D: JST": "start",
        "start": "started",
        "E: end": "ended",
    }
    return Figure(
        number=1,
        title="The time line of a job submission",
        panels=(
            Panel(
                title="from A (submitted) to B (placed)",
                x=("B: placed",),
                series=tuple(
                    Series(
                        name=f"{size} {priority}",
                        of=(Quantity(setting, f"placement_s.{size}.{priority}"),),
                    )
                    for size, priority in classes
                ),
                y_label="s after submission",
            ),
            Panel(
                title="from B on",
                x=tuple(points),
                series=tuple(
                    Series(
                        name=f"{size} {priority}",
                        of=tuple(
                            Quantity(setting, f"{name}.{size}.{priority}")
                            for name in points.values()
                        ),
                    )
                    for size, priority in classes
                ),
                y_label="s after placement",
            ),
        ),
        note="Means over the last attempt of each job. C is when all components were claimed, D "
        "the JST; the start is later when a file is late.",
    )


def _utilization(setting: Setting, until_s: float) -> Figure:
    minutes = [index * setting.bin_s / 60 for index in range(int(until_s // setting.bin_s))]
    return Figure(
        number=2,
        title="System utilisation during the experiment",
        panels=(
            Panel(
                title="",
                x=tuple(minutes),
                series=tuple(
                    Series(
                        name=name,
                        of=tuple(Quantity(setting, over_time(use, minute)) for minute in minutes),
                    )
                    for use, name in LINES.items()
                ),
                x_label="minutes",
                y_label="% of the processors",
            ),
        ),
    )


def _bars(setting: Setting, number: int, title: str, measure: str, unit: str) -> Figure:
    return Figure(number=number, title=title, panels=(_panel(setting, "", measure, unit),))


def _panel(setting: Setting, title: str, measure: str, unit: str) -> Panel:
    """Make a group of bars for a size and number of components, one bar per priority."""
    shapes = [(size, count) for size in setting.sizes for count in setting.allowed(size)]
    return Panel(
        title=title,
        x=tuple(f"{size} ({count})" for size, count in shapes),
        series=tuple(
            Series(
                name=f"{priority} priority",
                of=tuple(
                    Quantity(setting, f"{measure}.{_group(size, count, priority)}")
                    for size, count in shapes
                ),
            )
            for priority in PRIORITIES
        ),
        x_label="job size (components)",
        y_label=unit,
    )


def _group(size: int, count: int, priority: str) -> Group:
    return Group(processors=size, components=count, priority=priority)
