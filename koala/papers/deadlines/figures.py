"""The figures of the deadlines paper (Deadlines 3)."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from koala.papers.deadlines.points import (
    FRACTIONS,
    GLOBAL_LOADS,
    HIGH,
    LEADS_S,
    LOCAL_RATES,
    LOW,
    WAITS,
    Point,
    name_of_wait,
    point_of_rate,
)
from koala.papers.deadlines.quantities import WORDS
from koala.papers.paper import Figure, Panel
from koala.papers.runs import Quantity

LOADS = {"low": 0.2, "high": 0.4}
"""Global loads of the paper."""
PERCENT = "percent"
SUCCESS = "success rate, percent"


def _over_rates(title: str, series: dict[str, tuple[Point, str]], y_label: str = PERCENT) -> Panel:
    """Chart metrics of points over the arrival rate of global jobs."""
    return Panel(
        title=title,
        x=tuple(Point(global_load=load).global_rate for load in GLOBAL_LOADS),
        series={
            name: [Quantity(replace(point, global_load=load), metric) for load in GLOBAL_LOADS]
            for name, (point, metric) in series.items()
        },
        x_label="global jobs a second",
        y_label=y_label,
    )


def _waits_over_rates(title: str, metric: str, y_label: str, policy: str = "GP") -> Panel:
    """Chart one metric of each Wait-X over the arrival rate of global jobs."""
    points = {name_of_wait(wait_s): Point(policy=policy, wait_s=wait_s) for wait_s in WAITS}
    return _over_rates(title, {name: (point, metric) for name, point in points.items()}, y_label)


def _over_fractions(metric: str, local_load: float) -> Panel:
    """Chart one metric over Lp, for both global loads."""
    return Panel(
        title=WORDS[metric],
        x=FRACTIONS,
        series={
            f"global {100 * load:g} %": [
                Quantity(Point(fraction=part, local_load=local_load, global_load=load), metric)
                for part in FRACTIONS
            ]
            for load in LOADS.values()
        },
        x_label="Lp",
        y_label=PERCENT,
    )


def _influence_of_fraction(number: int, word: str, local_load: float) -> Figure:
    panels = (_over_fractions(one, local_load) for one in ("success_rate", "total_load", "wasted"))
    return Figure(number, f"The influence of Lp with a {word} local load", tuple(panels))


def _over_leads(title: str, base: Point) -> Panel:
    return Panel(
        title=title,
        x=LEADS_S,
        series={
            name_of_wait(wait_s): [
                Quantity(replace(base, wait_s=wait_s, lead_s=lead_s), "success_rate")
                for lead_s in LEADS_S
            ]
            for wait_s in (10.0, inf)
        },
        x_label="seconds from submission to deadline",
        y_label=SUCCESS,
    )


def _influence_of_lead(number: int, word: str, local_load: float) -> Figure:
    return Figure(
        number=number,
        title=f"The influence of the deadline with a {word} local load",
        panels=tuple(
            _over_leads(f"{name} global load", Point(local_load=local_load, global_load=load))
            for name, load in LOADS.items()
        ),
        note="Within a run all jobs have the same lead; the policy is GP.",
    )


OVER_LOCAL_RATES = Panel(
    title="GP",
    x=LOCAL_RATES,
    series={
        name_of_wait(wait_s): [
            Quantity(point_of_rate(rate, Point(wait_s=wait_s)), "success_rate")
            for rate in LOCAL_RATES
        ]
        for wait_s in (10.0, inf)
    },
    x_label="local jobs a second and cluster",
    y_label=SUCCESS,
)
METRICS = (
    *("success_rate", "local_kill_rate"),
    *("total_load", "global_load", "local_load", "wasted"),
)

FIGURES = (
    Figure(
        number=1,
        title="Some metrics over the arrival rate of global jobs, low local load",
        panels=(
            _over_rates("GP, Wait-∞, Lp 0.7", {WORDS[one]: (Point(), one) for one in METRICS}),
        ),
    ),
    _influence_of_fraction(2, "low", LOW),
    _influence_of_fraction(3, "high", HIGH),
    Figure(
        number=4,
        title="Ignoring policies over the arrival rate of global jobs, low local load",
        panels=tuple(
            _waits_over_rates(policy, "success_rate", SUCCESS, policy) for policy in ("GP", "LP")
        ),
    ),
    _influence_of_lead(5, "low", LOW),
    _influence_of_lead(6, "high", HIGH),
    Figure(7, "The influence of the local load, low global load", (OVER_LOCAL_RATES,)),
    Figure(
        number=8,
        title="The response time of local jobs over the arrival rate of global jobs",
        panels=(_waits_over_rates("GP, low local load", "measured_response", "seconds"),),
        note="Where local queues grow without end it is that of a run of this length.",
    ),
    Figure(
        number=9,
        title="The local jobs that are killed over the arrival rate of global jobs",
        panels=(_waits_over_rates("GP, low local load", "local_kill_rate", PERCENT),),
    ),
)
