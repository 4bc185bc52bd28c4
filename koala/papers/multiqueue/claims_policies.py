"""Claims that compare the policies in figures 9 to 12 (Multiple queues 1, 3 and 3.2.1)."""

from __future__ import annotations

from math import isinf

from koala.papers.claims import (
    MUCH,
    all_lower,
    ascending,
    at_most,
    best_of,
    good,
    higher,
    highest,
    lower,
    lowest,
    shown,
    slightly_lower,
)
from koala.papers.multiqueue.charts import (
    BEYOND,
    BOTH,
    EVER,
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
    charts_of,
    claim,
    each,
    rising,
)
from koala.papers.paper import Comparison, Quantity, Rule

LP_AND_EQ = ("LP-GF", "EQ-GF")
NOT_LP_OR_EQ = ("GS", "LS-DO", "GP", "LQ")


def more_different(one: View, other: View) -> Comparison:
    """Test that the worst policy exceeds the best by a larger factor in one chart than in the
    other."""
    count = len(SIX)

    def contrast(*values: float) -> float:
        first, second = values[:count], values[count:]
        return max(first) / min(first) - max(second) / min(second)

    text = f"worst / best: {one.chart.case} > {other.chart.case}"
    return shown(text, contrast, *one.totals(SIX), *other.totals(SIX))


def saturated(total: Quantity) -> Comparison:
    """Test that a quantity has no mean, because of saturation."""
    return shown(f"{total} is saturated", lambda value: 1 if isinf(value) else -1, total)


def kept_up(total: Quantity) -> Comparison:
    """Test that a quantity has a mean."""
    return shown(f"{total} is not saturated", lambda value: -1 if isinf(value) else 1, total)


INTRODUCTION = {
    "1-1": claim(
        "With local and global queues, priority to the local ones in a restricted way is "
        "often best.",
        each(FIGURES_9_TO_14, lambda at: best_of(at.total("LP-GF"), at.totals(BOTH))),
        rule=Rule.MOST,
        reading="the total of LP-GF is the lowest of LP-GF, EQ-GF, GP and LQ",
    ),
}

GENERAL = {
    "3-1": claim(
        "The percentages of jobs with different numbers of components influence the performance.",
        across(
            (HALF_FOUR, NINETY),
            lambda half, ninety: (
                higher(half.total(policy), ninety.total(policy), by=MUCH) for policy in SIX
            ),
        ),
        figures=(),
        reading="at the same utilisation, every policy's totals in (50,0,0,50) and (90,0,0,10) "
        "differ by at least 25 %",
    ),
    "3-2": claim(
        "Performance differs between global and local queues and depends on the policy.",
        each(
            FIGURES_9_TO_14,
            lambda at: (
                lower(at.common("GP"), at.local("GP")),
                lower(at.local("LP-GF"), at.common("LP-GF")),
            ),
        ),
        reading="GP serves the global queue better, LP the local ones",
    ),
}

CLAIMS = {
    "3.2.1-1": claim(
        "LS performs best.",
        each(charts_of(9), lambda at: lowest(at.total("LS-DO"), at.totals(SIX)), levels=EVER),
    ),
    "3.2.1-2": claim(
        "LS can choose among four jobs, GS has but one: LS is better.",
        each(charts_of(9), lambda at: lower(at.total("LS-DO"), at.total("GS")), levels=EVER),
    ),
    "3.2.1-3": claim(
        "That LS keeps single-component jobs on their cluster has a small influence, for they "
        "are 25 %.",
        each(charts_of(9), lambda at: at_most(at.total("LS-DO"), at.multi("LS-DO"))),
        reading="they raise the total of LS over that of multi-component jobs by less than 10 %",
    ),
    "3.2.1-4": claim(
        "GP, LP, EQ and LQ, whose global queue gets 75 % of the jobs, are worse than LS.",
        each(charts_of(9), lambda at: lowest(at.total("LS-DO"), at.totals(BOTH)), levels=EVER),
    ),
    "3.2.1-5": claim(
        "GP performs worst.",
        each(charts_of(9), lambda at: highest(at.total("GP"), at.totals(SIX)), levels=EVER),
    ),
    "3.2.1-6": claim(
        "The global queue responds quickest with GP.",
        each(charts_of(9), lambda at: lowest(at.common("GP"), at.commons(BOTH))),
    ),
    "3.2.1-7": claim(
        "The local queues respond much slower with GP than with the others.",
        each(
            charts_of(9),
            lambda at: highest(at.local("GP"), at.locals((*BOTH, "LS-DO")), by=MUCH),
        ),
    ),
    "3.2.1-8": claim(
        "LQ behaves similarly to GP there: it is the second worst.",
        each(
            charts_of(9),
            lambda at: (
                lower(at.total("LQ"), at.total("GP")),
                *highest(at.total("LQ"), at.totals(("GS", "LS-DO", "LP-GF", "EQ-GF"))),
            ),
            levels=EVER,
        ),
    ),
    "3.2.1-9": claim(
        "At the second utilisation GS and LQ are saturated.",
        each(
            charts_of(9),
            lambda at: (
                *map(saturated, at.totals(("GS", "LQ"))),
                *map(kept_up, at.totals(("LS-DO", "LP-GF", "EQ-GF"))),
            ),
            levels=(BEYOND,),
        ),
        reading="GS and LQ are, but not LS, LP and EQ; at our second utilisation",
    ),
    "3.2.1-10": claim(
        "LP and EQ, which do not delay local jobs when the global head does not fit, are "
        "better than GP and LQ.",
        each(
            charts_of(9),
            lambda at: all_lower(at.totals(LP_AND_EQ), at.totals(("GP", "LQ"))),
            levels=EVER,
        ),
    ),
    "3.2.1-11": claim(
        "LP has a slightly better total than EQ.",
        each(
            charts_of(9),
            lambda at: slightly_lower(at.total("LP-GF"), at.total("EQ-GF")),
            levels=EVER,
        ),
    ),
    "3.2.1-12": claim(
        "LP also has a better response time for the global queue than EQ.",
        each(charts_of(9), lambda at: lower(at.common("LP-GF"), at.common("EQ-GF"))),
    ),
    "3.2.1-13": claim(
        "GP improves as there are fewer jobs of 3 and 4 components: local, global and total.",
        across(
            (HALF_TWO, HALF_TWO_THREE, HALF_FOUR),
            lambda two, three, four: (
                comparison
                for name in (View.total, View.local, View.common)
                for comparison in ascending(*(name(view, "GP") for view in (two, three, four)))
            ),
        ),
        reading="at the same utilisation: (50,50,0,0) < (50,25,25,0) < (50,0,0,50)",
    ),
    "3.2.1-14": claim(
        "Not to let local schedulers try their jobs while the global head does not fit is a "
        "bad choice.",
        each(
            charts_of(9, 10, 11, 12),
            lambda at: higher(at.total("GP"), at.total("EQ-GF")),
            levels=EVER,
        ),
        reading="GP is worse than EQ",
    ),
    "3.2.1-15": claim(
        "LQ performs worse with a higher percentage of multi-component jobs.",
        across(MULTI_RISES, lambda *views: rising(views, "LQ")),
        reading="at the same utilisation: (90,0,0,10) < (80,0,0,20) < (50,0,0,50)",
    ),
    "3.2.1-16": claim(
        "LP and EQ perform best in figures 10 and 11.",
        each(
            charts_of(10, 11),
            lambda at: all_lower(at.totals(LP_AND_EQ), at.totals(NOT_LP_OR_EQ)),
            levels=EVER,
        ),
    ),
    "3.2.1-17": claim(
        "That LP delays global jobs while no local queue is empty does not deteriorate it "
        "much when at most 50 % of the jobs are local.",
        each(
            charts_of(9, 10, 11, 12),
            lambda at: at_most(at.total("LP-GF"), at.total("EQ-GF")),
        ),
        reading="its total is at most 10 % above that of EQ",
    ),
    "3.2.1-18": claim(
        "It is an advantage for LP when fewer jobs are local (figure 9).",
        each(charts_of(9), lambda at: lower(at.total("LP-GF"), at.total("EQ-GF"))),
    ),
    "3.2.1-19": claim(
        "The differences between policies are larger in figure 10 (50 % 4-component jobs) "
        "than in 11 and 12.",
        between(
            charts_of(10, 11, 12),
            lambda ten, *others: (more_different(ten, other) for other in others),
        ),
        reading="factor from the best to the worst total",
    ),
    "3.2.1-20": claim(
        "Without 4-component jobs (figures 11, 12) policies are more similar than with 25 % "
        "of them (figure 9).",
        between(
            charts_of(9, 11, 12),
            lambda nine, *others: (more_different(nine, other) for other in others),
        ),
    ),
    "3.2.1-21": claim(
        "EQ performs well for all job mixes.",
        each(FIGURES_9_TO_14, lambda at: good(at.total("EQ-GF"), at.totals(SIX))),
        reading="closer to the best policy than to the worst",
    ),
    "3.2.1-22": claim(
        "Enabling the global queue first has a positive influence on the performance of EQ.",
        each(charts_of(7), lambda at: lower(at.total("EQ-GF"), at.total("EQ-LF"))),
        reading="EQ-GF is better than EQ-LF",
    ),
    "3.2.1-23": claim(
        "In figure 12 EQ is slightly better than LP.",
        each(
            charts_of(12),
            lambda at: slightly_lower(at.total("EQ-GF"), at.total("LP-GF")),
            levels=EVER,
        ),
    ),
}
