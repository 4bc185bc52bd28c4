"""Cases, charts and utilisations of the multiple-queues paper (Multiple queues 3).

The paper does not print the utilisations of its charts, only that they are "high enough so that at
least one of the policies is close to the maximum utilization". Here each chart has a limit: the
least maximal utilisation among the policies that it compares. Its bars stand at 98 % of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import repeat
from math import floor

from koala.lab.papers.multiqueue.maxima import MAXIMA
from koala.lab.papers.multiqueue.points import Case, Point
from koala.lab.papers.paper import Comparison, Found, listed
from koala.lab.sim.runs import Level, Quantity

LS = ("LS-OR", "LS-RD", "LS-RO", "LS-DO")
LP = ("LP-LF", "LP-GF", "LP-RD")
EQ = ("EQ-LF", "EQ-GF", "EQ-RD")
SIX = ("GS", "LS-DO", "GP", "LP-GF", "EQ-GF", "LQ")
"""Best version of each policy, by the total (Multiple queues 3.2)."""
BOTH = ("GP", "LP-GF", "EQ-GF", "LQ")
"""Those of the six that have local queues and a global one."""
FIVE_UNBALANCED = ("LS-OR", "GP", "LP-LF", "EQ-LF", "LQ")

LOW = Level(name="60 %")
MIDDLE = Level(name="80 %")
HIGH = Level(name="95 %")
NEAR = Level(name="98 %", is_near=True)
BEYOND = Level(name="second chart", is_near=True)
SHARES = {LOW: 0.60, MIDDLE: 0.80, HIGH: 0.95, NEAR: 0.98}
"""Utilisation of each level, as a share of a chart's limit. BEYOND lies half-way between the least
and the greatest maximum."""
STEP = 0.005
"""Utilisations are rounded down to a multiple of this."""
LENGTHS = {LOW: 0.2, MIDDLE: 0.2, HIGH: 0.5, NEAR: 1.0, BEYOND: 2.0}
"""Run lengths, as shares of an effort's jobs. Runs at lower levels vary less, so they can be
shorter. The second utilisations are close to the maxima of most policies, where a queue that grows
and one that fills for a long time differ only in long runs."""


QUARTERS = Case(mix=(25, 25, 25, 25))
SINGLE = Case(mix=(100, 0, 0, 0))
HALF_FOUR = Case(mix=(50, 0, 0, 50))
FOUR = Case(mix=(0, 0, 0, 100))
HALF_TWO_THREE = Case(mix=(50, 25, 25, 0))
TWO_THREE = Case(mix=(0, 50, 50, 0))
HALF_TWO = Case(mix=(50, 50, 0, 0))
EIGHTY = Case(mix=(80, 0, 0, 20))
NINETY = Case(mix=(90, 0, 0, 10))
UNBALANCED = Case(mix=(80, 0, 0, 20), is_balanced=False)

CASES = (
    *(QUARTERS, SINGLE, HALF_FOUR, FOUR, HALF_TWO_THREE),
    *(TWO_THREE, HALF_TWO, EIGHTY, NINETY, UNBALANCED),
)
"""In the order of table 1."""
MIXED = (QUARTERS, HALF_FOUR, HALF_TWO_THREE, HALF_TWO, EIGHTY, NINETY)
"""Balanced cases with single- and multi-component jobs: figures 5, 7, and 9 to 14."""
SOME_MULTI = (
    *(QUARTERS, HALF_FOUR, FOUR, HALF_TWO_THREE),
    *(TWO_THREE, HALF_TWO, EIGHTY, NINETY),
)
"""Balanced cases with more than single-component jobs: figure 3a to 3h."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Policies that are compared in one case, at utilisations that all of them sustain."""

    case: Case
    policies: tuple[str, ...]
    figure: int
    common: float | None = None
    """The limit, where other cases share it."""

    @property
    def has_second(self) -> bool:
        """True if a second utilisation is shown, where some policies are saturated (figures 9 to
        14)."""
        return self.common is None and self.figure in range(9, 15)

    @property
    def limit(self) -> float:
        """Least maximal utilisation of its policies."""
        return self.common or min(maximum(self.case, policy) for policy in self.policies)

    def at(self, level: Level) -> View | None:
        """Return the chart at a level; None if it has none there."""
        if level != BEYOND:
            return View(chart=self, level=level, utilization=rounded(SHARES[level] * self.limit))
        if not self.has_second:
            return None
        greatest = max(maximum(self.case, policy) for policy in self.policies)
        return View(chart=self, level=level, utilization=rounded((self.limit + greatest) / 2))


KINDS = {
    "total": ("all", "total"),
    "local": ("local", "local"),
    "common": ("global", "global"),
    "single": ("single", "single-component"),
    "multi": ("multi", "multi-component"),
    "large-single": ("large-single", "large single-component"),
    "large-multi": ("large-multi", "large multi-component"),
    "reversal": ("local", "local"),
    **{f"queue{number}": (f"queue{number}", f"queue {number}") for number in range(1, 5)},
}
"""Response times, and their names in metrics and in words: `common` is that of the global queue,
`reversal` the local one when local queues are visited in reverse; large jobs are counted in figures
9 to 14."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A chart at a level; it names quantities."""

    chart: Chart
    level: Level
    utilization: float
    is_one_of_many: bool = False
    """If True, it is compared with other cases, so names of quantities include the case."""

    def of(self, policy: str, kind: str) -> Quantity:
        """Return the mean response time of a kind of job (`KINDS`) under a policy."""
        is_reversed = kind == "reversal"
        metric, word = KINDS[kind]
        point = Point(
            policy=policy,
            case=self.chart.case,
            utilization=self.utilization,
            length=LENGTHS[self.level],
            has_large=self.chart.has_second and not is_reversed,
            is_reversed=is_reversed,
        )
        case = f" {self.chart.case}" if self.is_one_of_many else ""
        order = " in reverse order" if is_reversed else ""
        return Quantity(point, f"response.{metric}", f"{policy} {word}{case}{order}")

    def total(self, policy: str) -> Quantity:
        """Mean response time of all jobs."""
        return self.of(policy, "total")

    def totals(self, policies: Iterable[str]) -> tuple[Quantity, ...]:
        """Mean response times of all jobs, for several policies."""
        return tuple(map(self.total, policies))

    def local(self, policy: str) -> Quantity:
        """Mean response time of the jobs from local queues."""
        return self.of(policy, "local")

    def common(self, policy: str) -> Quantity:
        """Mean response time of the jobs from the global queue."""
        return self.of(policy, "common")

    def __str__(self) -> str:
        return f"{self.chart.case} at {self.utilization:.3f}"


def rounded(utilization: float) -> float:
    """Round down to a multiple of STEP."""
    return round(floor(utilization / STEP + 1e-9) * STEP, 4)


def maximum(case: Case, policy: str) -> float:
    """Return the maximal utilisation of a policy, see `maxima`."""
    return MAXIMA[case.mix, case.is_balanced][policy]


def _charts(
    policies: tuple[str, ...], cases: Iterable[Case], figures: Iterable[int]
) -> Iterator[Chart]:
    """Make charts of the same policies in several cases, in these figures."""
    for case, figure in zip(cases, figures, strict=False):
        yield Chart(case=case, policies=policies, figure=figure)


CHARTS = (
    *_charts(LS, SOME_MULTI, repeat(3)),
    *_charts(LS, (UNBALANCED,), (4,)),
    *_charts(LP, MIXED, repeat(5)),
    *_charts(LP, (UNBALANCED,), (6,)),
    *_charts(EQ, MIXED, repeat(7)),
    *_charts(EQ, (UNBALANCED,), (8,)),
    *_charts(SIX, MIXED, range(9, 15)),
    *_charts(("GS", "LS-DO"), (SINGLE, FOUR, TWO_THREE), range(15, 18)),
    *_charts(FIVE_UNBALANCED, (UNBALANCED,), (18,)),
)


def charts_of(*figures: int, cases: tuple[Case, ...] = CASES) -> tuple[Chart, ...]:
    """Return the charts of these figures and cases, in the order of both."""
    return tuple(
        chart
        for figure in figures
        for case in cases
        for chart in CHARTS
        if (chart.figure, chart.case) == (figure, case)
    )


FIGURES_9_TO_14 = charts_of(*range(9, 15))
COMPARED = charts_of(*range(9, 18))
"""Charts of several policies, one for each balanced case."""
COMMON_LIMIT = min(chart.limit for chart in COMPARED)
"""Largest utilisation that all six policies sustain in all balanced cases: for comparing cases with
one another."""


def common(case: Case) -> Chart:
    """Make the chart of a case at the utilisations that are common to all balanced cases."""
    (chart,) = (one for one in COMPARED if one.case == case)
    return replace(chart, policies=SIX, common=COMMON_LIMIT)


# --- tests over charts ---

Phrase = Callable[[View], Found]
"""Makes comparisons of what a view shows."""

BELOW = (LOW, MIDDLE, HIGH, NEAR)
"""Levels at which all policies of a chart keep up."""
EVER = (*BELOW, BEYOND)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartTest:
    """A test over charts: a phrase about a view of each, or about the views of all together."""

    charts: tuple[Chart, ...]
    phrase: Callable[..., Found]
    is_joint: bool = False
    levels: tuple[Level, ...] = BELOW

    def __call__(self, level: Level) -> Iterator[Comparison]:
        if level not in self.levels:
            return
        views = [view for chart in self.charts if (view := chart.at(level))]
        if self.is_joint:
            at = ", ".join(dict.fromkeys(f"{view.utilization:.3f}" for view in views))
            phrase = self.phrase(*(replace(view, is_one_of_many=True) for view in views))
            yield from (replace(one, where=f"at {at}") for one in listed(phrase))
        else:
            for view in views:
                yield from (replace(one, where=str(view)) for one in listed(self.phrase(view)))


def each(
    charts: tuple[Chart, ...], phrase: Phrase, *, levels: tuple[Level, ...] = BELOW
) -> ChartTest:
    """Apply the phrase to each chart at each level; past saturation only if told so, since a claim
    about one queue says nothing of a policy whose other queues grow without end."""
    return ChartTest(charts=charts, phrase=phrase, levels=levels)


def across(cases: tuple[Case, ...], phrase: Callable[..., Found]) -> ChartTest:
    """Apply a phrase about several cases at the same utilisation; it takes a view of each."""
    return between(tuple(common(case) for case in cases), phrase)


def between(charts: tuple[Chart, ...], phrase: Callable[..., Found]) -> ChartTest:
    """Apply a phrase about several charts, each at its own utilisation; it takes a view of each."""
    return ChartTest(charts=charts, phrase=phrase, is_joint=True)


def at_one_load(charts: tuple[Chart, ...], phrase: Callable[..., Found]) -> ChartTest:
    """Apply a phrase about several charts at the same utilisation, which all of their policies
    sustain; it takes a view of each. What differs between mixes is then not their loads."""
    limit = min(chart.limit for chart in charts)
    return between(tuple(replace(chart, common=limit) for chart in charts), phrase)
