"""Figures 3 to 18 (Multiple queues 3). Figures 1 and 2 show a log that is not public."""

from __future__ import annotations

from collections.abc import Iterator

from koala.papers.multiqueue.charts import (
    BEYOND,
    FIGURE_3,
    FIGURE_4,
    FIGURE_5,
    FIGURE_6,
    FIGURE_7,
    FIGURE_8,
    FIGURE_18,
    FIGURES_9_TO_14,
    FIGURES_15_TO_17,
    MIDDLE,
    NEAR,
    Chart,
    View,
)
from koala.papers.paper import Figure, Level, Panel, Series

ONLY_TOTAL = ("GS", "LS-OR", "LS-RD", "LS-RO", "LS-DO")
"""Policies that lack one kind of queue."""
AXIS = "mean response time"


def totals(at: View) -> Panel:
    """Make a bar for each policy."""
    policies = at.chart.policies
    series = (Series(name="total", of=at.totals(policies)),)
    return Panel(title=str(at), x=policies, series=series, y_label=AXIS)


def by_queue(at: View) -> Panel:
    """Make a bar for all jobs, one for local queues and one for the global queue, for each
    policy."""
    policies = at.chart.policies
    both = [policy not in ONLY_TOTAL for policy in policies]
    pairs = list(zip(policies, both, strict=True))
    series = (
        Series(name="total", of=at.totals(policies)),
        Series(name="local queues", of=tuple(at.local(p) if has else None for p, has in pairs)),
        Series(name="global queue", of=tuple(at.common(p) if has else None for p, has in pairs)),
    )
    return Panel(title=str(at), x=policies, series=series, y_label=AXIS)


def views(charts: tuple[Chart, ...], *levels: Level) -> Iterator[View]:
    """List each chart at each of its levels."""
    for chart in charts:
        for level in levels:
            view = chart.at(level)
            if view is not None:
                yield view


def versions() -> Iterator[Figure]:
    """Make figures 3 to 8."""
    for number, policy, charts in (
        (3, "LS", FIGURE_3),
        (4, "LS", FIGURE_4),
        (5, "LP", FIGURE_5),
        (6, "LP", FIGURE_6),
        (7, "EQ", FIGURE_7),
        (8, "EQ", FIGURE_8),
    ):
        is_balanced = charts[0].case.is_balanced
        panel = totals if policy == "LS" else by_queue
        count = {"LS": "four"}.get(policy, "three")
        kind = "balanced" if is_balanced else "unbalanced"
        yield Figure(
            number=number,
            title=f"Response times for the {count} versions of {policy}, {kind} local queues",
            panels=tuple(panel(view) for view in views(charts, NEAR)),
        )


def comparisons() -> Iterator[Figure]:
    """Make figures 9 to 18."""
    for number, chart in enumerate((*FIGURES_9_TO_14, *FIGURES_15_TO_17, FIGURE_18[0]), start=9):
        panel = totals if chart in FIGURES_15_TO_17 else by_queue
        levels = (NEAR, BEYOND) if chart.has_second else (MIDDLE, NEAR)
        yield Figure(
            number=number,
            title=f"Response times for the policies, composition {chart.case}",
            panels=tuple(panel(view) for view in views((chart,), *levels)),
        )


FIGURES = (*versions(), *comparisons())
