"""Figures 3 to 18 (Multiple queues 3). Figures 1 and 2 show a log that is not public."""

from __future__ import annotations

from collections.abc import Iterator

from koala.papers.multiqueue.charts import BEYOND, MIDDLE, NEAR, Chart, View, charts_of
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


def versions(number: int) -> Figure:
    """Make one of the figures 3 to 8: the versions of a policy."""
    charts = charts_of(number)
    policy, _ = charts[0].policies[0].split("-")
    panel = totals if policy == "LS" else by_queue
    count = "four" if policy == "LS" else "three"
    kind = "balanced" if charts[0].case.is_balanced else "unbalanced"
    return Figure(
        number=number,
        title=f"Response times for the {count} versions of {policy}, {kind} local queues",
        panels=tuple(panel(view) for view in views(charts, NEAR)),
    )


def comparison(number: int) -> Figure:
    """Make one of the figures 9 to 18: the policies in one case."""
    (chart,) = charts_of(number)
    panel = totals if number in range(15, 18) else by_queue
    levels = (NEAR, BEYOND) if chart.has_second else (MIDDLE, NEAR)
    return Figure(
        number=number,
        title=f"Response times for the policies, composition {chart.case}",
        panels=tuple(panel(view) for view in views((chart,), *levels)),
    )


FIGURES = (*map(versions, range(3, 9)), *map(comparison, range(9, 19)))
