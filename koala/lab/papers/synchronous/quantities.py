"""Quantities of the synchronous-queuing paper, and the conditions of its comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from koala.core.model.values import Seconds
from koala.lab.papers.paper import Comparison, Found, Test, listed
from koala.lab.papers.synchronous.points import OVERLOADED, SPARSE_S, Point, ReadLevel
from koala.lab.sim.runs import Level, Quantity

WORDS = {
    "acceptance_ratio": "acceptance ratio",
    "conforming_tasks": "conforming tasks",
    "effective_cycles": "effective cycles",
    "qos_conformance": "QoS conformance",
    "skew_eq2": "skew by eq. (2)",
    "skew_finish": "skew of finish times",
    "synchronous_tasks": "synchronous tasks",
}


def of(level: ReadLevel, scheme: str, metric: str, machines: int, at_s: Seconds) -> Quantity:
    """Return a metric of a scheme."""
    point = Point(scheme=scheme, machines=machines, interarrival_s=at_s, reading=level.reading)
    measure, _, kind = metric.partition(".")
    told = f"{WORDS.get(measure, measure)}{f' ({kind})' if kind else ''}"
    return Quantity(point, metric, f"{told} of {scheme}, {machines} machines, every {at_s:g} s")


Phrase = Callable[[ReadLevel, int, Seconds], Found]
"""Makes the comparisons with a number of machines and an interarrival time."""


def each(phrase: Phrase, *only_s: Seconds) -> Test:
    """Test for each number of machines and each interarrival time of a level; `only_s` are those
    that the sentence speaks of."""

    def test(level: Level) -> Iterator[Comparison]:
        assert isinstance(level, ReadLevel), level
        for at_s in level.interarrivals_s:
            for machines in level.machines:
                if not only_s or at_s in only_s:
                    yield from listed(phrase(level, machines, at_s))

    return test


def across(phrase: Callable[[ReadLevel, int], Found]) -> Test:
    """Compare interarrival times, for each number of machines: once, at the level of the sparse
    ones, and under each reading."""

    def test(level: Level) -> Iterator[Comparison]:
        assert isinstance(level, ReadLevel), level
        if SPARSE_S in level.interarrivals_s:
            for machines in level.machines:
                yield from listed(phrase(level, machines))

    return test


def once(*comparisons: Comparison) -> Test:
    """Test once: no load and no reading matters."""
    return lambda level: comparisons if level == OVERLOADED else ()


def without_oversubscription(level: ReadLevel) -> ReadLevel:
    """Return the setting without oversubscription (beta 0)."""
    return replace(level, reading=replace(level.reading, beta=0.0))
