"""Claims of the conclusions (Multiple queues 4)."""

from __future__ import annotations

from collections.abc import Iterator

from koala.papers.claims import MUCH, at_most, lower, lowest, ratio_higher, share
from koala.papers.multiqueue.charts import FIGURES_9_TO_14, LS, View, charts_of, claim, each
from koala.papers.multiqueue.claims_queues import first
from koala.papers.paper import Comparison, Rule


def loses_more(at: View) -> Iterator[Comparison]:
    """Test that LP-LF loses a larger share in the total, and in the global queue, than local jobs
    gain."""
    for name in (View.total, View.common):
        yield ratio_higher(
            (name(at, "LP-LF"), name(at, "LP-GF")), (at.local("LP-GF"), at.local("LP-LF"))
        )


CLAIMS = {
    "4-1": claim(
        "With many single-component jobs, one global scheduler that may run them anywhere is "
        "better than keeping them local.",
        each(
            charts_of(13, 14, 15),
            lambda at: lower(at.total("GS"), at.total("LS-DO")),
        ),
        reading="GS is better than LS-DO",
    ),
    "4-2": claim(
        "For multi-component jobs, more schedulers improve the performance.",
        each(
            charts_of(16, 17),
            lambda at: lower(at.total("LS-DO"), at.total("GS")),
        ),
        reading="LS-DO is better than GS",
    ),
    "4-3": claim(
        "With unbalanced queues, priority should be given to the local queues.",
        each(
            charts_of(6, 8),
            lambda at: lowest(at.total(first(at)[1]), at.totals(at.chart.policies)),
        ),
        reading="LP-LF and EQ-LF have the lowest totals of their versions",
    ),
    "4-4": claim(
        "With unbalanced queues and local schedulers alone, the loaded queue should be favoured.",
        each(charts_of(4), lambda at: lowest(at.total("LS-OR"), at.totals(LS))),
        reading="LS-OR has the lowest total",
    ),
    "4-5": claim(
        "In most balanced cases EQ-GF gives slightly better results than LP.",
        each(FIGURES_9_TO_14, lambda at: lower(at.total("EQ-GF"), at.total("LP-GF"))),
        rule=Rule.MOST,
    ),
    "4-6": claim(
        "LP-GF does not worsen local jobs significantly, against LP-LF.",
        each(charts_of(5), lambda at: at_most(at.local("LP-GF"), at.local("LP-LF"), above=MUCH)),
        reading=f"by less than {share(MUCH)}",
    ),
    "4-7": claim(
        "LP-GF is better than LP-LF for the total and for the global jobs.",
        each(
            charts_of(5),
            lambda at: (
                lower(at.total("LP-GF"), at.total("LP-LF")),
                lower(at.common("LP-GF"), at.common("LP-LF")),
            ),
        ),
    ),
    "4-8": claim(
        "LP-LF gains too little for local jobs to be worth its loss in the total and for "
        "global jobs.",
        each(charts_of(5), loses_more),
        reading="the losses are larger shares than the gain",
    ),
}
