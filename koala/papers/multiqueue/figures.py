"""Figures 3 to 18 (Multiple queues 3). Figures 1 and 2 show a log that is not public."""

from __future__ import annotations

from collections.abc import Iterator

from koala.papers.multiqueue.charts import BEYOND, MIDDLE, NEAR, Chart, View, charts_of
from koala.papers.paper import Figure, Panel
from koala.papers.runs import Level

ONLY_TOTAL = ("GS", "LS-OR", "LS-RD", "LS-RO", "LS-DO")
"""Policies that lack one kind of queue."""
AXIS = "mean response time"


def totals(at: View) -> Panel:
    """Make a bar for each policy."""
    policies = at.chart.policies
    return Panel(str(at), policies, {"total": at.totals(policies)}, y_label=AXIS)


def by_queue(at: View) -> Panel:
    """Make a bar for all jobs, one for local queues and one for the global queue, for each
    policy."""
    policies = at.chart.policies
    series = {
        "total": at.totals(policies),
        "local queues": [None if p in ONLY_TOTAL else at.local(p) for p in policies],
        "global queue": [None if p in ONLY_TOTAL else at.common(p) for p in policies],
    }
    return Panel(str(at), policies, series, y_label=AXIS)


def views(charts: tuple[Chart, ...], *levels: Level) -> Iterator[View]:
    """List each chart at each of its levels."""
    for chart in charts:
        yield from filter(None, map(chart.at, levels))


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
