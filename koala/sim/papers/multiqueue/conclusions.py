"""The claims about local against global queues, and the conclusions (Multiple queues 3.3 and 4)."""

from __future__ import annotations

from collections.abc import Iterator

from koala.sim.papers.claims import (
    LITTLE,
    MUCH,
    Claim,
    Comparison,
    Rule,
    at_most,
    lower,
    lowest,
    ratio_higher,
    slightly_lower,
)
from koala.sim.papers.multiqueue.charts import (
    EIGHTY,
    FIGURE_4,
    FIGURE_5,
    FIGURE_6,
    FIGURE_7,
    FIGURE_8,
    FIGURES_9_TO_14,
    FIGURES_15_TO_17,
    FOUR,
    HALF_FOUR,
    HALF_TWO,
    HALF_TWO_THREE,
    LS,
    NINETY,
    SINGLE,
    TWO_THREE,
    View,
    between,
    each,
    of_cases,
)
from koala.sim.papers.multiqueue.global_first import fewer_components_hurt_more

LP_AND_EQ = (*FIGURE_5, *FIGURE_6, *FIGURE_7, *FIGURE_8)
BALANCED_LP_AND_EQ = (*FIGURE_5, *FIGURE_7)
SAME_SHARE = (HALF_TWO, HALF_TWO_THREE, HALF_FOUR)


def first(at: View) -> tuple[str, str]:
    """The versions of the chart's policy that enable the global queue first, and the local ones."""
    policy = at.chart.policies[0].split("-")[0]
    return f"{policy}-GF", f"{policy}-LF"


def global_first_is_better(at: View) -> Iterator[Comparison]:
    """GF has the lower total."""
    gf, lf = first(at)
    yield lower(at.total(gf), at.total(lf))


def global_first_costs_little(at: View) -> Iterator[Comparison]:
    """GF has the lower total, and local jobs hardly notice."""
    gf, lf = first(at)
    yield lower(at.total(gf), at.total(lf))
    yield at_most(at.local(gf), at.local(lf))


def loses_more(at: View) -> Iterator[Comparison]:
    """LP-LF loses a larger share in the total, and in the global queue, than local jobs gain."""
    for name in (View.total, View.common):
        yield ratio_higher(
            (name(at, "LP-LF"), name(at, "LP-GF")), (at.local("LP-GF"), at.local("LP-LF"))
        )


def eq_depends_more(*views: View) -> Iterator[Comparison]:
    """The rise of the local response from LF to GF is larger with EQ, for each mix."""
    count = len(views) // 2
    for eq, lp in zip(views[:count], views[count:], strict=True):
        yield ratio_higher(
            (eq.local("EQ-GF"), eq.local("EQ-LF")), (lp.local("LP-GF"), lp.local("LP-LF"))
        )


QUEUES = (
    Claim(
        id="3.3-15",
        section="3.3",
        text="That LP enables the global queue first (LP-GF) has a positive effect overall.",
        figures=(5,),
        test=each(FIGURE_5, global_first_is_better),
    ),
    Claim(
        id="3.3-16",
        section="3.3",
        text="It slightly deteriorates the local queues.",
        figures=(5,),
        test=each(FIGURE_5, lambda at: slightly_lower(at.local("LP-LF"), at.local("LP-GF"))),
    ),
    Claim(
        id="3.3-17",
        section="3.3",
        text="With LP-GF, the better the global jobs fit, the worse for the local jobs.",
        reading="the rise from LF to GF: (50,50,0,0) over (50,25,25,0) over (50,0,0,50)",
        figures=(5,),
        test=between(of_cases(FIGURE_5, SAME_SHARE), fewer_components_hurt_more("LP")),
    ),
    Claim(
        id="3.3-18",
        section="3.3",
        text="This dependency is even stronger for EQ.",
        reading="the rise from LF to GF is larger with EQ in each of these cases",
        figures=(5, 7),
        test=between(
            (*of_cases(FIGURE_7, SAME_SHARE), *of_cases(FIGURE_5, SAME_SHARE)), eq_depends_more
        ),
    ),
    Claim(
        id="3.3-19",
        section="3.3",
        text="In most cases, the GF version is better for both EQ and LP.",
        figures=(5, 6, 7, 8),
        rule=Rule.MOST,
        test=each(LP_AND_EQ, global_first_is_better),
    ),
    Claim(
        id="3.3-20",
        section="3.3",
        text="Enabling the global queue first improves the total and has little influence on local "
        "jobs.",
        reading=f"in most cases; local jobs respond at most {100 * LITTLE:g} % slower",
        figures=(5, 6, 7, 8),
        rule=Rule.MOST,
        test=each(LP_AND_EQ, global_first_costs_little),
    ),
)

CONCLUSIONS = (
    Claim(
        id="4-1",
        section="4",
        text="With many single-component jobs, one global scheduler that may run them anywhere is "
        "better than keeping them local.",
        reading="GS is better than LS-DO",
        figures=(13, 14, 15),
        test=each(
            (*of_cases(FIGURES_9_TO_14, (EIGHTY, NINETY)), *of_cases(FIGURES_15_TO_17, (SINGLE,))),
            lambda at: (lower(at.total("GS"), at.total("LS-DO")),),
        ),
    ),
    Claim(
        id="4-2",
        section="4",
        text="For multi-component jobs, more schedulers improve the performance.",
        reading="LS-DO is better than GS",
        figures=(16, 17),
        test=each(
            of_cases(FIGURES_15_TO_17, (FOUR, TWO_THREE)),
            lambda at: (lower(at.total("LS-DO"), at.total("GS")),),
        ),
    ),
    Claim(
        id="4-3",
        section="4",
        text="With unbalanced queues, priority should be given to the local queues.",
        reading="LP-LF and EQ-LF have the lowest totals of their versions",
        figures=(6, 8),
        test=each(
            (*FIGURE_6, *FIGURE_8),
            lambda at: lowest(at.total(first(at)[1]), at.totals(at.chart.policies)),
        ),
    ),
    Claim(
        id="4-4",
        section="4",
        text="With unbalanced queues and local schedulers alone, the loaded queue should be "
        "favoured.",
        reading="LS-OR has the lowest total",
        figures=(4,),
        test=each(FIGURE_4, lambda at: lowest(at.total("LS-OR"), at.totals(LS))),
    ),
    Claim(
        id="4-5",
        section="4",
        text="In most balanced cases EQ-GF gives slightly better results than LP.",
        figures=(9, 10, 11, 12, 13, 14),
        rule=Rule.MOST,
        test=each(FIGURES_9_TO_14, lambda at: (lower(at.total("EQ-GF"), at.total("LP-GF")),)),
    ),
    Claim(
        id="4-6",
        section="4",
        text="LP-GF does not worsen local jobs significantly, against LP-LF.",
        reading=f"by less than {100 * MUCH:g} %",
        figures=(5,),
        test=each(
            FIGURE_5, lambda at: (at_most(at.local("LP-GF"), at.local("LP-LF"), above=MUCH),)
        ),
    ),
    Claim(
        id="4-7",
        section="4",
        text="LP-GF is better than LP-LF for the total and for the global jobs.",
        figures=(5,),
        test=each(
            FIGURE_5,
            lambda at: (
                lower(at.total("LP-GF"), at.total("LP-LF")),
                lower(at.common("LP-GF"), at.common("LP-LF")),
            ),
        ),
    ),
    Claim(
        id="4-8",
        section="4",
        text="LP-LF gains too little for local jobs to be worth its loss in the total and for "
        "global jobs.",
        reading="the losses are larger shares than the gain",
        figures=(5,),
        test=each(FIGURE_5, loses_more),
    ),
)

CLAIMS = (*QUEUES, *CONCLUSIONS)
