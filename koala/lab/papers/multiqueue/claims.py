"""Claims of the multiple-queues paper: how their tests, written in `sentences.toml`, are read, and
the tests that are not written there.

    figures = [3]
    charts = [0, 7]             # of these charts of the figures alone, counted from 0
    ever = true                 # past saturation, too
    test = ["lower: total LS-DO, total GS", "each close: queue1 BOTH, queue4 BOTH"]

A phrase there is a kind of response time (`KINDS`) and a policy. With `cases` a test compares these
mixes, each at the same utilisation; a third word in a phrase is the place of its mix:

    cases = ["50,0,0,50", "90,0,0,10"]
    of = [7, 5]                 # their charts in these figures: first all cases in 7, then in 5;
    load = "one"                # at one utilisation, which all bear, or each at its "own"
    test = ["ratio_higher: local EQ-GF/EQ-LF 1, local LP-GF/LP-LF 3"]

Tests that compare lengths of runs, or depend on what a chart shows, are below.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import isinf
from pathlib import Path

from koala.lab.papers.comparisons import (
    MUCH,
    all_close,
    at_most,
    formula,
    higher_by,
    lower,
    lowest,
    ratio_higher,
    shown,
)
from koala.lab.papers.multiqueue.charts import (
    BELOW,
    BEYOND,
    BOTH,
    EIGHTY,
    EQ,
    EVER,
    FIGURES_9_TO_14,
    HALF_FOUR,
    HALF_TWO,
    LP,
    LS,
    NEAR,
    SINGLE,
    SIX,
    Chart,
    View,
    across,
    at_one_load,
    between,
    charts_of,
    each,
    maximum,
    rounded,
)
from koala.lab.papers.multiqueue.points import Case, Point
from koala.lab.papers.paper import Comparison, Found, Test
from koala.lab.papers.sentences import Row, read_sentences
from koala.lab.papers.written_tests import compared
from koala.lab.sim.runs import Level, Quantity

# 2.5: starvation and ageing.

OVERLOAD = 1.10
"""Overload, as a multiple of a policy's maximum, that shows which jobs it starves."""

AGEING = 10.0
"""Time that a head waits until it is moved forward, in mean service times."""

SHORT = 0.5


def overloaded(policy: str, case: Case, *, ageing: float | None = None) -> Point:
    """Return a policy at a load above its capacity."""
    utilization = rounded(OVERLOAD * maximum(case, policy))
    return Point(policy=policy, case=case, utilization=utilization, ageing=ageing)


def delay(point: Point, kind: str) -> Quantity:
    """Return the delay measured in a run of this length, finite even where no mean exists."""
    words = [point.policy, kind]
    if point.length != 1:
        words.append(f"in {point.length:g} of the run")
    if point.ageing is not None:
        words.append("with ageing")
    return Quantity(point, f"delay.{kind}", " ".join(words))


def starves(policy: str, case: Case, starved: str, served: str) -> Test:
    """Test that in a run of twice the length the starved jobs wait much longer, the served ones do
    not."""
    whole = overloaded(policy, case)
    half = replace(whole, length=SHORT)

    def test(level: Level) -> Iterator[Comparison]:
        if level == NEAR:
            for one in (
                *higher_by(MUCH, delay(whole, starved), delay(half, starved)),
                at_most(delay(whole, served), delay(half, served), above=MUCH),
            ):
                yield replace(one, where=f"{case} at {whole.utilization:.3f}")

    return test


def ageing_helps(*starving: tuple[str, Case, str]) -> Test:
    """Test that the starved jobs wait much less with ageing."""

    def test(level: Level) -> Iterator[Comparison]:
        if level == NEAR:
            for policy, case, starved in starving:
                plain, aged = (overloaded(policy, case, ageing=a) for a in (None, AGEING))
                for one in higher_by(MUCH, delay(plain, starved), delay(aged, starved)):
                    yield replace(one, where=f"{case} at {plain.utilization:.3f}")

    return test


# 3.1: versions of a policy.

FIGURE_3 = charts_of(3)

FIGURE_3_SINGLE_TOO = tuple(chart for chart in FIGURE_3 if chart.case.mix[0])
ONLY_SINGLE = (Chart(case=SINGLE, policies=("LS-DO",), figure=3),)
# 3.2: policies.


def more_different(one: View, other: View) -> Comparison:
    """Test that the worst policy exceeds the best by a larger factor in one chart than in the
    other."""
    text = f"worst / best: {one.chart.case} > {other.chart.case}"
    contrast = "max(one) / min(one) - max(other) / min(other)"
    return formula(text, contrast, *one.totals(SIX), *other.totals(SIX))


SECOND = (0.900, 0.905, 0.910, 0.915, 0.920)
"""Utilisations that may be that of the second chart of figure 9: around the maxima of all policies
but LS."""


def somewhere_saturated(at: View) -> Comparison:
    """Test that there is a load at which GS and LQ have no mean because of saturation, and LS, LP
    and EQ have one."""
    views = [replace(at, utilization=load) for load in SECOND]
    full, free = ("GS", "LQ"), ("LS-DO", "LP-GF", "EQ-GF")
    count = len(full) + len(free)

    def contrast(*values: float) -> float:
        loads = zip(*[iter(values)] * count, strict=True)
        return 1.0 if any(_tells_apart(one, len(full)) for one in loads) else -1.0

    return shown(
        f"at one load {' and '.join(full)} are saturated, {', '.join(free)} are not",
        contrast,
        *(
            replace(total, name=f"{total} at {view.utilization:.3f}")
            for view in views
            for total in view.totals((*full, *free))
        ),
    )


def _tells_apart(totals: Sequence[float], full: int) -> bool:
    """Return True if the first so many totals have no mean and the others have one."""
    return all(map(isinf, totals[:full])) and not any(map(isinf, totals[full:]))


# 3.3 and 4: local against global queues.


def even_lengths(at: View, one: str, other: str) -> Comparison:
    """Test that the mean numbers of waiting jobs in the global and in a local queue differ less
    with one."""
    multi = at.chart.case.multi
    single = (1 - multi) / 4

    def gap(common: float, local: float) -> float:
        return abs(multi * (common - 1) - single * (local - 1))

    return shown(
        f"gap of mean lengths, global to local: {one} < {other}",
        lambda a, b, c, d: gap(c, d) - gap(a, b),
        *(at.common(one), at.local(one), at.common(other), at.local(other)),
    )


def reacts_more(fewer: View, more: View, other: str) -> Comparison:
    """Test that local jobs react more to the components of global jobs under LQ than under the
    other."""
    text = f"change of the local response with the components of global jobs: LQ > {other}"
    contrast = "max(a / b, b / a) - max(c / d, d / c)"
    return formula(text, contrast, *(at.local(p) for p in ("LQ", other) for at in (fewer, more)))


def first(at: View) -> tuple[str, str]:
    """Return the versions of the chart's policy that enable the global queue first, and the local
    ones."""
    policy = at.chart.policies[0].split("-")[0]
    return f"{policy}-GF", f"{policy}-LF"


def global_first_is_better(at: View) -> Comparison:
    """Test that GF has the lower total."""
    return lower(*at.totals(first(at)))


def global_first_costs_little(at: View) -> Iterator[Comparison]:
    """Test that GF has the lower total at little cost to local jobs."""
    yield global_first_is_better(at)
    yield at_most(*map(at.local, first(at)))


def loses_more(at: View) -> Iterator[Comparison]:
    """Test that LP-LF loses a larger share in the total, and in the global queue, than local jobs
    gain."""
    for name in (View.total, View.common):
        yield ratio_higher(
            (name(at, "LP-LF"), name(at, "LP-GF")), (at.local("LP-GF"), at.local("LP-LF"))
        )


TESTS: dict[str, Test] = {
    "2.5-3": starves("GP", HALF_FOUR, "local", "global"),
    "2.5-4": starves("LP-LF", EIGHTY, "global", "local"),
    "2.5-5": ageing_helps(("GP", HALF_FOUR, "local"), ("LP-LF", EIGHTY, "global")),
    "3.1.1-1": each(
        ONLY_SINGLE,
        lambda at: all_close(at.total("LS-OR"), at.totals(LS[1:]), within=0.01),
    ),
    "3.1.1-13": each(
        FIGURE_3_SINGLE_TOO,
        lambda at: (
            lower(at.of("LS-RO", "single"), at.of(other, "single")) for other in ("LS-RD", "LS-DO")
        ),
    ),
    "3.2.1-9": each(charts_of(9), somewhere_saturated, levels=(BEYOND,)),
    "3.2.1-19": between(
        charts_of(10, 11, 12),
        lambda ten, *others: (more_different(ten, other) for other in others),
    ),
    "3.2.1-20": between(
        charts_of(9, 11, 12),
        lambda nine, *others: (more_different(nine, other) for other in others),
    ),
    "3.3-10": each(
        FIGURES_9_TO_14,
        lambda at: (even_lengths(at, "LQ", other) for other in ("GP", "LP-GF", "EQ-GF")),
    ),
    "3.3-12": across(
        (HALF_TWO, HALF_FOUR),
        lambda two, four: (reacts_more(two, four, other) for other in ("EQ-GF", "GP", "LP-GF")),
    ),
    "3.3-20": each(charts_of(5, 6, 7, 8), global_first_is_better),
    "3.3-21": each(charts_of(5, 6, 7, 8), global_first_costs_little),
    "4-3": each(
        charts_of(6, 8),
        lambda at: lowest(at.total(first(at)[1]), at.totals(at.chart.policies)),
    ),
    "4-8": each(charts_of(5), loses_more),
}


# Tests that are written beside their sentences.

GROUPS = {
    "SIX": SIX,
    "LS": LS,
    "LP": LP,
    "EQ": EQ,
    "BOTH": BOTH,
    "NOT_LP_OR_EQ": ("GS", "LS-DO", "GP", "LQ"),
    "QUEUES": ("queue1", "queue2", "queue3", "queue4"),
    "REST": ("queue2", "queue3", "queue4"),
}


def matters(totals: Iterable[Quantity]) -> Comparison:
    """Test that the order of visiting makes a difference of MUCH between the worst and the best
    version."""
    of = tuple(totals)
    text = f"worst of {', '.join(map(str, of))} > {1 + MUCH:g} × best"
    return formula(text, "max(*one, *other) - (1 + MUCH) * min(*one, *other)", *of)


def more_uneven(one: tuple[Quantity, ...], other: tuple[Quantity, ...]) -> Comparison:
    """Test that the queues' mean response times lie farther apart in one than in the other."""
    names = [str(queues[0]).removesuffix(" queue 1") for queues in (one, other)]
    text = f"range of the queues' means: {names[0]} > {names[1]}"
    contrast = "(max(one) - min(one)) - (max(other) - min(other))"
    return formula(text, contrast, *one, *other)


OWN = {"matters": matters, "more_uneven": more_uneven}


def _quantity(at: View, words: Sequence[str]) -> Quantity:
    kind, policy = words[:2]
    return at.of(policy, kind)


def _test_of(row: Row, test: Test | None) -> Test:
    if test is not None:
        return test
    if "cases" in row:
        return _test_of_cases(row)
    charts = charts_of(*row["figures"])
    if "charts" in row:
        begin, end = row["charts"]
        charts = charts[begin:end]

    def phrase(at: View) -> Found:
        return compared(row["test"], partial(_quantity, at), GROUPS, OWN)

    return each(charts, phrase, levels=EVER if row.get("ever") else BELOW)


def _test_of_cases(row: Row) -> Test:
    """Make a test that compares several cases."""

    def phrase(*views: View) -> Found:
        def quantity(words: Sequence[str]) -> Quantity:
            return _quantity(views[int(words[2]) - 1], words)

        return compared(row["test"], quantity, GROUPS, OWN)

    mixes = (tuple(map(int, text.split(","))) for text in row["cases"])
    cases = tuple(Case(mix=(one, two, three, four)) for one, two, three, four in mixes)
    if "of" not in row:
        return across(cases, phrase)
    charts = charts_of(*row["of"], cases=cases)
    return (at_one_load if row["load"] == "one" else between)(charts, phrase)


SENTENCES = read_sentences(Path(__file__).parent, TESTS, _test_of)
