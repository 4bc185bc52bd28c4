"""The figures of the deadlines paper (Deadlines 3)."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from koala.lab.papers.deadlines.points import (
    FRACTIONS,
    GLOBAL_LOADS,
    HIGH,
    LEAD_BINS_S,
    LEADS_S,
    LOCAL_RATES,
    LONG,
    LOW,
    LOW_LEVELS,
    WAITS,
    Point,
    Watched,
    name_of_wait,
    point_of_rate,
)
from koala.lab.papers.deadlines.quantities import WORDS
from koala.lab.papers.paper import Difference, Figure, Mark, Panel
from koala.lab.sim.runs import Quantity

LOADS = {"low": 0.2, "high": 0.4}
"""Global loads of the paper."""
TESTED = tuple(one.global_load for one in LOW_LEVELS)
"""Global loads at which claims about a low local load are tested."""
PERCENT = "percent"
SUCCESS = "success rate, percent"
KILLED = "percent of the local jobs submitted"
POINTS = "percentage points"
PAIRED = "Wait-10 less Wait-∞, paired"


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
    title = f"The influence of Lp with a {word} local load"
    return Figure(number, title, (*panels, _success_over_one(local_load)))


def _success_over_one(local_load: float) -> Panel:
    """Chart what the success with each Lp exceeds that with Lp = 1 by."""

    def success(part: float, load: float) -> Quantity:
        return Quantity(
            Point(fraction=part, local_load=local_load, global_load=load), "success_rate"
        )

    return Panel(
        title="success less that with Lp 1, paired",
        x=FRACTIONS[:-1],
        series={
            f"global {100 * load:g} %": [
                Difference(success(part, load), success(1.0, load)) for part in FRACTIONS[:-1]
            ]
            for load in LOADS.values()
        },
        x_label="Lp",
        y_label=POINTS,
    )


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


def _gain_over_leads(local_load: float) -> Panel:
    """Chart what Wait-10 gains over Wait-∞, for both global loads."""

    def success(wait_s: float, load: float, lead_s: float) -> Quantity:
        point = Point(wait_s=wait_s, local_load=local_load, global_load=load, lead_s=lead_s)
        return Quantity(point, "success_rate")

    return Panel(
        title=PAIRED,
        x=LEADS_S,
        series={
            f"global {100 * load:g} %": [
                Difference(success(10.0, load, lead_s), success(inf, load, lead_s))
                for lead_s in LEADS_S
            ]
            for load in LOADS.values()
        },
        x_label="seconds from submission to deadline",
        y_label=POINTS,
    )


def _over_own_leads(title: str, base: Point) -> Panel:
    """Chart the success of jobs by their own lead, where all leads are mixed."""
    return Panel(
        title=title,
        x=tuple(high_s for _, high_s in LEAD_BINS_S),
        series={
            name_of_wait(wait_s): [
                Quantity(Watched(replace(base, wait_s=wait_s)), f"success.lead.{high_s:g}")
                for _, high_s in LEAD_BINS_S
            ]
            for wait_s in (10.0, inf)
        },
        x_label="own lead of a job, up to so many seconds",
        y_label=SUCCESS,
    )


def _less(
    metric: str, policy: str, other_s: float, loads: tuple[float, ...] = GLOBAL_LOADS
) -> Panel:
    """Chart what a metric under Wait-1000 and Wait-∞ exceeds that under another Wait-X by."""
    base = Point(policy=policy)
    return Panel(
        title=f"{policy}, less {name_of_wait(other_s)}, paired",
        x=tuple(Point(global_load=load).global_rate for load in loads),
        series={
            name_of_wait(wait_s): [
                Difference(
                    Quantity(replace(base, wait_s=wait_s, global_load=load), metric),
                    Quantity(replace(base, wait_s=other_s, global_load=load), metric),
                )
                for load in loads
            ]
            for wait_s in LONG
        },
        x_label="global jobs a second",
        y_label=POINTS,
    )


def _influence_of_lead(number: int, word: str, local_load: float) -> Figure:
    points = {name: Point(local_load=local_load, global_load=load) for name, load in LOADS.items()}
    return Figure(
        number=number,
        title=f"The influence of the deadline with a {word} local load",
        panels=(
            *(_over_leads(f"{name} global load", point) for name, point in points.items()),
            _gain_over_leads(local_load),
            *(
                _over_own_leads(f"{name} global load, leads mixed", point)
                for name, point in points.items()
            ),
        ),
        note="The policy is GP. In the first charts all jobs of a run have the same lead; where "
        "leads are mixed, each job counts in the class of its own.",
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


def _at_rate(rate: float, wait_s: float) -> Quantity:
    return Quantity(point_of_rate(rate, Point(wait_s=wait_s)), "success_rate")


GAIN_OVER_LOCAL_RATES = Panel(
    title=PAIRED,
    x=LOCAL_RATES,
    series={
        "success": [Difference(_at_rate(rate, 10.0), _at_rate(rate, inf)) for rate in LOCAL_RATES]
    },
    x_label="local jobs a second and cluster",
    y_label=POINTS,
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
            replace(
                _over_rates("GP, Wait-∞, Lp 0.7", {WORDS[one]: (Point(), one) for one in METRICS}),
                marks=(Mark("requested local load, 30 %", 100 * LOW),),
            ),
        ),
        note="Success is a share of the global jobs, killed one of the local jobs submitted; loads "
        "and wasted are shares of all processors.",
    ),
    _influence_of_fraction(2, "low", LOW),
    _influence_of_fraction(3, "high", HIGH),
    Figure(
        number=4,
        title="Ignoring policies over the arrival rate of global jobs, low local load",
        panels=(
            *(_waits_over_rates(one, "success_rate", SUCCESS, one) for one in ("GP", "LP")),
            *(_less("success_rate", one, 0.0) for one in ("GP", "LP")),
        ),
    ),
    _influence_of_lead(5, "low", LOW),
    _influence_of_lead(6, "high", HIGH),
    Figure(
        number=7,
        title="The influence of the local load, low global load",
        panels=(OVER_LOCAL_RATES, GAIN_OVER_LOCAL_RATES),
    ),
    Figure(
        number=8,
        title="The response time of local jobs over the arrival rate of global jobs",
        panels=(
            _waits_over_rates("GP, low local load", "local_response", "seconds"),
            replace(
                _waits_over_rates(
                    "as measured in runs of this length", "measured_response", "seconds"
                ),
                marks=(Mark("end of the axis, 350,000 s", 350_000),),
            ),
        ),
        note="Where local queues grow without end, the system has no mean (SAT). What is measured "
        "there, and drawn in the second chart, depends on the length of a run.",
    ),
    Figure(
        number=9,
        title="The local jobs that are killed over the arrival rate of global jobs",
        note="The second chart has the three global loads at which the claims are tested.",
        panels=(
            _waits_over_rates("GP, low local load", "local_kill_rate", KILLED),
            _less("local_kill_rate", "GP", 10.0, TESTED),
        ),
    ),
)
