"""Quantities that claims and figures of the deadlines paper use; loads and comparisons of its
claims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf

from koala.core.model.values import Seconds
from koala.lab.papers.comparisons import higher, shown
from koala.lab.papers.deadlines.points import (
    LEVELS,
    Beginning,
    LoadLevel,
    Point,
    ReadLevel,
    at,
    name_of_wait,
)
from koala.lab.papers.paper import Comparison, Found, Test, listed
from koala.lab.sim.runs import Level, Quantity

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


# Claims.

GP, LP = Point(policy="GP"), Point(policy="LP")
WAIT_10 = Point(wait_s=10.0)
PURE = Point(wait_s=inf)
Phrase = Callable[[LoadLevel], Found]
"""Makes the comparisons at a requested load."""


def everywhere(test: Phrase) -> Test:
    """Test at both local loads."""

    def at_level(level: Level) -> Found:
        if isinstance(level, ReadLevel):
            return [
                replace(one, where=_where(at, one))
                for at in level.levels
                for one in listed(test(at))
            ]
        return test(level) if isinstance(level, LoadLevel) else ()

    return at_level


def _where(level: LoadLevel, one: Comparison) -> str:
    return f"{level}, {one.where}" if one.where else str(level)


def same_loads(reading: ReadLevel) -> tuple[Level, ...]:
    """Return the levels with the loads of a reading, at which the paper is read as usual."""
    names = {loads.name for loads in reading.levels}
    return tuple(level for level in LEVELS if level.name in names)


def low(test: Phrase) -> Test:
    """Test at the low local load: the sentence speaks of no other."""
    return everywhere(lambda level: test(level) if level.is_low else ())


def high(test: Phrase) -> Test:
    """Test at the high local load: the sentence speaks of no other."""
    return everywhere(lambda level: () if level.is_low else test(level))


def first_better(level: LoadLevel, fraction: float) -> Comparison:
    """Test that, from an empty grid on, the first jobs have more success than later ones."""
    beginning = Beginning(replace(at(level), fraction=fraction))
    return higher(
        Quantity(beginning, "success.first", f"success of the first 5, Lp {fraction:g}"),
        Quantity(beginning, "success.later", "of those after the 20th"),
    )


def fuller_later(level: LoadLevel, fraction: float) -> Comparison:
    """Test that the grid fills up by more than under Lp 1, where nothing waits."""
    early, late = (Beginning(replace(at(level), fraction=one)) for one in (fraction, 1.0))
    return shown(
        f"load rises from the first 20 minutes to later by more under Lp {fraction:g} than Lp 1",
        lambda first, later, other_first, other_later: later - first - (other_later - other_first),
        Quantity(early, "load.first", f"first, Lp {fraction:g}"),
        Quantity(early, "load.later", f"later, Lp {fraction:g}"),
        Quantity(late, "load.first", "first, Lp 1"),
        Quantity(late, "load.later", "later, Lp 1"),
    )


def scarcer_later(level: LoadLevel, fraction: float) -> Comparison:
    """Test that ever more processors are missing at a deadline, even after local jobs are
    killed."""
    early, late = (Beginning(replace(at(level), fraction=one)) for one in (fraction, 1.0))
    return shown(
        f"held or used by global jobs, later: more under Lp {fraction:g} than under Lp 1",
        lambda later, other: later - other,
        Quantity(early, "taken.later", f"Lp {fraction:g}"),
        Quantity(late, "taken.later", "Lp 1"),
    )


def both(level: LoadLevel) -> tuple[Point, Point]:
    """Test where the paper compares policies."""
    return at(level, GP), at(level, LP)
