"""Claims that compare the policies in figures 9 to 18 (Multiple queues 3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import isinf

from koala.lab.papers.comparisons import (
    MUCH,
    all_lower,
    ascending,
    at_most,
    close,
    good,
    higher,
    higher_by,
    highest,
    highest_by,
    lower,
    lowest,
    ratio_higher,
    shown,
    slightly_lower,
)
from koala.lab.papers.multiqueue.charts import (
    BEYOND,
    BOTH,
    EVER,
    FIGURES_9_TO_14,
    FOUR,
    HALF_FOUR,
    HALF_TWO,
    HALF_TWO_THREE,
    LS,
    MULTI_RISES,
    SIX,
    View,
    across,
    at_one_load,
    between,
    charts_of,
    claim,
    each,
    rising,
)
from koala.lab.papers.paper import Comparison
from koala.lab.sim.runs import Quantity

LP_AND_EQ = ("LP-GF", "EQ-GF")
NOT_LP_OR_EQ = ("GS", "LS-DO", "GP", "LQ")


AS_DRAWN = "each chart at its own utilisation, as the paper draws them"


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


POLICIES = {
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
            lambda at: highest_by(MUCH, at.local("GP"), at.locals((*BOTH, "LS-DO"))),
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
        each(charts_of(9), somewhere_saturated, levels=(BEYOND,)),
        reading="GS and LQ are, but not LS, LP and EQ, at one at least of the utilisations "
        f"{', '.join(f'{load:.3f}' for load in SECOND)}: the paper does not print its own",
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
        reading=f"factor from the best to the worst total; {AS_DRAWN}",
    ),
    "3.2.1-20": claim(
        "Without 4-component jobs (figures 11, 12) policies are more similar than with 25 % "
        "of them (figure 9).",
        between(
            charts_of(9, 11, 12),
            lambda nine, *others: (more_different(nine, other) for other in others),
        ),
        reading=f"factor from the best to the worst total; {AS_DRAWN}",
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


MANY_LOCAL = charts_of(13, 14)
"""Charts with 80 % and 90 % local jobs."""
NOT_GS = tuple(policy for policy in SIX if policy != "GS")
NOT_LS = tuple(policy for policy in SIX if policy != "LS-DO")


def alike(ones: Iterable[Quantity], other: Quantity) -> Iterator[Comparison]:
    """Test that these are equal to the other, within 1 %."""
    for one in ones:
        yield from close(one, other, within=0.01)


MIXES = {
    "3.2.1-24": claim(
        "With 80 % and 90 % local jobs, EQ performs best.",
        each(
            MANY_LOCAL,
            lambda at: lowest(at.total("EQ-GF"), at.totals(SIX)),
            levels=EVER,
        ),
    ),
    "3.2.1-25": claim(
        "With 80 % and 90 % local jobs, LP is worse than EQ.",
        each(
            MANY_LOCAL,
            lambda at: higher(at.total("LP-GF"), at.total("EQ-GF")),
            levels=EVER,
        ),
    ),
    "3.2.1-26": claim(
        "With 80 % and 90 % local jobs, LP delays the global jobs significantly.",
        each(
            MANY_LOCAL,
            lambda at: higher_by(MUCH, at.common("LP-GF"), at.common("EQ-GF")),
        ),
        reading="they respond slower than with EQ by at least 25 %",
    ),
    "3.2.1-27": claim(
        "GS shows good results for many single-component jobs.",
        each(MANY_LOCAL, lambda at: good(at.total("GS"), at.totals(SIX))),
        reading="closer to the best policy than to the worst",
    ),
    "3.2.1-28": claim(
        "At 90 % local jobs, GS approaches EQ.",
        at_one_load(
            MANY_LOCAL,
            lambda eighty, ninety: ratio_higher(
                (eighty.total("GS"), eighty.total("EQ-GF")),
                (ninety.total("GS"), ninety.total("EQ-GF")),
            ),
        ),
        reading="its excess over EQ is smaller than at 80 %, at the same utilisation",
    ),
    "3.2.1-29": claim(
        "LQ performs rather well with 80 % and 90 % local jobs.",
        each(MANY_LOCAL, lambda at: good(at.total("LQ"), at.totals(SIX))),
        reading="closer to the best policy than to the worst",
    ),
    "3.2.1-30": claim(
        "A higher percentage of single-component jobs improves GS.",
        across(MULTI_RISES, lambda *views: rising(views, "GS")),
        reading="at the same utilisation: (90,0,0,10) < (80,0,0,20) < (50,0,0,50)",
    ),
    "3.2.1-31": claim(
        "A higher percentage of single-component jobs deteriorates all other policies.",
        across(
            MULTI_RISES,
            lambda *views: (
                comparison for policy in NOT_GS for comparison in rising(views[::-1], policy)
            ),
        ),
        reading="at the same utilisation: (50,0,0,50) < (80,0,0,20) < (90,0,0,10)",
    ),
    "3.2.1-32": claim(
        "With single-component jobs alone, GP, LP, EQ and LQ become LS.",
        each(
            charts_of(15),
            lambda at: alike(at.totals(BOTH), at.total("LS-DO")),
        ),
        reading="equal totals, within 1 %",
    ),
    "3.2.1-33": claim(
        "A higher percentage of multi-component jobs improves LS.",
        across((FOUR, *MULTI_RISES[::-1]), lambda *views: rising(views, "LS-DO")),
        reading="at the same utilisation: (0,0,0,100) < (50,0,0,50) < (80,0,0,20) < (90,0,0,10)",
    ),
    "3.2.1-34": claim(
        "A higher percentage of multi-component jobs deteriorates all other policies.",
        across(
            (*MULTI_RISES, FOUR),
            lambda *views: (
                comparison for policy in NOT_LS for comparison in rising(views, policy)
            ),
        ),
        reading="at the same utilisation: (90,0,0,10) < (80,0,0,20) < (50,0,0,50) < (0,0,0,100)",
    ),
    "3.2.1-35": claim(
        "With multi-component jobs alone, GP, LP, EQ and LQ become GS.",
        each(
            charts_of(16, 17),
            lambda at: alike(at.totals(BOTH), at.total("GS")),
        ),
        reading="equal totals, within 1 %",
    ),
    "3.2.2-1": claim(
        "With single-component jobs alone, GS is better: it balances the load.",
        each(charts_of(15), lambda at: lower(at.total("GS"), at.total("LS-DO"))),
    ),
    "3.2.2-2": claim(
        "With multi-component jobs alone, LS is better: it chooses among four jobs.",
        each(charts_of(16, 17), lambda at: lower(at.total("LS-DO"), at.total("GS"))),
    ),
    "3.2.3-1": claim(
        "Unbalanced: LS-OR performs worse than EQ and LP.",
        each(charts_of(18), lambda at: highest(at.total("LS-OR"), at.totals(("EQ-LF", "LP-LF")))),
    ),
    "3.2.3-2": claim(
        "Unbalanced: LP gives slightly worse results than EQ.",
        each(charts_of(18), lambda at: slightly_lower(at.total("EQ-LF"), at.total("LP-LF"))),
    ),
    "3.2.3-3": claim(
        "Unbalanced: LP delays the multi-component jobs more than EQ.",
        each(charts_of(18), lambda at: higher(at.common("LP-LF"), at.common("EQ-LF"))),
    ),
    "3.2.3-4": claim(
        "Unbalanced: LS-OR favours the local queue with the highest percentage of jobs.",
        each(
            charts_of(4),
            lambda at: lowest(at.queue("LS-OR", 1), [at.queue(one, 1) for one in LS]),
        ),
        reading="its jobs respond quicker than under the other versions, as in 3.1.1-22; they "
        "still respond slower than those of the other queues, which get half as many",
    ),
}
