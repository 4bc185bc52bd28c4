"""Cases, charts and utilisations of the multiple-queues paper (Multiple queues 3).

The paper does not print the utilisations of its charts, only that they are "high enough so that at
least one of the policies is close to the maximum utilization". Here each chart has a limit: the
least maximal utilisation among the policies that it compares. Its bars stand at 98 % of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import floor

from koala.papers.claims import ascending
from koala.papers.multiqueue.maxima import MAXIMA
from koala.papers.paper import Comparison, Level, Quantity, Test

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
LENGTHS = {LOW: 0.2, MIDDLE: 0.2, HIGH: 0.5, NEAR: 1.0, BEYOND: 0.4}
"""Run lengths, as shares of an effort's jobs. Runs at lower levels vary less, so they can be
shorter. Saturation shows soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Case: a job-stream composition and the spread of local jobs (Multiple queues, table 1)."""

    mix: tuple[int, int, int, int]
    is_balanced: bool = True

    @property
    def split(self) -> tuple[int, int, int, int]:
        """Percentages of local jobs by queue; with LS those are all jobs."""
        return (25, 25, 25, 25) if self.is_balanced else (40, 20, 20, 20)

    @property
    def multi(self) -> float:
        """Share of jobs with several components."""
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
"""Balanced cases with single- and multi-component jobs: figures 5, 7, and 9 to 14."""
SOME_MULTI = (
    *(QUARTERS, HALF_FOUR, FOUR, HALF_TWO_THREE),
    *(TWO_THREE, HALF_TWO, EIGHTY, NINETY),
)
"""Balanced cases with more than single-component jobs: figure 3a to 3h."""
MULTI_RISES = (NINETY, EIGHTY, HALF_FOUR)
"""More and more jobs of four components, the others of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A setting of this paper to run. `length` is the share of the effort's jobs."""

    policy: str
    case: Case
    utilization: float
    length: float = 1.0
    ageing: float | None = None
    has_large: bool = False
    """If True, large jobs are counted separately."""

    def __str__(self) -> str:
        ageing = f", ageing {self.ageing:g}" if self.ageing is not None else ""
        return f"{self.policy} {self.case} at {self.utilization:.3f}{ageing}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Policies that are compared in one case, at utilisations that all of them sustain."""

    case: Case
    policies: tuple[str, ...]
    has_second: bool = False
    """If True, a second utilisation is shown, where some policies are saturated (figures 9 to
    14)."""
    common: float | None = None
    """The limit, where other cases share it."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A chart at a level; it names quantities."""

    chart: Chart
    level: Level
    utilization: float
    is_one_of_many: bool = False
    """If True, it is compared with other cases, so names of quantities include the case."""

    def total(self, policy: str) -> Quantity:
        """Mean response time of all jobs."""
        return self.of(policy, "response.all", "total")

    def totals(self, policies: Iterable[str]) -> tuple[Quantity, ...]:
        """Mean response times of all jobs, for several policies."""
        return tuple(self.total(policy) for policy in policies)

    def local(self, policy: str) -> Quantity:
        """Mean response time of the jobs from local queues."""
        return self.of(policy, "response.local", "local")

    def locals(self, policies: Iterable[str]) -> tuple[Quantity, ...]:
        """Mean response times of the jobs from local queues, for several policies."""
        return tuple(self.local(policy) for policy in policies)

    def common(self, policy: str) -> Quantity:
        """Mean response time of the jobs from the global queue."""
        return self.of(policy, "response.global", "global")

    def commons(self, policies: Iterable[str]) -> tuple[Quantity, ...]:
        """Mean response times of the jobs from the global queue, for several policies."""
        return tuple(self.common(policy) for policy in policies)

    def single(self, policy: str) -> Quantity:
        """Mean response time of single-component jobs."""
        return self.of(policy, "response.single", "single-component")

    def multi(self, policy: str) -> Quantity:
        """Mean response time of multi-component jobs."""
        return self.of(policy, "response.multi", "multi-component")

    def large(self, policy: str, kind: str) -> Quantity:
        """Mean response time of large jobs of a kind, single or multi; in figures 9 to 14."""
        return self.of(policy, f"response.large-{kind}", f"large {kind}-component")

    def queue(self, policy: str, number: int) -> Quantity:
        """Mean response time of a local queue, 1 to 4."""
        return self.of(policy, f"response.queue{number}", f"queue {number}")

    def queues(self, policy: str) -> tuple[Quantity, ...]:
        """Mean response times of all four local queues."""
        return tuple(self.queue(policy, number) for number in range(1, 5))

    def of(self, policy: str, metric: str, word: str) -> Quantity:
        """Return any metric of a policy here."""
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
    """Round down to a multiple of STEP."""
    return round(floor(utilization / STEP + 1e-9) * STEP, 4)


def maximum(case: Case, policy: str) -> float:
    """Return the maximal utilisation of a policy, see `maxima`."""
    return MAXIMA[case.mix, case.is_balanced][policy]


def charts(
    cases: Iterable[Case], policies: tuple[str, ...], *, has_second: bool = False
) -> tuple[Chart, ...]:
    """Make charts of the same policies in several cases."""
    return tuple(Chart(case=case, policies=policies, has_second=has_second) for case in cases)


def of_cases(
    charts: tuple[Chart, ...], cases: tuple[Case, ...] = CASES, *, without: tuple[Case, ...] = ()
) -> tuple[Chart, ...]:
    """Select the charts of some cases, in the order of the cases."""
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
"""Largest utilisation that all six policies sustain in all balanced cases: for comparing cases with
one another."""


def common(case: Case, policies: tuple[str, ...] = SIX) -> Chart:
    """Make the chart of a case at the utilisations that are common to all balanced cases."""
    return Chart(case=case, policies=policies, common=COMMON_LIMIT)


# --- tests over charts ---

Phrase = Callable[[View], Iterable[Comparison]]


def each(within: Iterable[Chart], phrase: Phrase, *, beyond: bool = False) -> Test:
    """Apply the phrase to each chart at each level, and past saturation only if `beyond`: a claim
    about one queue says nothing of a policy whose other queues grow without end."""

    def test(level: Level) -> Iterator[Comparison]:
        for chart in within:
            view = chart.at(level) if beyond or level != BEYOND else None
            if view is not None:
                yield from (replace(one, where=str(view)) for one in phrase(view))

    return test


def across(cases: tuple[Case, ...], phrase: Callable[..., Iterable[Comparison]]) -> Test:
    """Apply a phrase about several cases at the same utilisation; it takes a view of each."""
    return between(tuple(common(case) for case in cases), phrase)


def between(within: tuple[Chart, ...], phrase: Callable[..., Iterable[Comparison]]) -> Test:
    """Apply a phrase about several charts, each at its own utilisation; it takes a view of each."""

    def test(level: Level) -> Iterator[Comparison]:
        if level != BEYOND:
            views = [replace(view, is_one_of_many=True) for c in within if (view := c.at(level))]
            at = ", ".join(dict.fromkeys(f"{view.utilization:.3f}" for view in views))
            yield from (replace(one, where=f"at {at}") for one in phrase(*views))

    return test


def rising(views: Iterable[View], policy: str) -> tuple[Comparison, ...]:
    """Test that the total of a policy is lower in each of these cases than in the next."""
    return ascending(*(view.total(policy) for view in views))
