"""Claims of the synchronous-queuing paper: how their tests, written in `sentences.toml`, are read,
and the tests that are not written there.

A phrase there is a scheme and a metric, with `at=10` for tasks that come every 10 s. `test` is made
at each number of machines and interarrival time of a level (`every` are those that the sentence
speaks of); `across` compares interarrival times, once: at the level of the sparse tasks; `once`
has values that no load and no reading changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from koala.core.model.values import Seconds
from koala.lab.papers.comparisons import ascending, exact, higher, lower, shown
from koala.lab.papers.paper import Comparison, Found, Test, listed
from koala.lab.papers.sentences import Row, read_sentences
from koala.lab.papers.synchronous.points import (
    DENSE_S,
    LEVELS,
    OVERLOADED,
    SCHEMES,
    SPARSE_S,
    SWEEP_S,
    Point,
    ReadLevel,
)
from koala.lab.papers.written_tests import compared
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
    """Test for each number of machines and each interarrival time of a level."""

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


def _quantity(level: ReadLevel, machines: int, at_s: Seconds, words: Sequence[str]) -> Quantity:
    scheme, metric, *rest = words
    if scheme == "exact":
        return exact(metric, *rest)
    return of(level, scheme, metric, machines, float(rest[0].removeprefix("at=")) if rest else at_s)


def _test_of(row: Row, test: Test | None) -> Test:
    if test is not None:
        return test

    def phrase(level: ReadLevel, machines: int, at_s: Seconds = SPARSE_S) -> Found:
        return compared(lines, partial(_quantity, level, machines, at_s), {})

    if "once" in row:
        lines = row["once"]
        found = listed(phrase(OVERLOADED, 0))
        return lambda level: found if level == OVERLOADED else ()
    if "across" in row:
        lines = row["across"]
        return across(phrase)
    lines = row["test"]
    return each(phrase, *row.get("every", ()))


def _harder(level: ReadLevel, machines: int, at_s: Seconds) -> Found:
    first, *_, last = level.machines
    few, many = (of(level, "QoS", "skew_eq2", count, at_s) for count in (first, last))
    return lower(few, many) if machines == first else ()


def _dissipated(level: ReadLevel, machines: int, at_s: Seconds) -> Found:
    counts = level.machines
    ratios = (of(level, "QoS", "acceptance_ratio", count, at_s) for count in counts)
    return ascending(*ratios) if machines == counts[0] else ()


def _over_table_2(scheme: str) -> Test:
    """Compare all interarrival times of table 2, for each number of machines; not under other
    readings, which have no runs at 100 and 200 s."""
    test = across(
        lambda level, machines: ascending(
            *(of(level, scheme, "skew_eq2", machines, at_s) for at_s in SWEEP_S)
        )
    )
    return lambda level: test(level) if level in LEVELS else ()


def _falls_less(metric: str) -> Test:
    """Compare how much a metric falls from dense to sparse tasks, under both schemes."""
    return across(
        lambda level, machines: shown(
            f"{metric} falls by more under QoS than under SQ, {machines} machines",
            lambda sq, sq_sparse, qos, qos_sparse: (qos - qos_sparse) - (sq - sq_sparse),
            *(
                of(level, scheme, metric, machines, at)
                for scheme in SCHEMES
                for at in (DENSE_S, SPARSE_S)
            ),
        )
    )


def _subscribed(level: ReadLevel, machines: int, at_s: Seconds) -> Comparison:
    strict = replace(level, reading=replace(level.reading, beta=0.0))
    more, less = (of(one, "SQ", "acceptance_ratio", machines, at_s) for one in (level, strict))
    return higher(more, Quantity(less.setting, less.metric, f"{less} without over-subscription"))


TESTS = {
    "5.1-1": each(_harder),
    "5.3-3": each(_dissipated, DENSE_S),
    "5.4-2e": _over_table_2("QoS"),
    "5.4-3e": _over_table_2("SQ"),
    "5.4-8c": _falls_less("qos_conformance"),
    "5.4-8f": _falls_less("conforming_tasks"),
    "5.4-8i": _falls_less("conforming_tasks.several"),
    "5.4-9c": _falls_less("effective_cycles"),
    "5.4-9f": _falls_less("synchronous_tasks"),
    "5.4-9i": _falls_less("synchronous_tasks.several"),
    "7-1": each(_subscribed, DENSE_S),
}
SENTENCES = read_sentences(Path(__file__).parent, TESTS, _test_of)
