"""Figures 3 to 18 (Multiple queues 3). Figures 1 and 2 show a log that is not public."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from koala.lab.papers.multiqueue.charts import BEYOND, MIDDLE, NEAR, Chart, View, charts_of
from koala.lab.papers.paper import Difference, Figure, Panel
from koala.lab.sim.runs import Level

ONLY_TOTAL = ("GS", "LS-OR", "LS-RD", "LS-RO", "LS-DO")
"""Policies that lack one kind of queue."""
AXIS = "mean response time, in mean service times"
BEST = {
    3: "LS-DO",
    4: "LS-OR",
    5: "LP-GF",
    6: "LP-LF",
    7: "EQ-GF",
    8: "EQ-LF",
    9: "LS-DO",
    10: "LP-GF",
    11: "LP-GF",
    12: "EQ-GF",
    13: "EQ-GF",
    14: "EQ-GF",
    15: "GS",
    16: "LS-DO",
    17: "LS-DO",
    18: "EQ-LF",
}
"""The policy that the paper finds best in each figure; the others are compared with it."""


def totals(at: View) -> Panel:
    """Make a bar for each policy."""
    policies = at.chart.policies
    return Panel(str(at), policies, {"total": at.totals(policies)}, "policy", AXIS)


def by_queue(at: View) -> Panel:
    """Make a bar for all jobs, one for local queues and one for the global queue, for each
    policy."""
    policies = at.chart.policies
    series = {
        "total": at.totals(policies),
        "local queues": [None if p in ONLY_TOTAL else at.local(p) for p in policies],
        "global queue": [None if p in ONLY_TOTAL else at.common(p) for p in policies],
    }
    return Panel(str(at), policies, series, "policy", AXIS)


def over_best(at: View) -> Panel:
    """Make a bar for each policy: by how much its total exceeds that of the paper's best one."""
    best = BEST[at.chart.figure]
    policies = tuple(one for one in at.chart.policies if one != best)
    return Panel(
        f"{at}, less {best}, paired",
        policies,
        {f"total less {best}": [Difference(at.total(one), at.total(best)) for one in policies]},
        "policy",
        AXIS,
    )


def with_differences(panel: Callable[[View], Panel], found: Iterable[View]) -> tuple[Panel, ...]:
    """Make a chart of each view and, after it, one of the differences on which verdicts rest."""
    return tuple(one for view in found for one in (panel(view), over_best(view)))


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
        panels=with_differences(panel, views(charts, NEAR)),
    )


def comparison(number: int) -> Figure:
    """Make one of the figures 9 to 18: the policies in one case."""
    (chart,) = charts_of(number)
    panel = totals if number in range(15, 18) else by_queue
    levels = (NEAR, BEYOND) if chart.has_second else (MIDDLE, NEAR)
    return Figure(
        number=number,
        title=f"Response times for the policies, composition {chart.case}",
        panels=with_differences(panel, views((chart,), *levels)),
    )


FIGURES = (*map(versions, range(3, 9)), *map(comparison, range(9, 19)))
