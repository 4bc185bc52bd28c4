"""Claims of the conclusions (Multiple queues 4)."""

from __future__ import annotations

from collections.abc import Iterator

from koala.papers.claims import MUCH, at_most, lower, lowest, ratio_higher
from koala.papers.multiqueue.charts import (
    EIGHTY,
    FIGURE_4,
    FIGURE_5,
    FIGURE_6,
    FIGURE_8,
    FIGURES_9_TO_14,
    FIGURES_15_TO_17,
    FOUR,
    LS,
    NINETY,
    SINGLE,
    TWO_THREE,
    View,
    each,
    of_cases,
)
from koala.papers.multiqueue.claims_queues import first
from koala.papers.paper import Claim, Comparison, Rule


def loses_more(at: View) -> Iterator[Comparison]:
    """Test that LP-LF loses a larger share in the total, and in the global queue, than local jobs
    gain."""
    for name in (View.total, View.common):
        yield ratio_higher(
            (name(at, "LP-LF"), name(at, "LP-GF")), (at.local("LP-GF"), at.local("LP-LF"))
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

CLAIMS = CONCLUSIONS
