"""Claims of the multiple-queues paper: how their tests, written in `sentences.toml`, are read, and
the tests that are not written there.

    figures = [3]
    charts = [0, 7]             # of these charts of the figures alone, counted from 0
    ever = true                 # past saturation, too
    test = ["lower: total LS-DO, total GS", "each close: queue1 BOTH, queue4 BOTH"]

A phrase there is a kind of response time (`KINDS`) and a policy. Tests that compare several mixes,
or lengths of runs, or depend on what a chart shows are below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import isinf
from pathlib import Path

from koala.lab.papers.comparisons import (
    MUCH,
    all_close,
    ascending,
    at_most,
    higher,
    higher_by,
    lower,
    lowest,
    ratio_higher,
    ratio_higher_by,
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
    FOUR,
    HALF_FOUR,
    HALF_TWO,
    HALF_TWO_THREE,
    LP,
    LS,
    MULTI_RISES,
    NEAR,
    NINETY,
    QUARTERS,
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
    rising,
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

COMPONENTS_RISE = (HALF_TWO, HALF_TWO_THREE, HALF_FOUR)
"""Cases with the same share of global jobs, and more and more components."""

FIGURE_3 = charts_of(3)

FIGURE_3_SINGLE_TOO = tuple(chart for chart in FIGURE_3 if chart.case.mix[0])
ONLY_SINGLE = (Chart(case=SINGLE, policies=("LS-DO",), figure=3),)
FEW_COMPONENTS = charts_of(7, 5, cases=(HALF_TWO,))


def local_rise(at: View, policy: str) -> tuple[Quantity, Quantity]:
    """Return the local response with GF and with LF, which it exceeds."""
    return at.local(f"{policy}-GF"), at.local(f"{policy}-LF")


def fewer_components_hurt_more(policy: str) -> Callable[[View, View, View], Iterator[Comparison]]:
    """Compare the rise of the local response from LF to GF: (50,50,0,0) over (50,25,25,0) over
    (50,0,0,50)."""

    def phrase(*views: View) -> Iterator[Comparison]:
        for fewer, more in pairwise(local_rise(at, policy) for at in views):
            yield ratio_higher(fewer, more)

    return phrase


# 3.2: policies.


def more_different(one: View, other: View) -> Comparison:
    """Test that the worst policy exceeds the best by a larger factor in one chart than in the
    other."""
    count = len(SIX)

    def contrast(*values: float) -> float:
        first, second = values[:count], values[count:]
        return max(first) / min(first) - max(second) / min(second)

    text = f"worst / best: {one.chart.case} > {other.chart.case}"
    return shown(text, contrast, *one.totals(SIX), *other.totals(SIX))


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

    def contrast(a: float, b: float, c: float, d: float) -> float:
        return max(a / b, b / a) - max(c / d, d / c)

    text = f"change of the local response with the components of global jobs: LQ > {other}"
    return shown(text, contrast, *(view.local(p) for p in ("LQ", other) for view in (fewer, more)))


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
    yield at_most(*at.locals(first(at)))


def eq_depends_more(*views: View) -> Iterator[Comparison]:
    """Test that the rise of the local response from LF to GF is larger with EQ, for each mix."""
    count = len(views) // 2
    for eq, lp in zip(views[:count], views[count:], strict=True):
        yield ratio_higher(local_rise(eq, "EQ"), local_rise(lp, "LP"))


def loses_more(at: View) -> Iterator[Comparison]:
    """Test that LP-LF loses a larger share in the total, and in the global queue, than local jobs
    gain."""
    for name in (View.total, View.common):
        yield ratio_higher(
            (name(at, "LP-LF"), name(at, "LP-GF")), (at.local("LP-GF"), at.local("LP-LF"))
        )


NOT_GS = tuple(policy for policy in SIX if policy != "GS")
NOT_LS = tuple(policy for policy in SIX if policy != "LS-DO")


def less_at_ninety(charts: tuple[Chart, ...], one: str, other: str) -> Test:
    """Test that the total of one policy exceeds that of another by less with 90 % than with 80 %
    single-component jobs."""
    return at_one_load(
        charts,
        lambda eighty, ninety: ratio_higher(
            (eighty.total(one), eighty.total(other)), (ninety.total(one), ninety.total(other))
        ),
    )


TESTS: dict[str, Test] = {
    "2.5-3": starves("GP", HALF_FOUR, "local", "global"),
    "2.5-4": starves("LP-LF", EIGHTY, "global", "local"),
    "2.5-5": ageing_helps(("GP", HALF_FOUR, "local"), ("LP-LF", EIGHTY, "global")),
    "3-1": across(
        (HALF_FOUR, NINETY),
        lambda half, ninety: (
            higher_by(MUCH, ninety.total(policy), half.total(policy))
            if policy == "LS-DO"
            else higher_by(MUCH, half.total(policy), ninety.total(policy))
            for policy in SIX
        ),
    ),
    "3.1.1-1": each(
        ONLY_SINGLE,
        lambda at: all_close(at.total("LS-OR"), at.totals(LS[1:]), within=0.01),
    ),
    "3.1.1-13": each(
        FIGURE_3_SINGLE_TOO,
        lambda at: (lower(at.single("LS-RO"), at.single(other)) for other in ("LS-RD", "LS-DO")),
    ),
    "3.1.1-19": less_at_ninety(FIGURE_3[6:], "LS-OR", "LS-DO"),
    "3.1.2-10": at_one_load(charts_of(5, cases=COMPONENTS_RISE), fewer_components_hurt_more("LP")),
    "3.1.3-10": at_one_load(charts_of(7, cases=COMPONENTS_RISE), fewer_components_hurt_more("EQ")),
    "3.1.3-24": at_one_load(
        FEW_COMPONENTS,
        lambda eq, lp: ratio_higher_by(MUCH, local_rise(eq, "EQ"), local_rise(lp, "LP")),
    ),
    "3.1.3-25": between(
        FEW_COMPONENTS,
        lambda eq, lp: (
            lower(lp.local("LP-GF"), lp.common("LP-GF")),
            higher(eq.local("EQ-GF"), eq.common("EQ-GF")),
        ),
    ),
    "3.2.1-9": each(charts_of(9), somewhere_saturated, levels=(BEYOND,)),
    "3.2.1-13": across(
        (HALF_TWO, HALF_TWO_THREE, HALF_FOUR),
        lambda two, three, four: (
            comparison
            for name in (View.total, View.local, View.common)
            for comparison in ascending(*(name(view, "GP") for view in (two, three, four)))
        ),
    ),
    "3.2.1-15": across(MULTI_RISES, lambda *views: rising(views, "LQ")),
    "3.2.1-19": between(
        charts_of(10, 11, 12),
        lambda ten, *others: (more_different(ten, other) for other in others),
    ),
    "3.2.1-20": between(
        charts_of(9, 11, 12),
        lambda nine, *others: (more_different(nine, other) for other in others),
    ),
    "3.2.1-28": less_at_ninety(charts_of(13, 14), "GS", "EQ-GF"),
    "3.2.1-30": across(MULTI_RISES, lambda *views: rising(views, "GS")),
    "3.2.1-31": across(
        MULTI_RISES,
        lambda *views: (
            comparison for policy in NOT_GS for comparison in rising(views[::-1], policy)
        ),
    ),
    "3.2.1-33": across((FOUR, *MULTI_RISES[::-1]), lambda *views: rising(views, "LS-DO")),
    "3.2.1-34": across(
        (*MULTI_RISES, FOUR),
        lambda *views: (comparison for policy in NOT_LS for comparison in rising(views, policy)),
    ),
    "3.3-10": each(
        FIGURES_9_TO_14,
        lambda at: (even_lengths(at, "LQ", other) for other in ("GP", "LP-GF", "EQ-GF")),
    ),
    "3.3-12": across(
        (HALF_TWO, HALF_FOUR),
        lambda two, four: (reacts_more(two, four, other) for other in ("EQ-GF", "GP", "LP-GF")),
    ),
    "3.3-14": across(
        (QUARTERS, NINETY),
        lambda many, few: (
            at_most(many.local(policy), few.local(policy)) for policy in ("LP-GF", "EQ-GF")
        ),
    ),
    "3.3-18": at_one_load(charts_of(5, cases=COMPONENTS_RISE), fewer_components_hurt_more("LP")),
    "3.3-19": at_one_load(charts_of(7, 5, cases=COMPONENTS_RISE), eq_depends_more),
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
KINDS: dict[str, Callable[[View, str], Quantity]] = {
    "total": View.total,
    "local": View.local,
    "common": View.common,
    "single": View.single,
    "multi": View.multi,
    "large-single": lambda at, policy: at.large(policy, "single"),
    "large-multi": lambda at, policy: at.large(policy, "multi"),
    "reversal": View.reversed,
}
"""Response times: `common` is that of the global queue, `reversal` the local one when local queues
are visited in reverse."""


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


OWN = {"matters": matters, "more_uneven": more_uneven}


def _quantity(at: View, words: Sequence[str]) -> Quantity:
    kind, policy = words
    if kind.startswith("queue"):
        return at.queue(policy, int(kind.removeprefix("queue")))
    return KINDS[kind](at, policy)


def _test_of(row: Row, test: Test | None) -> Test:
    if test is not None:
        return test
    charts = charts_of(*row["figures"])
    if "charts" in row:
        begin, end = row["charts"]
        charts = charts[begin:end]

    def phrase(at: View) -> Found:
        return compared(row["test"], partial(_quantity, at), GROUPS, OWN)

    return each(charts, phrase, levels=EVER if row.get("ever") else BELOW)


SENTENCES = read_sentences(Path(__file__).parent, TESTS, _test_of)
