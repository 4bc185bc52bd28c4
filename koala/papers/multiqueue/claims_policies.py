"""Claims that compare the policies in figures 9 to 12 (Multiple queues 1, 3 and 3.2.1)."""

from __future__ import annotations

from collections.abc import Iterable
from math import isinf

from koala.papers.claims import (
    MUCH,
    ascending,
    at_most,
    good,
    higher,
    highest,
    lower,
    lowest,
    slightly_lower,
)
from koala.papers.multiqueue.charts import (
    BEYOND,
    BOTH,
    FIGURE_7,
    FIGURE_9,
    FIGURE_10,
    FIGURE_11,
    FIGURE_12,
    FIGURES_9_TO_14,
    HALF_FOUR,
    HALF_TWO,
    HALF_TWO_THREE,
    MULTI_RISES,
    NINETY,
    SIX,
    View,
    across,
    between,
    each,
    rising,
)
from koala.papers.paper import Claim, Comparison, Quantity, Rule, Test

OTHER_THAN_LP_EQ = ("GS", "LS-DO", "GP", "LQ")


def more_different(one: View, other: View) -> Comparison:
    """Test that the worst policy exceeds the best by a larger factor in one chart than in the
    other."""
    count = len(SIX)

    def contrast(*values: float) -> float:
        first, second = values[:count], values[count:]
        return max(first) / min(first) - max(second) / min(second)

    return Comparison(
        text=f"worst / best: {one.chart.case} > {other.chart.case}",
        of=(*one.totals(SIX), *other.totals(SIX)),
        contrast=contrast,
    )


def saturated(total: Quantity) -> Comparison:
    """Test that a quantity has no mean, because of saturation."""
    return Comparison(
        text=f"{total} is saturated", of=(total,), contrast=lambda value: 1 if isinf(value) else -1
    )


def kept_up(total: Quantity) -> Comparison:
    """Test that a quantity has a mean."""
    return Comparison(
        text=f"{total} is not saturated",
        of=(total,),
        contrast=lambda value: -1 if isinf(value) else 1,
    )


def only_beyond(test: Test) -> Test:
    """Test at the second utilisation alone."""
    return lambda level: test(level) if level == BEYOND else ()


def best_of(one: Quantity, others: Iterable[Quantity]) -> Comparison:
    """Test that a quantity is lower than the lowest of the others."""
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
        test=each(FIGURE_9, lambda at: (lower(at.total("LS-DO"), at.total("GS")),), beyond=True),
    ),
    Claim(
        id="3.2.1-3",
        section="3.2.1",
        text="That LS keeps single-component jobs on their cluster has a small influence, for they "
        "are 25 %.",
        reading="they raise the total of LS over that of multi-component jobs by less than 10 %",
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
        text="Not to let local schedulers try their jobs while the global head does not fit is a "
        "bad choice.",
        reading="GP is worse than EQ",
        figures=(9, 10, 11, 12),
        test=each(
            (*FIGURE_9, *FIGURE_10, *FIGURE_11, *FIGURE_12),
            lambda at: (higher(at.total("GP"), at.total("EQ-GF")),),
            beyond=True,
        ),
    ),
    Claim(
        id="3.2.1-15",
        section="3.2.1",
        text="LQ performs worse with a higher percentage of multi-component jobs.",
        reading="at the same utilisation: (90,0,0,10) < (80,0,0,20) < (50,0,0,50)",
        figures=(10, 13, 14),
        test=across(MULTI_RISES, lambda *views: rising(views, "LQ")),
    ),
    Claim(
        id="3.2.1-16",
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
        id="3.2.1-17",
        section="3.2.1",
        text="That LP delays global jobs while no local queue is empty does not deteriorate it "
        "much when at most 50 % of the jobs are local.",
        reading="its total is at most 10 % above that of EQ",
        figures=(9, 10, 11, 12),
        test=each(
            (*FIGURE_9, *FIGURE_10, *FIGURE_11, *FIGURE_12),
            lambda at: (at_most(at.total("LP-GF"), at.total("EQ-GF")),),
        ),
    ),
    Claim(
        id="3.2.1-18",
        section="3.2.1",
        text="It is an advantage for LP when fewer jobs are local (figure 9).",
        figures=(9,),
        test=each(FIGURE_9, lambda at: (lower(at.total("LP-GF"), at.total("EQ-GF")),)),
    ),
    Claim(
        id="3.2.1-19",
        section="3.2.1",
        text="The differences between policies are larger in figure 10 (50 % 4-component jobs) "
        "than in 11 and 12.",
        reading="factor from the best to the worst total",
        figures=(10, 11, 12),
        test=between(
            (*FIGURE_10, *FIGURE_11, *FIGURE_12),
            lambda ten, *others: (more_different(ten, other) for other in others),
        ),
    ),
    Claim(
        id="3.2.1-20",
        section="3.2.1",
        text="Without 4-component jobs (figures 11, 12) policies are more similar than with 25 % "
        "of them (figure 9).",
        figures=(9, 11, 12),
        test=between(
            (*FIGURE_9, *FIGURE_11, *FIGURE_12),
            lambda nine, *others: (more_different(nine, other) for other in others),
        ),
    ),
    Claim(
        id="3.2.1-21",
        section="3.2.1",
        text="EQ performs well for all job mixes.",
        reading="closer to the best policy than to the worst",
        figures=(9, 10, 11, 12, 13, 14),
        test=each(FIGURES_9_TO_14, lambda at: (good(at.total("EQ-GF"), at.totals(SIX)),)),
    ),
    Claim(
        id="3.2.1-22",
        section="3.2.1",
        text="Enabling the global queue first has a positive influence on the performance of EQ.",
        reading="EQ-GF is better than EQ-LF",
        figures=(7,),
        test=each(FIGURE_7, lambda at: (lower(at.total("EQ-GF"), at.total("EQ-LF")),)),
    ),
    Claim(
        id="3.2.1-23",
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

CLAIMS = (*FIGURE_9_CLAIMS, *FIGURES_10_TO_12_CLAIMS)
