"""Claims about the pure Repeated Placement Policy and its Lp (Deadlines 3.2)."""

from __future__ import annotations

from dataclasses import replace

from koala.lab.papers.comparisons import (
    all_higher,
    ascending,
    at_most,
    higher,
    highest,
    lower,
    slightly_lower,
)
from koala.lab.papers.deadlines.points import FRACTIONS, Beginning, LoadLevel, at
from koala.lab.papers.deadlines.quantities import (
    Phrase,
    by_fraction,
    everywhere,
    first_better,
    fuller_later,
    high,
    low,
)
from koala.lab.papers.paper import Comparison, Found
from koala.lab.sim.runs import Quantity


def _success(level: LoadLevel, *fractions: float) -> tuple[Quantity, ...]:
    return by_fraction(at(level), "success_rate", *fractions)


def _more_with_lower(metric: str) -> Phrase:
    return lambda level: ascending(*by_fraction(at(level), metric, *reversed(FRACTIONS)))


def _lower_is_worse(level: LoadLevel) -> Found:
    return all_higher(_success(level, 0.5, 0.9), _success(level, 0.1))


def _one_is_best(level: LoadLevel) -> Found:
    *others, one = _success(level, *FRACTIONS)
    return highest(one, others)


def _one_is_best_or_close(level: LoadLevel) -> Found:
    if not level.is_both_high:
        return _one_is_best(level)
    *others, one = _success(level, *FRACTIONS)
    return [at_most(other, one) for other in others]


def _earlier_is_surer(level: LoadLevel) -> Comparison:
    early, late = (Beginning(replace(at(level), fraction=one)) for one in (0.1, 1.0))
    return higher(
        Quantity(early, "success.first", "success of the first 5, Lp 0.1"),
        Quantity(late, "success.first", "Lp 1"),
    )


def _little_less(level: LoadLevel) -> Found:
    return slightly_lower(*_success(level, 1.0, 0.9)) if level.is_both_high else ()


def _because_full(level: LoadLevel) -> Comparison:
    return (lower if level.is_both_high else higher)(*_success(level, 1.0, 0.9))


RPP = {
    "3.2-1": low(_lower_is_worse),
    "3.2-2": everywhere(_more_with_lower("wasted")),
    "3.2-3": low(_earlier_is_surer),
    "3.2-4": low(lambda level: first_better(level, 0.1)),
    "3.2-5": low(lambda level: fuller_later(level, 0.1)),
    "3.2-6": low(_more_with_lower("total_load")),
    "3.2-7": low(_one_is_best),
    "3.2-8": high(_lower_is_worse),
    "3.2-9": high(_little_less),
    "3.2-10": high(_because_full),
    "3.2-11": everywhere(_one_is_best_or_close),
}
