"""Tests that the claims of the deadlines paper share: load levels and recurring comparisons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf

from koala.papers.claims import higher, shown
from koala.papers.deadlines.points import HIGH_LEVELS, LOW_LEVELS, Beginning, LoadLevel, Point, at
from koala.papers.paper import Comparison, Found, Quantity, Test

GP, LP = Point(policy="GP"), Point(policy="LP")
WAIT_10 = Point(wait_s=10.0)
PURE = Point(wait_s=inf)
Phrase = Callable[[LoadLevel], Found]
"""Makes the comparisons at a requested load."""


def everywhere(test: Phrase) -> Test:
    """Test at both local loads."""
    return lambda level: test(level) if isinstance(level, LoadLevel) else ()


def low(test: Phrase) -> Test:
    """Test at the low local load: the sentence speaks of no other."""
    return everywhere(lambda level: test(level) if level in LOW_LEVELS else ())


def high(test: Phrase) -> Test:
    """Test at the high local load: the sentence speaks of no other."""
    return everywhere(lambda level: test(level) if level in HIGH_LEVELS else ())


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
