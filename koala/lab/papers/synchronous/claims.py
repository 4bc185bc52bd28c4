"""Claims of the synchronous-queuing paper: its examples and mechanism (4), its results (5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from koala.core.model.values import Seconds
from koala.lab.papers.comparisons import (
    MUCH,
    above,
    ascending,
    below,
    equal,
    exact,
    higher,
    higher_by,
    lower,
    lower_by,
    share_higher_by,
    shown,
)
from koala.lab.papers.paper import Comparison, Found, Test
from koala.lab.papers.sentences import read_sentences
from koala.lab.papers.synchronous.points import (
    DENSE_S,
    LEVELS,
    SCHEMES,
    SPARSE_S,
    SWEEP_S,
    ReadLevel,
)
from koala.lab.papers.synchronous.quantities import across, each, of, once, without_oversubscription
from koala.lab.sim.runs import Quantity

MECHANISM = {
    "4.1-1": once(equal(exact("table_1", "largest difference from table 1, s"), 0.0)),
    "4.2.2-1": once(equal(exact("weight", "weight of the subtask"), 0.125)),
    "4.4-1": once(
        equal(exact("local_share", "share of local jobs"), 0.4, within=0.001),
        equal(exact("qos_share", "share of QoS tasks"), 0.4, within=0.001),
        equal(exact("best_effort_share", "share of best-effort tasks"), 0.2, within=0.001),
    ),
    "4.4-2": once(equal(exact("moved", "quanta gained by another subtask"), 0.0, within=1.5)),
    "5.3-1": once(
        equal(exact("first_of_table_2", "first load of table 2"), 7.5),
        above(exact("least_overload", "least load every 10 s"), 1.0),
        below(exact("most_underload", "largest load every 100 to 500 s"), 1.0),
    ),
    "5.3-2": once(equal(exact("slowdown", "mean slowdown over 100/35"), 1.0, within=0.1)),
}

# 5.1 and 5.3: the number of machines.


def _harder(level: ReadLevel, machines: int, at_s: Seconds) -> Found:
    first, *_, last = level.machines
    one, other = (of(level, "QoS", "skew_eq2", count, at_s) for count in (first, last))
    return lower(one, other) if machines == first else ()


def _dissipated(level: ReadLevel, machines: int, at_s: Seconds) -> Found:
    counts = level.machines
    ratios = (of(level, "QoS", "acceptance_ratio", count, at_s) for count in counts)
    return ascending(*ratios) if machines == counts[0] else ()


NUMBERS = {
    "5.1-1": each(_harder),
    "5.3-3": each(_dissipated, DENSE_S),
}

# 5.4: SQ against strict admission control.


Make = Callable[[Quantity, Quantity], Found]


def sq_and_qos(metric: str, make: Make, *only_s: Seconds) -> Test:
    """Compare SQ with strict admission control."""

    def phrase(level: ReadLevel, machines: int, at_s: Seconds) -> Found:
        return make(*(of(level, scheme, metric, machines, at_s) for scheme in SCHEMES))

    return each(phrase, *only_s)


def dense_and_sparse(metric: str, make: Make, *schemes: str) -> Test:
    """Compare tasks that come every 10 s with those every 500 s, under each of the schemes."""

    def phrase(level: ReadLevel, machines: int) -> Iterator[Found]:
        for scheme in schemes:
            yield make(*(of(level, scheme, metric, machines, at) for at in (DENSE_S, SPARSE_S)))

    return across(phrase)


def much_lower(one: Quantity, other: Quantity) -> Found:
    """Test that one is much lower."""
    return lower_by(MUCH, one, other)


def much_higher(one: Quantity, other: Quantity) -> Found:
    """Test that one is much higher."""
    return higher_by(MUCH, one, other)


def much_closer_to_one(one: Quantity, other: Quantity) -> Found:
    """Test that one share is much higher: it lacks much less of the whole."""
    return share_higher_by(MUCH, one, other)


def rises(dense: Quantity, sparse: Quantity) -> Comparison:
    """Test that it is higher when tasks come less often."""
    return higher(sparse, dense)


def falls(dense: Quantity, sparse: Quantity) -> Comparison:
    """Test that it is lower when tasks come less often."""
    return lower(sparse, dense)


def _skew(metric: str, suffix: str) -> dict[str, Test]:
    return {
        f"5.4-1{suffix}": sq_and_qos(metric, much_lower),
        f"5.4-2{suffix}": dense_and_sparse(metric, lower, "QoS"),
        f"5.4-3{suffix}": dense_and_sparse(metric, lower, "SQ"),
    }


def _over_table_2(metric: str, scheme: str) -> Test:
    """Compare all interarrival times of table 2, for each number of machines; not under other
    readings, which have no runs at 100 and 200 s."""
    test = across(
        lambda level, machines: ascending(
            *(of(level, scheme, metric, machines, at_s) for at_s in SWEEP_S)
        )
    )
    return lambda level: test(level) if level in LEVELS else ()


def _falls_less(metric: str, level: ReadLevel, machines: int) -> Comparison:
    return shown(
        f"{metric} falls by more under QoS than under SQ, {machines} machines",
        lambda sq, sq_sparse, qos, qos_sparse: (qos - qos_sparse) - (sq - sq_sparse),
        *(of(level, one, metric, machines, at) for one in SCHEMES for at in (DENSE_S, SPARSE_S)),
    )


def _quality(number: int, metric: str, suffixes: str = "abc") -> dict[str, Test]:
    much, falls_at_all, falls_by_more = (f"5.4-{number}{one}" for one in suffixes)
    return {
        much: sq_and_qos(metric, much_closer_to_one),
        falls_at_all: dense_and_sparse(metric, falls, *SCHEMES),
        falls_by_more: across(lambda level, machines: _falls_less(metric, level, machines)),
    }


def _subscribed(level: ReadLevel, machines: int, at_s: Seconds) -> Comparison:
    strict = without_oversubscription(level)
    more, less = (of(one, "SQ", "acceptance_ratio", machines, at_s) for one in (level, strict))
    return higher(more, Quantity(less.setting, less.metric, f"{less} without over-subscription"))


RESULTS = {
    **_skew("skew_eq2", "a"),
    **_skew("skew_finish", "b"),
    **_skew("skew_eq2.several", "c"),
    **_skew("skew_finish.several", "d"),
    "5.4-2e": _over_table_2("skew_eq2", "QoS"),
    "5.4-3e": _over_table_2("skew_eq2", "SQ"),
    "5.4-4": dense_and_sparse("rate", much_higher, *SCHEMES),
    "5.4-5": dense_and_sparse("ahead", rises, "QoS"),
    "5.4-6": dense_and_sparse("corrections", rises, "SQ"),
    **_quality(8, "qos_conformance"),
    **_quality(8, "conforming_tasks", "def"),
    **_quality(8, "conforming_tasks.several", "ghi"),
    **_quality(9, "effective_cycles"),
    **_quality(9, "synchronous_tasks", "def"),
    **_quality(9, "synchronous_tasks.several", "ghi"),
    "5.4-10a": sq_and_qos("acceptance_ratio", higher, DENSE_S),
    "5.4-10b": sq_and_qos("acceptance_ratio", lower, SPARSE_S),
    "5.4-10c": sq_and_qos("stay", higher, SPARSE_S),
    "7-1": each(_subscribed, DENSE_S),
}

SENTENCES = read_sentences(Path(__file__).parent, {**MECHANISM, **NUMBERS, **RESULTS})
