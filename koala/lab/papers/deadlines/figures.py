"""The figures of the deadlines paper (Deadlines 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import inf
from typing import Any

from koala.lab.papers.deadlines.claims import WORDS
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
from koala.lab.papers.paper import Difference, Drawn, Figure, Mark, Panel
from koala.lab.sim.runs import Quantity

LOADS = {"low": 0.2, "high": 0.4}
"""Global loads of the paper."""
TESTED = tuple(one.global_load for one in LOW_LEVELS)
"""Global loads at which claims about a low local load are tested."""
PERCENT = "percent"
SUCCESS = "success rate, percent"
KILLED = "percent of the local jobs submitted"
POINTS = "percentage points"
LEAD = "seconds from submission to deadline"
PAIRED = "Wait-10 less Wait-∞, paired"


def _at(metric: str, base: Point, field: str) -> Callable[[float], Quantity]:
    """Return the metric at a point, by the value of one of its fields."""
    return lambda value: Quantity(_changed(base, field, value), metric)


def _less(metric: str, one: Point, other: Point, field: str) -> Callable[[float], Difference]:
    """Return the difference of the metric at two points, by the value of one of their fields."""
    first, second = _at(metric, one, field), _at(metric, other, field)
    return lambda value: Difference(first(value), second(value))


def _changed(point: Point, field: str, value: float) -> Point:
    changes: dict[str, Any] = {field: value}
    return replace(point, **changes)


def _by_load(local_load: float, **changes: Any) -> dict[str, Point]:  # noqa: ANN401 - of a Point
    """Return the points with both global loads, by their names."""
    return {
        f"global {100 * load:g} %": Point(local_load=local_load, global_load=load, **changes)
        for load in LOADS.values()
    }


def _by_wait(waits: Iterable[float], **changes: Any) -> dict[str, Point]:  # noqa: ANN401 - as above
    """Return the points with several Wait-X, by their names."""
    return {name_of_wait(wait_s): Point(wait_s=wait_s, **changes) for wait_s in waits}


def _over_rates(
    title: str,
    lines: Mapping[str, Callable[[float], Drawn]],
    y_label: str = PERCENT,
    loads: tuple[float, ...] = GLOBAL_LOADS,
) -> Panel:
    """Chart functions of the global load over the arrival rate of global jobs."""
    panel = Panel.over(title, loads, lines, "global jobs a second", y_label)
    return replace(panel, x=tuple(Point(global_load=load).global_rate for load in loads))


def _waits_over_rates(title: str, metric: str, y_label: str, policy: str = "GP") -> Panel:
    """Chart one metric of each Wait-X over the arrival rate of global jobs."""
    points = _by_wait(WAITS, policy=policy)
    lines = {name: _at(metric, point, "global_load") for name, point in points.items()}
    return _over_rates(title, lines, y_label)


def _less_over_rates(
    metric: str, policy: str, other_s: float, loads: tuple[float, ...] = GLOBAL_LOADS
) -> Panel:
    """Chart what a metric under Wait-1000 and Wait-∞ exceeds that under another Wait-X by."""
    other = Point(policy=policy, wait_s=other_s)
    lines = {
        name: _less(metric, point, other, "global_load")
        for name, point in _by_wait(LONG, policy=policy).items()
    }
    return _over_rates(f"{policy}, less {name_of_wait(other_s)}, paired", lines, POINTS, loads)


def _influence_of_fraction(number: int, word: str, local_load: float) -> Figure:
    """Chart metrics over Lp, and what the success exceeds that with Lp = 1 by."""
    points = _by_load(local_load)
    panels = [
        Panel.over(
            WORDS[metric],
            FRACTIONS,
            {name: _at(metric, point, "fraction") for name, point in points.items()},
            "Lp",
            PERCENT,
        )
        for metric in ("success_rate", "total_load", "wasted")
    ]
    gains = {name: _over_one(point) for name, point in points.items()}
    title = "success less that with Lp 1, paired"
    panels.append(Panel.over(title, FRACTIONS[:-1], gains, "Lp", POINTS))
    return Figure(number, f"The influence of Lp with a {word} local load", tuple(panels))


def _over_one(point: Point) -> Callable[[float], Difference]:
    success = _at("success_rate", point, "fraction")
    return lambda part: Difference(success(part), success(1.0))


def _over_leads(title: str, base: Point) -> Panel:
    lines = {
        name_of_wait(wait_s): _at("success_rate", replace(base, wait_s=wait_s), "lead_s")
        for wait_s in (10.0, inf)
    }
    return Panel.over(title, LEADS_S, lines, LEAD, SUCCESS)


def _gain_over_leads(local_load: float) -> Panel:
    """Chart what Wait-10 gains over Wait-∞, for both global loads."""
    tens, pures = _by_load(local_load, wait_s=10.0), _by_load(local_load, wait_s=inf)
    lines = {name: _less("success_rate", tens[name], pures[name], "lead_s") for name in tens}
    return Panel.over(PAIRED, LEADS_S, lines, LEAD, POINTS)


def _over_own_leads(title: str, base: Point) -> Panel:
    """Chart the success of jobs by their own lead, where all leads are mixed."""

    def line(wait_s: float) -> Callable[[float], Quantity]:
        watched = Watched(replace(base, wait_s=wait_s))
        return lambda high_s: Quantity(watched, f"success.lead.{high_s:g}")

    lines = {name_of_wait(wait_s): line(wait_s) for wait_s in (10.0, inf)}
    leads = [high_s for _, high_s in LEAD_BINS_S]
    return Panel.over(title, leads, lines, "own lead of a job, up to so many seconds", SUCCESS)


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


def _at_rate(wait_s: float) -> Callable[[float], Quantity]:
    """Return the success by the arrival rate of local jobs."""
    return lambda rate: Quantity(point_of_rate(rate, Point(wait_s=wait_s)), "success_rate")


TEN, PURE = _at_rate(10.0), _at_rate(inf)
RATE = "local jobs a second and cluster"
OVER_LOCAL_RATES = Panel.over(
    "GP", LOCAL_RATES, {name_of_wait(10.0): TEN, name_of_wait(inf): PURE}, RATE, SUCCESS
)
GAIN_OVER_LOCAL_RATES = Panel.over(
    PAIRED, LOCAL_RATES, {"success": lambda rate: Difference(TEN(rate), PURE(rate))}, RATE, POINTS
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
                _over_rates(
                    "GP, Wait-∞, Lp 0.7",
                    {WORDS[one]: _at(one, Point(), "global_load") for one in METRICS},
                ),
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
            *(_less_over_rates("success_rate", one, 0.0) for one in ("GP", "LP")),
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
            _less_over_rates("local_kill_rate", "GP", 10.0, TESTED),
        ),
    ),
)
