"""Names of the quantities that claims and figures of the deadlines paper use."""

from __future__ import annotations

from dataclasses import replace

from koala.core.model.values import Seconds
from koala.papers.claims import shown
from koala.papers.deadlines.points import Point, name_of_wait
from koala.papers.paper import Comparison, Quantity

WORDS = {
    "success_rate": "success",
    "fail_rate": "failed",
    "local_kill_rate": "killed",
    "killed_of_ended": "killed of those that ended",
    "total_load": "total load",
    "global_load": "global load",
    "local_load": "local load",
    "wasted": "wasted",
    "local_response": "local response",
    "measured_response": "local response",
}


def of(point: Point, metric: str, name: str) -> Quantity:
    """Return a metric at a point; `name` says how the point differs from others."""
    return Quantity(point, metric, f"{WORDS[metric]} {name}")


def wait(point: Point, metric: str, wait_s: Seconds) -> Quantity:
    """Return a metric under one Wait-X."""
    name = f"{point.policy} {name_of_wait(wait_s)}"
    return of(replace(point, wait_s=wait_s), metric, name)


def by_wait(point: Point, metric: str, *waits: Seconds) -> tuple[Quantity, ...]:
    """Return a metric under several Wait-X."""
    return tuple(wait(point, metric, wait_s) for wait_s in waits)


def fraction(point: Point, metric: str, part: float) -> Quantity:
    """Return a metric under one Lp."""
    return of(replace(point, fraction=part), metric, f"Lp {part:g}")


def by_fraction(point: Point, metric: str, *fractions: float) -> tuple[Quantity, ...]:
    """Return a metric under several Lp."""
    return tuple(fraction(point, metric, part) for part in fractions)


def lead(point: Point, metric: str, lead_s: Seconds) -> Quantity:
    """Return a metric with one time from submission to required start."""
    name = f"{name_of_wait(point.wait_s)}, lead {lead_s:g} s"
    return of(replace(point, lead_s=lead_s), metric, name)


def by_lead(point: Point, metric: str, *leads_s: Seconds) -> tuple[Quantity, ...]:
    """Return a metric with several times from submission to required start."""
    return tuple(lead(point, metric, lead_s) for lead_s in leads_s)


def none(one: Quantity) -> Comparison:
    """Test that a quantity is zero."""
    return shown(f"{one} = 0", lambda value: 1e-9 - value, one)


def near(one: Quantity, number: float, within: float, unit: str = "") -> Comparison:
    """Test that a quantity is within a tolerance of a number."""
    return shown(
        f"{one} = {number:g} ± {within:g} {unit}".rstrip(),
        lambda value: within - abs(value - number),
        one,
    )
