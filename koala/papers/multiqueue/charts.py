"""Cases, charts and utilisations of the multiple-queues paper: what is run (Multiple queues 3).

The paper does not print the utilisations of its charts, only that they are "high enough so that at
least one of the policies is close to the maximum utilization". Here each chart has its limit, the
least maximal utilisation among the policies that it compares, and its bars stand at 98 % of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import floor

from koala.papers.claims import Comparison, Test, ascending
from koala.papers.multiqueue.maxima import MAXIMA
from koala.papers.paper import Level, Quantity

LS = ("LS-OR", "LS-RD", "LS-RO", "LS-DO")
LP = ("LP-LF", "LP-GF", "LP-RD")
EQ = ("EQ-LF", "EQ-GF", "EQ-RD")
SIX = ("GS", "LS-DO", "GP", "LP-GF", "EQ-GF", "LQ")
"""Of the policies with versions, the ones with the best total (Multiple queues 3.2)."""
BOTH = ("GP", "LP-GF", "EQ-GF", "LQ")
"""Those of the six that have local queues and a global one."""
FIVE_UNBALANCED = ("LS-OR", "GP", "LP-LF", "EQ-LF", "LQ")

LOW = Level(name="60 %")
MIDDLE = Level(name="80 %")
HIGH = Level(name="95 %")
NEAR = Level(name="98 %", is_near=True)
BEYOND = Level(name="second chart", is_near=True)
SHARES = {LOW: 0.60, MIDDLE: 0.80, HIGH: 0.95, NEAR: 0.98}
"""Of the limit of a chart. BEYOND lies half-way between the least and the greatest maximum."""
STEP = 0.005
"""Utilisations are rounded down to a multiple of this."""
LENGTHS = {LOW: 0.2, MIDDLE: 0.2, HIGH: 0.5, NEAR: 1.0, BEYOND: 0.4}
"""Of an effort's jobs. Runs at lower levels need not be as long: they vary less. What is saturated
shows that soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A job-stream composition and how local jobs are spread (Multiple queues, table 1)."""

    mix: tuple[int, int, int, int]
    is_balanced: bool = True

    @property
    def split(self) -> tuple[int, int, int, int]:
        """The percentages of local jobs by queue; with LS those are all jobs."""
        return (25, 25, 25, 25) if self.is_balanced else (40, 20, 20, 20)

    @property
    def multi(self) -> float:
        """The share of jobs with several components."""
        return 1 - self.mix[0] / 100

    def __str__(self) -> str:
        return f"({','.join(map(str, self.mix))})" + ("" if self.is_balanced else " unbalanced")


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
"""Balanced, with single- and multi-component jobs: figures 5, 7, and 9 to 14."""
SOME_MULTI = (
    *(QUARTERS, HALF_FOUR, FOUR, HALF_TWO_THREE),
    *(TWO_THREE, HALF_TWO, EIGHTY, NINETY),
)
"""Figure 3a to 3h: balanced, and not only single-component jobs."""
MULTI_RISES = (NINETY, EIGHTY, HALF_FOUR)
"""More and more jobs of four components, and no others but those of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What is run: the setting of this paper. `length` is the share of the effort's jobs."""

    policy: str
    case: Case
    utilization: float
    length: float = 1.0
    ageing: float | None = None
    has_large: bool = False
    """Large jobs are told apart."""

    def __str__(self) -> str:
        ageing = f", ageing {self.ageing:g}" if self.ageing is not None else ""
        return f"{self.policy} {self.case} at {self.utilization:.3f}{ageing}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Policies that are compared in one case, at utilisations that they all can bear."""

    case: Case
    policies: tuple[str, ...]
    has_second: bool = False
    """A second value, where some of the policies are saturated (figures 9 to 14)."""
    common: float | None = None
    """The limit, where it is that of other cases, too."""

    @property
    def limit(self) -> float:
        """The least maximal utilisation of its policies."""
        return self.common or min(maximum(self.case, policy) for policy in self.policies)

    def at(self, level: Level) -> View | None:
        """The chart at a level; None if it has none there."""
        if level != BEYOND:
            return View(chart=self, level=level, utilization=rounded(SHARES[level] * self.limit))
        if not self.has_second:
            return None
        greatest = max(maximum(self.case, policy) for policy in self.policies)
        return View(chart=self, level=level, utilization=rounded((self.limit + greatest) / 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A chart at a level: names its quantities."""

    chart: Chart
    level: Level
    utilization: float
    is_one_of_many: bool = False
    """Compared with other cases: then names of quantities say the case."""

    def total(self, policy: str) -> Quantity:
        """The mean response time of all jobs."""
        return self.of(policy, "response.all", "total")

    def totals(self, policies: Iterable[str]) -> tuple[Quantity, ...]:
        """Of several policies."""
        return tuple(self.total(policy) for policy in policies)

    def local(self, policy: str) -> Quantity:
        """That of the jobs from local queues."""
        return self.of(policy, "response.local", "local")

    def locals(self, policies: Iterable[str]) -> tuple[Quantity, ...]:
        """Of several policies."""
        return tuple(self.local(policy) for policy in policies)

    def common(self, policy: str) -> Quantity:
        """That of the jobs from the global queue."""
        return self.of(policy, "response.global", "global")

    def commons(self, policies: Iterable[str]) -> tuple[Quantity, ...]:
        """Of several policies."""
        return tuple(self.common(policy) for policy in policies)

    def single(self, policy: str) -> Quantity:
        """That of single-component jobs."""
        return self.of(policy, "response.single", "single-component")

    def multi(self, policy: str) -> Quantity:
        """That of multi-component jobs."""
        return self.of(policy, "response.multi", "multi-component")

    def large(self, policy: str, kind: str) -> Quantity:
        """That of large jobs of a kind, single or multi; in figures 9 to 14."""
        return self.of(policy, f"response.large-{kind}", f"large {kind}-component")

    def queue(self, policy: str, number: int) -> Quantity:
        """That of a local queue, 1 to 4."""
        return self.of(policy, f"response.queue{number}", f"queue {number}")

    def queues(self, policy: str) -> tuple[Quantity, ...]:
        """Those of all four."""
        return tuple(self.queue(policy, number) for number in range(1, 5))

    def of(self, policy: str, metric: str, word: str) -> Quantity:
        """Any metric of a policy here."""
        point = Point(
            policy=policy,
            case=self.chart.case,
            utilization=self.utilization,
            length=LENGTHS[self.level],
            has_large=self.chart.has_second,
        )
        case = f" {self.chart.case}" if self.is_one_of_many else ""
        return Quantity(point, metric, f"{policy} {word}{case}")

    def __str__(self) -> str:
        return f"{self.chart.case} at {self.utilization:.3f}"


def rounded(utilization: float) -> float:
    """Down to a multiple of STEP."""
    return round(floor(utilization / STEP + 1e-9) * STEP, 4)


def maximum(case: Case, policy: str) -> float:
    """The maximal utilisation of a policy, see `maxima`."""
    return MAXIMA[case.mix, case.is_balanced][policy]


def charts(
    cases: Iterable[Case], policies: tuple[str, ...], *, has_second: bool = False
) -> tuple[Chart, ...]:
    """The same policies in several cases."""
    return tuple(Chart(case=case, policies=policies, has_second=has_second) for case in cases)


def of_cases(
    charts: tuple[Chart, ...], cases: tuple[Case, ...] = CASES, *, without: tuple[Case, ...] = ()
) -> tuple[Chart, ...]:
    """Those of some cases, in the order of the cases."""
    return tuple(
        chart for case in cases for chart in charts if chart.case == case and case not in without
    )


FIGURE_3 = charts(SOME_MULTI, LS)
FIGURE_4 = charts((UNBALANCED,), LS)
FIGURE_5 = charts(MIXED, LP)
FIGURE_6 = charts((UNBALANCED,), LP)
FIGURE_7 = charts(MIXED, EQ)
FIGURE_8 = charts((UNBALANCED,), EQ)
FIGURES_9_TO_14 = charts(MIXED, SIX, has_second=True)
FIGURES_15_TO_17 = charts((SINGLE, FOUR, TWO_THREE), ("GS", "LS-DO"))
FIGURE_9 = of_cases(FIGURES_9_TO_14, (QUARTERS,))
FIGURE_10 = of_cases(FIGURES_9_TO_14, (HALF_FOUR,))
FIGURE_11 = of_cases(FIGURES_9_TO_14, (HALF_TWO_THREE,))
FIGURE_12 = of_cases(FIGURES_9_TO_14, (HALF_TWO,))
FIGURE_13 = of_cases(FIGURES_9_TO_14, (EIGHTY,))
FIGURE_14 = of_cases(FIGURES_9_TO_14, (NINETY,))
FIGURE_15 = of_cases(FIGURES_15_TO_17, (SINGLE,))
FIGURE_16 = of_cases(FIGURES_15_TO_17, (FOUR,))
FIGURE_17 = of_cases(FIGURES_15_TO_17, (TWO_THREE,))
FIGURE_18 = charts((UNBALANCED,), FIVE_UNBALANCED)

COMMON_LIMIT = min(chart.limit for chart in (*FIGURES_9_TO_14, *FIGURES_15_TO_17))
"""What all six policies can bear in all balanced cases: to compare cases with one another."""


def common(case: Case, policies: tuple[str, ...] = SIX) -> Chart:
    """A case at the utilisations that are common to all balanced cases."""
    return Chart(case=case, policies=policies, common=COMMON_LIMIT)


# --- tests over charts ---

Phrase = Callable[[View], Iterable[Comparison]]


def each(within: Iterable[Chart], phrase: Phrase, *, beyond: bool = False) -> Test:
    """The phrase in each chart, at each level; `beyond` saturation only where asked for: what is
    said of one queue says nothing of a policy whose other queues grow without end."""

    def test(level: Level) -> Iterator[Comparison]:
        for chart in within:
            view = chart.at(level) if beyond or level != BEYOND else None
            if view is not None:
                yield from (replace(one, where=str(view)) for one in phrase(view))

    return test


def across(cases: tuple[Case, ...], phrase: Callable[..., Iterable[Comparison]]) -> Test:
    """A phrase about several cases at the same utilisation; it takes a view of each."""
    return between(tuple(common(case) for case in cases), phrase)


def between(within: tuple[Chart, ...], phrase: Callable[..., Iterable[Comparison]]) -> Test:
    """A phrase about several charts, each at its own utilisation; it takes a view of each."""

    def test(level: Level) -> Iterator[Comparison]:
        if level != BEYOND:
            views = [replace(view, is_one_of_many=True) for c in within if (view := c.at(level))]
            at = ", ".join(dict.fromkeys(f"{view.utilization:.3f}" for view in views))
            yield from (replace(one, where=f"at {at}") for one in phrase(*views))

    return test


def rising(views: Iterable[View], policy: str) -> tuple[Comparison, ...]:
    """The total of a policy is lower in each of these cases than in the next."""
    return ascending(*(view.total(policy) for view in views))
