"""Tests that a sentence of the multiple-queues paper has written beside it, in `sentences.toml`.

    figures = [3]
    charts = [0, 7]             # of these charts of the figures alone, counted from 0
    ever = true                 # past saturation, too
    test = ["lower: total LS-DO, total GS", "higher_by: MUCH, local GP, common GP"]

A comparison is one of `COMPARISONS` and its quantities, each a kind of response time (`KINDS`) and
a policy. A kind in the plural stands for the quantities of several policies, which may be named
together (`GROUPS`); `queues LS-DO` are all four queues of a policy, `rest LS-DO` all but the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from koala.lab.papers import comparisons
from koala.lab.papers.comparisons import MUCH, close, same, shown
from koala.lab.papers.multiqueue.charts import (
    BELOW,
    BOTH,
    EQ,
    EVER,
    LP,
    LS,
    SIX,
    ChartTest,
    View,
    charts_of,
    each,
)
from koala.lab.papers.paper import Comparison, Found
from koala.lab.papers.sentences import Row
from koala.lab.sim.runs import Quantity

GROUPS = {
    "SIX": SIX,
    "LS": LS,
    "LP": LP,
    "EQ": EQ,
    "BOTH": BOTH,
    "NOT_LP_OR_EQ": ("GS", "LS-DO", "GP", "LQ"),
}
KINDS: dict[str, Callable[[View, str], Quantity]] = {
    "total": View.total,
    "local": View.local,
    "common": View.common,
    "single": View.single,
    "multi": View.multi,
    "large-single": lambda at, policy: at.large(policy, "single"),
    "large-multi": lambda at, policy: at.large(policy, "multi"),
    "queue1": lambda at, policy: at.queue(policy, 1),
    "queue4": lambda at, policy: at.queue(policy, 4),
    "reversal": View.reversed,
}
"""Response times: `common` is that of the global queue, `reversal` the local one when local queues
are visited in reverse."""


def written_test(row: Row) -> ChartTest:
    """Read the test of a sentence: its comparisons in the charts of its figures."""
    charts = charts_of(*row["figures"])
    if "charts" in row:
        begin, end = row["charts"]
        charts = charts[begin:end]
    texts: list[str] = row["test"]
    levels = EVER if row.get("ever") else BELOW
    return each(charts, lambda at: (_comparison(at, text) for text in texts), levels=levels)


def _comparison(at: View, text: str) -> Found:
    name, _, words = text.partition(": ")
    return COMPARISONS[name](*(_argument(at, word) for word in words.split(", ")))


def _argument(at: View, text: str) -> Any:  # noqa: ANN401 - a number, a quantity, or several
    """Read a number, or the quantities of one or of several policies."""
    if text in ("MUCH", "0"):
        return MUCH if text == "MUCH" else 0.0
    kind, *names = text.split()
    policies = [policy for name in names for policy in GROUPS.get(name, (name,))]
    if kind in KINDS:
        return KINDS[kind](at, *policies)
    if kind in ("queues", "rest"):
        return at.queues(*policies)[0 if kind == "queues" else 1 :]
    return [KINDS[kind.removesuffix("s")](at, policy) for policy in policies]


def matters(totals: Iterable[Quantity]) -> Comparison:
    """Test that the order of visiting makes a difference of MUCH between the worst and the best
    version."""
    of = tuple(totals)
    text = f"worst of {', '.join(map(str, of))} > {1 + MUCH:g} × best"
    return shown(text, lambda *values: max(values) - (1 + MUCH) * min(values), *of)


def more_uneven(one: tuple[Quantity, ...], other: tuple[Quantity, ...]) -> Comparison:
    """Test that the queues' mean response times lie farther apart in one than in the other."""
    count = len(one)

    def contrast(*values: float) -> float:
        first, second = values[:count], values[count:]
        return (max(first) - min(first)) - (max(second) - min(second))

    names = [str(queues[0]).removesuffix(" queue 1") for queues in (one, other)]
    return shown(f"range of the queues' means: {names[0]} > {names[1]}", contrast, *one, *other)


def alike(ones: Iterable[Quantity], other: Quantity) -> Iterator[Comparison]:
    """Test that these are equal to the other, within 1 %."""
    for one in ones:
        yield from close(one, other, within=0.01)


COMPARISONS: dict[str, Callable[..., Found]] = {
    "all_close": comparisons.all_close,
    "all_higher": comparisons.all_higher,
    "all_lower": comparisons.all_lower,
    "alike": alike,
    "ascending": lambda ones: comparisons.ascending(*ones),
    "at_most": comparisons.at_most,
    "at_most_much": lambda one, other: comparisons.at_most(one, other, above=MUCH),
    "bad": comparisons.bad,
    "best_of": comparisons.best_of,
    "close": comparisons.close,
    "good": comparisons.good,
    "higher": comparisons.higher,
    "higher_by": comparisons.higher_by,
    "highest": comparisons.highest,
    "highest_by": comparisons.highest_by,
    "lower": comparisons.lower,
    "lower_by": comparisons.lower_by,
    "lowest": comparisons.lowest,
    "matters": matters,
    "more_uneven": more_uneven,
    "not_highest": comparisons.not_highest,
    "pairs_close": lambda ones, others: map(close, ones, others),
    "pairs_same": lambda ones, others: map(same, ones, others),
    "slightly_lower": comparisons.slightly_lower,
}
"""Comparisons that a sentence may name; those of quantities in pairs compare the first of both, the
second of both, and so on."""
