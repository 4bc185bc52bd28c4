"""The claims that compare the policies with one another (Multiple queues 1, 2.5, 3, 3.2 to 4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isinf

from koala.sim.papers.claims import (
    LITTLE,
    MUCH,
    Claim,
    Comparison,
    Rule,
    Test,
    ascending,
    at_most,
    close,
    good,
    higher,
    highest,
    lower,
    lowest,
    ratio_higher,
    slightly_lower,
)
from koala.sim.papers.multiqueue.charts import (
    BEYOND,
    BOTH,
    EIGHTY,
    FIGURE_18,
    FIGURES_9_TO_14,
    FIGURES_15_TO_17,
    FOUR,
    HALF_FOUR,
    HALF_TWO,
    HALF_TWO_THREE,
    NINETY,
    QUARTERS,
    SINGLE,
    SIX,
    TWO_THREE,
    Chart,
    View,
    across,
    between,
    each,
    of_cases,
)
from koala.sim.papers.paper import Quantity

FIGURE_9 = of_cases(FIGURES_9_TO_14, (QUARTERS,))
FIGURE_10 = of_cases(FIGURES_9_TO_14, (HALF_FOUR,))
FIGURE_11 = of_cases(FIGURES_9_TO_14, (HALF_TWO_THREE,))
FIGURE_12 = of_cases(FIGURES_9_TO_14, (HALF_TWO,))
FIGURE_13 = of_cases(FIGURES_9_TO_14, (EIGHTY,))
FIGURE_14 = of_cases(FIGURES_9_TO_14, (NINETY,))
FIGURE_15 = of_cases(FIGURES_15_TO_17, (SINGLE,))
FIGURE_16 = of_cases(FIGURES_15_TO_17, (FOUR,))
FIGURE_17 = of_cases(FIGURES_15_TO_17, (TWO_THREE,))
NOT_GS = tuple(policy for policy in SIX if policy != "GS")
NOT_LS = tuple(policy for policy in SIX if policy != "LS-DO")
OTHER_THAN_LP_EQ = ("GS", "LS-DO", "GP", "LQ")
MULTI_RISES = (NINETY, EIGHTY, HALF_FOUR)
"""More and more jobs of four components, and no others but those of one."""


def more_different(one: View, other: View) -> Comparison:
    """The worst policy exceeds the best by a larger factor in one chart than in the other."""
    count = len(SIX)

    def contrast(*values: float) -> float:
        first, second = values[:count], values[count:]
        return max(first) / min(first) - max(second) / min(second)

    return Comparison(
        text=f"worst / best: {one.chart.case} > {other.chart.case}",
        of=(*one.totals(SIX), *other.totals(SIX)),
        contrast=contrast,
    )


def rising(views: Iterable[View], policy: str) -> tuple[Comparison, ...]:
    """The total of a policy is lower in each of these cases than in the next."""
    return ascending(*(view.total(policy) for view in views))


def even_lengths(at: View, one: str, other: str) -> Comparison:
    """The mean numbers of waiting jobs in the global and in a local queue differ less with one."""
    multi = at.chart.case.multi
    single = (1 - multi) / 4

    def gap(common: float, local: float) -> float:
        return abs(multi * (common - 1) - single * (local - 1))

    return Comparison(
        text=f"gap of mean lengths, global to local: {one} < {other}",
        of=(at.common(one), at.local(one), at.common(other), at.local(other)),
        contrast=lambda a, b, c, d: gap(c, d) - gap(a, b),
    )


def in_both_queues(at: View, policy: str) -> Iterator[Comparison]:
    """A low response time for the local and for the global queue."""
    yield good(at.local(policy), at.locals(BOTH))
    yield good(at.common(policy), at.commons(BOTH))


def reacts_more(fewer: View, more: View, other: str) -> Comparison:
    """Local jobs react more to the components of global jobs under LQ than under the other."""

    def contrast(a: float, b: float, c: float, d: float) -> float:
        return max(a / b, b / a) - max(c / d, d / c)

    of: tuple[Quantity, ...] = (
        *(view.local("LQ") for view in (fewer, more)),
        *(view.local(other) for view in (fewer, more)),
    )
    return Comparison(
        text=f"change of the local response with the components of global jobs: LQ > {other}",
        of=of,
        contrast=contrast,
    )


def saturated(total: Quantity) -> Comparison:
    """It has no mean."""
    return Comparison(
        text=f"{total} is saturated", of=(total,), contrast=lambda value: 1 if isinf(value) else -1
    )


def kept_up(total: Quantity) -> Comparison:
    """It has a mean."""
    return Comparison(
        text=f"{total} is not saturated",
        of=(total,),
        contrast=lambda value: -1 if isinf(value) else 1,
    )


def only_beyond(test: Test) -> Test:
    """At the second utilisation alone."""
    return lambda level: test(level) if level == BEYOND else ()


def best_of(one: Quantity, others: Iterable[Quantity]) -> Comparison:
    """Lower than the lowest of the others."""
    rest = tuple(other for other in others if other != one)
    return Comparison(
        text=f"{one} is the lowest of all",
        of=(one, *rest),
        contrast=lambda first, *values: min(values) - first,
    )


GENERAL = (
    Claim(
        id="1-1",
        section="1",
        text="With local and global queues, priority to the local ones in a restricted way is "
        "often best.",
        reading="the total of LP-GF is the lowest of LP-GF, EQ-GF, GP and LQ",
        figures=(9, 10, 11, 12, 13, 14),
        rule=Rule.MOST,
        test=each(FIGURES_9_TO_14, lambda at: (best_of(at.total("LP-GF"), at.totals(BOTH)),)),
    ),
    Claim(
        id="3-1",
        section="3",
        text="The percentages of jobs with different numbers of components influence the "
        "performance.",
        reading="at the same utilisation, every policy's totals in (50,0,0,50) and (90,0,0,10) "
        "differ by at least 25 %",
        test=across(
            (HALF_FOUR, NINETY),
            lambda half, ninety: (
                higher(half.total(policy), ninety.total(policy), by=MUCH) for policy in SIX
            ),
        ),
    ),
    Claim(
        id="3-2",
        section="3",
        text="Performance differs between global and local queues and depends on the policy.",
        reading="GP serves the global queue better, LP the local ones",
        figures=(9, 10, 11, 12, 13, 14),
        test=each(
            FIGURES_9_TO_14,
            lambda at: (
                lower(at.common("GP"), at.local("GP")),
                lower(at.local("LP-GF"), at.common("LP-GF")),
            ),
        ),
    ),
)

FIGURE_9_CLAIMS = (
    Claim(
        id="3.2.1-1",
        section="3.2.1",
        text="LS performs best.",
        figures=(9,),
        test=each(FIGURE_9, lambda at: lowest(at.total("LS-DO"), at.totals(SIX)), beyond=True),
    ),
    Claim(
        id="3.2.1-2",
        section="3.2.1",
        text="LS can choose among four jobs, GS has but one: LS is better.",
        figures=(9,),
        test=each(
            FIGURE_9, lambda at: (lower(at.total("LS-DO"), at.total("GS")),), beyond=True
        ),
    ),
    Claim(
        id="3.2.1-3",
        section="3.2.1",
        text="That LS keeps single-component jobs on their cluster has a small influence, for they "
        "are 25 %.",
        reading="they raise the total of LS over that of its multi-component jobs by less than 10 %",
        figures=(9,),
        test=each(FIGURE_9, lambda at: (at_most(at.total("LS-DO"), at.multi("LS-DO")),)),
    ),
    Claim(
        id="3.2.1-4",
        section="3.2.1",
        text="GP, LP, EQ and LQ, whose global queue gets 75 % of the jobs, are worse than LS.",
        figures=(9,),
        test=each(FIGURE_9, lambda at: lowest(at.total("LS-DO"), at.totals(BOTH)), beyond=True),
    ),
    Claim(
        id="3.2.1-5",
        section="3.2.1",
        text="GP performs worst.",
        figures=(9,),
        test=each(FIGURE_9, lambda at: highest(at.total("GP"), at.totals(SIX)), beyond=True),
    ),
    Claim(
        id="3.2.1-6",
        section="3.2.1",
        text="The global queue responds quickest with GP.",
        figures=(9,),
        test=each(FIGURE_9, lambda at: lowest(at.common("GP"), at.commons(BOTH))),
    ),
    Claim(
        id="3.2.1-7",
        section="3.2.1",
        text="The local queues respond much slower with GP than with the others.",
        figures=(9,),
        test=each(
            FIGURE_9,
            lambda at: (
                higher(at.local("GP"), at.local(other), by=MUCH)
                for other in (*BOTH, "LS-DO")
                if other != "GP"
            ),
        ),
    ),
    Claim(
        id="3.2.1-8",
        section="3.2.1",
        text="LQ behaves similarly to GP there: it is the second worst.",
        figures=(9,),
        test=each(
            FIGURE_9,
            lambda at: (
                lower(at.total("LQ"), at.total("GP")),
                *highest(at.total("LQ"), at.totals(("GS", "LS-DO", "LP-GF", "EQ-GF"))),
            ),
            beyond=True,
        ),
    ),
    Claim(
        id="3.2.1-9",
        section="3.2.1",
        text="At the second utilisation GS and LQ are saturated.",
        reading="GS and LQ are, but not LS, LP and EQ; at our second utilisation",
        figures=(9,),
        test=only_beyond(
            each(
                FIGURE_9,
                lambda at: (
                    *(saturated(at.total(policy)) for policy in ("GS", "LQ")),
                    *(kept_up(at.total(policy)) for policy in ("LS-DO", "LP-GF", "EQ-GF")),
                ),
                beyond=True,
            )
        ),
    ),
    Claim(
        id="3.2.1-10",
        section="3.2.1",
        text="LP and EQ, which do not delay local jobs when the global head does not fit, are "
        "better than GP and LQ.",
        figures=(9,),
        test=each(
            FIGURE_9,
            lambda at: (
                lower(at.total(one), at.total(other))
                for one in ("LP-GF", "EQ-GF")
                for other in ("GP", "LQ")
            ),
            beyond=True,
        ),
    ),
    Claim(
        id="3.2.1-11",
        section="3.2.1",
        text="LP has a slightly better total than EQ.",
        figures=(9,),
        test=each(
            FIGURE_9, lambda at: slightly_lower(at.total("LP-GF"), at.total("EQ-GF")), beyond=True
        ),
    ),
    Claim(
        id="3.2.1-12",
        section="3.2.1",
        text="LP also has a better response time for the global queue than EQ.",
        figures=(9,),
        test=each(FIGURE_9, lambda at: (lower(at.common("LP-GF"), at.common("EQ-GF")),)),
    ),
)

FIGURES_10_TO_12_CLAIMS = (
    Claim(
        id="3.2.1-13",
        section="3.2.1",
        text="GP improves as there are fewer jobs of 3 and 4 components: local, global and total.",
        reading="at the same utilisation: (50,50,0,0) < (50,25,25,0) < (50,0,0,50)",
        figures=(10, 11, 12),
        test=across(
            (HALF_TWO, HALF_TWO_THREE, HALF_FOUR),
            lambda two, three, four: (
                comparison
                for name in (View.total, View.local, View.common)
                for comparison in ascending(*(name(view, "GP") for view in (two, three, four)))
            ),
        ),
    ),
    Claim(
        id="3.2.1-14",
        section="3.2.1",
        text="LQ performs worse with a higher percentage of multi-component jobs.",
        reading="at the same utilisation: (90,0,0,10) < (80,0,0,20) < (50,0,0,50)",
        figures=(10, 13, 14),
        test=across(MULTI_RISES, lambda *views: rising(views, "LQ")),
    ),
    Claim(
        id="3.2.1-15",
        section="3.2.1",
        text="LP and EQ perform best in figures 10 and 11.",
        figures=(10, 11),
        test=each(
            (*FIGURE_10, *FIGURE_11),
            lambda at: (
                lower(at.total(one), at.total(other))
                for one in ("LP-GF", "EQ-GF")
                for other in OTHER_THAN_LP_EQ
            ),
            beyond=True,
        ),
    ),
    Claim(
        id="3.2.1-16",
        section="3.2.1",
        text="That LP delays global jobs while no local queue is empty does not deteriorate it much "
        "when at most 50 % of the jobs are local.",
        reading="its total is at most 10 % above that of EQ",
        figures=(9, 10, 11, 12),
        test=each(
            (*FIGURE_9, *FIGURE_10, *FIGURE_11, *FIGURE_12),
            lambda at: (at_most(at.total("LP-GF"), at.total("EQ-GF")),),
        ),
    ),
    Claim(
        id="3.2.1-17",
        section="3.2.1",
        text="It is an advantage for LP when fewer jobs are local (figure 9).",
        figures=(9,),
        test=each(FIGURE_9, lambda at: (lower(at.total("LP-GF"), at.total("EQ-GF")),)),
    ),
    Claim(
        id="3.2.1-18",
        section="3.2.1",
        text="The differences between policies are larger in figure 10 (50 % 4-component jobs) than "
        "in 11 and 12.",
        reading="factor from the best to the worst total",
        figures=(10, 11, 12),
        test=between(
            (*FIGURE_10, *FIGURE_11, *FIGURE_12),
            lambda ten, *others: (more_different(ten, other) for other in others),
        ),
    ),
    Claim(
        id="3.2.1-19",
        section="3.2.1",
        text="Without 4-component jobs (figures 11, 12) policies are more similar than with 25 % of "
        "them (figure 9).",
        figures=(9, 11, 12),
        test=between(
            (*FIGURE_9, *FIGURE_11, *FIGURE_12),
            lambda nine, *others: (more_different(nine, other) for other in others),
        ),
    ),
    Claim(
        id="3.2.1-20",
        section="3.2.1",
        text="EQ performs well for all job mixes.",
        reading="closer to the best policy than to the worst",
        figures=(9, 10, 11, 12, 13, 14),
        test=each(FIGURES_9_TO_14, lambda at: (good(at.total("EQ-GF"), at.totals(SIX)),)),
    ),
    Claim(
        id="3.2.1-21",
        section="3.2.1",
        text="In figure 12 EQ is slightly better than LP.",
        figures=(12,),
        test=each(
            FIGURE_12,
            lambda at: slightly_lower(at.total("EQ-GF"), at.total("LP-GF")),
            beyond=True,
        ),
    ),
)

FIGURES_13_AND_14_CLAIMS = (
    Claim(
        id="3.2.1-22",
        section="3.2.1",
        text="With 80 % and 90 % local jobs, EQ performs best.",
        figures=(13, 14),
        test=each(
            (*FIGURE_13, *FIGURE_14),
            lambda at: lowest(at.total("EQ-GF"), at.totals(SIX)),
            beyond=True,
        ),
    ),
    Claim(
        id="3.2.1-23",
        section="3.2.1",
        text="There, LP is worse than EQ.",
        figures=(13, 14),
        test=each(
            (*FIGURE_13, *FIGURE_14),
            lambda at: (higher(at.total("LP-GF"), at.total("EQ-GF")),),
            beyond=True,
        ),
    ),
    Claim(
        id="3.2.1-24",
        section="3.2.1",
        text="There, LP delays the global jobs significantly.",
        reading="they respond slower than with EQ by at least 25 %",
        figures=(13, 14),
        test=each(
            (*FIGURE_13, *FIGURE_14),
            lambda at: (higher(at.common("LP-GF"), at.common("EQ-GF"), by=MUCH),),
        ),
    ),
    Claim(
        id="3.2.1-25",
        section="3.2.1",
        text="GS shows good results for many single-component jobs.",
        reading="closer to the best policy than to the worst",
        figures=(13, 14),
        test=each(
            (*FIGURE_13, *FIGURE_14), lambda at: (good(at.total("GS"), at.totals(SIX)),)
        ),
    ),
    Claim(
        id="3.2.1-26",
        section="3.2.1",
        text="At 90 % local jobs, GS approaches EQ.",
        reading="its excess over EQ is smaller than at 80 %",
        figures=(13, 14),
        test=between(
            (*FIGURE_13, *FIGURE_14),
            lambda eighty, ninety: (
                ratio_higher(
                    (eighty.total("GS"), eighty.total("EQ-GF")),
                    (ninety.total("GS"), ninety.total("EQ-GF")),
                ),
            ),
        ),
    ),
    Claim(
        id="3.2.1-27",
        section="3.2.1",
        text="LQ performs rather well with 80 % and 90 % local jobs.",
        reading="closer to the best policy than to the worst",
        figures=(13, 14),
        test=each(
            (*FIGURE_13, *FIGURE_14), lambda at: (good(at.total("LQ"), at.totals(SIX)),)
        ),
    ),
    Claim(
        id="3.2.1-28",
        section="3.2.1",
        text="A higher percentage of single-component jobs improves GS.",
        reading="at the same utilisation: (90,0,0,10) < (80,0,0,20) < (50,0,0,50)",
        figures=(10, 13, 14),
        test=across(MULTI_RISES, lambda *views: rising(views, "GS")),
    ),
    Claim(
        id="3.2.1-29",
        section="3.2.1",
        text="It deteriorates all other policies.",
        reading="at the same utilisation: (50,0,0,50) < (80,0,0,20) < (90,0,0,10)",
        figures=(10, 13, 14),
        test=across(
            MULTI_RISES,
            lambda *views: (
                comparison for policy in NOT_GS for comparison in rising(views[::-1], policy)
            ),
        ),
    ),
    Claim(
        id="3.2.1-30",
        section="3.2.1",
        text="With single-component jobs alone, GP, LP, EQ and LQ become LS.",
        reading="equal totals, within 1 %",
        figures=(15,),
        test=each(
            (Chart(case=SINGLE, policies=("GS", "LS-DO")),),
            lambda at: (
                comparison
                for policy in BOTH
                for comparison in close(at.total(policy), at.total("LS-DO"), within=0.01)
            ),
        ),
    ),
    Claim(
        id="3.2.1-31",
        section="3.2.1",
        text="A higher percentage of multi-component jobs improves LS.",
        reading="at the same utilisation: (0,0,0,100) < (50,0,0,50) < (80,0,0,20) < (90,0,0,10)",
        figures=(10, 13, 14, 16),
        test=across((FOUR, *MULTI_RISES[::-1]), lambda *views: rising(views, "LS-DO")),
    ),
    Claim(
        id="3.2.1-32",
        section="3.2.1",
        text="It deteriorates all other policies.",
        reading="at the same utilisation: (90,0,0,10) < (80,0,0,20) < (50,0,0,50) < (0,0,0,100)",
        figures=(10, 13, 14, 16),
        test=across(
            (*MULTI_RISES, FOUR),
            lambda *views: (
                comparison for policy in NOT_LS for comparison in rising(views, policy)
            ),
        ),
    ),
    Claim(
        id="3.2.1-33",
        section="3.2.1",
        text="With multi-component jobs alone, GP, LP, EQ and LQ become GS.",
        reading="equal totals, within 1 %",
        figures=(16, 17),
        test=each(
            (*FIGURE_16, *FIGURE_17),
            lambda at: (
                comparison
                for policy in BOTH
                for comparison in close(at.total(policy), at.total("GS"), within=0.01)
            ),
        ),
    ),
)

LATER_CLAIMS = (
    Claim(
        id="3.2.2-1",
        section="3.2.2",
        text="With single-component jobs alone, GS is better: it balances the load.",
        figures=(15,),
        test=each(FIGURE_15, lambda at: (lower(at.total("GS"), at.total("LS-DO")),)),
    ),
    Claim(
        id="3.2.2-2",
        section="3.2.2",
        text="With multi-component jobs alone, LS is better: it chooses among four jobs.",
        figures=(16, 17),
        test=each(
            (*FIGURE_16, *FIGURE_17), lambda at: (lower(at.total("LS-DO"), at.total("GS")),)
        ),
    ),
    Claim(
        id="3.2.3-1",
        section="3.2.3",
        text="Unbalanced: LS-OR performs worse than EQ and LP.",
        figures=(18,),
        test=each(
            FIGURE_18, lambda at: highest(at.total("LS-OR"), at.totals(("EQ-LF", "LP-LF")))
        ),
    ),
    Claim(
        id="3.2.3-2",
        section="3.2.3",
        text="Unbalanced: LP gives slightly worse results than EQ.",
        figures=(18,),
        test=each(FIGURE_18, lambda at: slightly_lower(at.total("EQ-LF"), at.total("LP-LF"))),
    ),
    Claim(
        id="3.2.3-3",
        section="3.2.3",
        text="Unbalanced: LP delays the multi-component jobs more than EQ.",
        figures=(18,),
        test=each(FIGURE_18, lambda at: (higher(at.common("LP-LF"), at.common("EQ-LF")),)),
    ),
    Claim(
        id="3.2.3-4",
        section="3.2.3",
        text="Unbalanced: LS-OR favours the local queue with the highest percentage of jobs.",
        reading="its jobs respond quicker than those of every other queue",
        figures=(18,),
        test=each(FIGURE_18, lambda at: lowest(at.queue("LS-OR", 1), at.queues("LS-OR"))),
    ),
)

QUEUES = (
    Claim(
        id="3.3-1",
        section="3.3",
        text="LP is the best for local jobs.",
        figures=(9, 10, 11, 12, 13, 14),
        test=each(FIGURES_9_TO_14, lambda at: lowest(at.local("LP-GF"), at.locals(BOTH))),
    ),
    Claim(
        id="3.3-2",
        section="3.3",
        text="GP is the best for global jobs.",
        figures=(9, 10, 11, 12, 13, 14),
        test=each(FIGURES_9_TO_14, lambda at: lowest(at.common("GP"), at.commons(BOTH))),
    ),
    Claim(
        id="3.3-3",
        section="3.3",
        text="LP has a low response time for both local and global queues.",
        reading="both closer to the best of LP, EQ, GP and LQ than to the worst",
        figures=(9, 10, 11, 12, 13, 14),
        test=each(FIGURES_9_TO_14, lambda at: in_both_queues(at, "LP-GF")),
    ),
    Claim(
        id="3.3-4",
        section="3.3",
        text="EQ has a low response time for both local and global queues.",
        reading="both closer to the best of LP, EQ, GP and LQ than to the worst",
        figures=(9, 10, 11, 12, 13, 14),
        test=each(FIGURES_9_TO_14, lambda at: in_both_queues(at, "EQ-GF")),
    ),
    Claim(
        id="3.3-5",
        section="3.3",
        text="EQ is better than LP for the global queue.",
        figures=(9, 10, 11, 12, 13, 14),
        test=each(FIGURES_9_TO_14, lambda at: (lower(at.common("EQ-GF"), at.common("LP-GF")),)),
    ),
    Claim(
        id="3.3-6",
        section="3.3",
        text="LP is better than EQ for the local queues.",
        figures=(9, 10, 11, 12, 13, 14),
        test=each(FIGURES_9_TO_14, lambda at: (lower(at.local("LP-GF"), at.local("EQ-GF")),)),
    ),
    Claim(
        id="3.3-7",
        section="3.3",
        text="With many multi-component jobs, LQ gives the global queue the smaller response time.",
        figures=(9,),
        test=each(FIGURE_9, lambda at: (lower(at.common("LQ"), at.local("LQ")),)),
    ),
    Claim(
        id="3.3-8",
        section="3.3",
        text="With many single-component jobs, LQ gives the local queues the smaller one.",
        figures=(13, 14),
        test=each(
            (*FIGURE_13, *FIGURE_14), lambda at: (lower(at.local("LQ"), at.common("LQ")),)
        ),
    ),
    Claim(
        id="3.3-9",
        section="3.3",
        text="LQ keeps the lengths of the queues balanced.",
        reading="mean numbers of waiting jobs in the global and a local queue differ less than with "
        "GP, LP and EQ",
        figures=(9, 10, 11, 12, 13, 14),
        test=each(
            FIGURES_9_TO_14,
            lambda at: (even_lengths(at, "LQ", other) for other in ("GP", "LP-GF", "EQ-GF")),
        ),
    ),
    Claim(
        id="3.3-10",
        section="3.3",
        text="LQ switches its behaviour between GP and LP.",
        reading="its local and its global response lie between theirs",
        figures=(9, 10, 11, 12, 13, 14),
        test=each(
            FIGURES_9_TO_14,
            lambda at: (
                *ascending(at.local("LP-GF"), at.local("LQ"), at.local("GP")),
                *ascending(at.common("GP"), at.common("LQ"), at.common("LP-GF")),
            ),
        ),
    ),
    Claim(
        id="3.3-11",
        section="3.3",
        text="With LQ, jobs of one type are more sensitive to those of the other than with EQ, GP "
        "and LP.",
        reading="the local response changes by a larger factor from (50,50,0,0) to (50,0,0,50), at "
        "the same utilisation",
        figures=(10, 12),
        test=across(
            (HALF_TWO, HALF_FOUR),
            lambda two, four: (
                reacts_more(two, four, other) for other in ("EQ-GF", "GP", "LP-GF")
            ),
        ),
    ),
    Claim(
        id="3.3-12",
        section="3.3",
        text="GP and LQ delay the local jobs.",
        reading="they respond slower than with LP and EQ",
        figures=(9, 10, 11, 12, 13, 14),
        test=each(
            FIGURES_9_TO_14,
            lambda at: (
                higher(at.local(one), at.local(other))
                for one in ("GP", "LQ")
                for other in ("LP-GF", "EQ-GF")
            ),
        ),
    ),
    Claim(
        id="3.3-13",
        section="3.3",
        text="With LP and EQ, many global jobs do not deteriorate the performance of local jobs.",
        reading="at the same utilisation, local jobs respond at most 10 % slower in (25,25,25,25) "
        "than in (90,0,0,10)",
        figures=(9, 14),
        test=across(
            (QUARTERS, NINETY),
            lambda many, few: (
                at_most(many.local(policy), few.local(policy)) for policy in ("LP-GF", "EQ-GF")
            ),
        ),
    ),
    Claim(
        id="3.3-14",
        section="3.3",
        text="With LP and EQ, multi-component jobs can do significantly worse than the system.",
        reading=f"with 80 % and 90 % local jobs they respond slower than the mean by at least "
        f"{100 * MUCH:g} %",
        figures=(13, 14),
        test=each(
            (*FIGURE_13, *FIGURE_14),
            lambda at: (
                higher(at.common(policy), at.total(policy), by=MUCH)
                for policy in ("LP-GF", "EQ-GF")
            ),
        ),
    ),
)


CLAIMS = (
    *FIGURE_9_CLAIMS,
    *FIGURES_10_TO_12_CLAIMS,
    *FIGURES_13_AND_14_CLAIMS,
    *LATER_CLAIMS,
    *QUEUES,
)
