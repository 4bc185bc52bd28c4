"""The figures of the deadlines paper (Deadlines 3)."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from koala.core.model.values import Seconds
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
from koala.papers.paper import Figure, Panel, Quantity, Series

LOADS = {"low": 0.2, "high": 0.4}
"""Global loads of the paper."""
PERCENT = "percent"
RATE = "global jobs a second"


def _over_rates(title: str, base: Point, metrics: dict[str, str], y_label: str) -> Panel:
    """Chart metrics of one policy over the arrival rate of global jobs."""
    points = [replace(base, global_load=load) for load in GLOBAL_LOADS]
    return Panel(
        title=title,
        x=tuple(point.global_rate for point in points),
        series=tuple(
            Series(name=name, of=tuple(Quantity(point, metric) for point in points))
            for metric, name in metrics.items()
        ),
        x_label=RATE,
        y_label=y_label,
    )


def _waits_over_rates(title: str, base: Point, metric: str, y_label: str) -> Panel:
    """Chart one metric of each Wait-X over the arrival rate of global jobs."""
    points = [replace(base, global_load=load) for load in GLOBAL_LOADS]
    return Panel(
        title=title,
        x=tuple(point.global_rate for point in points),
        series=tuple(
            Series(
                name=name_of_wait(wait_s),
                of=tuple(Quantity(replace(point, wait_s=wait_s), metric) for point in points),
            )
            for wait_s in WAITS
        ),
        x_label=RATE,
        y_label=y_label,
    )


def _over_fractions(title: str, local_load: float, metric: str) -> Panel:
    """Chart one metric over Lp, for both global loads."""
    return Panel(
        title=title,
        x=FRACTIONS,
        series=tuple(
            Series(
                name=f"global {100 * load:g} %",
                of=tuple(
                    Quantity(
                        Point(fraction=fraction, local_load=local_load, global_load=load), metric
                    )
                    for fraction in FRACTIONS
                ),
            )
            for load in LOADS.values()
        ),
        x_label="Lp",
        y_label=PERCENT,
    )


def _influence_of_fraction(number: int, word: str, local_load: float) -> Figure:
    return Figure(
        number=number,
        title=f"The influence of Lp with a {word} local load",
        panels=tuple(
            _over_fractions(WORDS[metric], local_load, metric)
            for metric in ("success_rate", "total_load", "wasted")
        ),
    )


def _over_leads(title: str, local_load: float, global_load: float) -> Panel:
    return Panel(
        title=title,
        x=LEADS_S,
        series=tuple(
            Series(
                name=name_of_wait(wait_s),
                of=tuple(
                    Quantity(
                        Point(
                            wait_s=wait_s,
                            local_load=local_load,
                            global_load=global_load,
                            lead_s=lead_s,
                        ),
                        "success_rate",
                    )
                    for lead_s in LEADS_S
                ),
            )
            for wait_s in (10.0, inf)
        ),
        x_label="seconds from submission to deadline",
        y_label="success rate, percent",
    )


def _influence_of_lead(number: int, word: str, local_load: float) -> Figure:
    return Figure(
        number=number,
        title=f"The influence of the deadline with a {word} local load",
        panels=tuple(
            _over_leads(f"{name} global load", local_load, load) for name, load in LOADS.items()
        ),
        note="Within a run all jobs have the same lead; the policy is GP.",
    )


def _over_local_rates(wait_s: Seconds) -> Series:
    base = Point(wait_s=wait_s)
    return Series(
        name=name_of_wait(wait_s),
        of=tuple(Quantity(point_of_rate(rate, base), "success_rate") for rate in LOCAL_RATES),
    )


FIGURES = (
    Figure(
        number=1,
        title="Some metrics over the arrival rate of global jobs, low local load",
        panels=(
            _over_rates(
                "GP, Wait-∞, Lp 0.7",
                Point(),
                {
                    metric: WORDS[metric]
                    for metric in (
                        *("success_rate", "local_kill_rate"),
                        *("total_load", "global_load", "local_load", "wasted"),
                    )
                },
                PERCENT,
            ),
        ),
    ),
    _influence_of_fraction(2, "low", LOW),
    _influence_of_fraction(3, "high", HIGH),
    Figure(
        number=4,
        title="Ignoring policies over the arrival rate of global jobs, low local load",
        panels=tuple(
            _waits_over_rates(policy, Point(policy=policy), "success_rate", "success rate, percent")
            for policy in ("GP", "LP")
        ),
    ),
    _influence_of_lead(5, "low", LOW),
    _influence_of_lead(6, "high", HIGH),
    Figure(
        number=7,
        title="The influence of the local load, low global load",
        panels=(
            Panel(
                title="GP",
                x=LOCAL_RATES,
                series=tuple(_over_local_rates(wait_s) for wait_s in (10.0, inf)),
                x_label="local jobs a second and cluster",
                y_label="success rate, percent",
            ),
        ),
    ),
    Figure(
        number=8,
        title="The response time of local jobs over the arrival rate of global jobs",
        panels=(_waits_over_rates("GP, low local load", Point(), "measured_response", "seconds"),),
        note="Where local queues grow without end it is that of a run of this length.",
    ),
    Figure(
        number=9,
        title="The local jobs that are killed over the arrival rate of global jobs",
        panels=(_waits_over_rates("GP, low local load", Point(), "local_kill_rate", PERCENT),),
    ),
)
