"""Claims about local against global queues (Multiple queues 3.3), and the conclusions (4)."""

from __future__ import annotations

from collections.abc import Iterator

from koala.lab.papers.comparisons import (
    LITTLE,
    MUCH,
    all_higher,
    ascending,
    at_most,
    good,
    higher_by,
    lower,
    lowest,
    ratio_higher,
    share,
    shown,
    slightly_lower,
)
from koala.lab.papers.multiqueue.charts import (
    BOTH,
    FIGURES_9_TO_14,
    HALF_FOUR,
    HALF_TWO,
    LS,
    NINETY,
    QUARTERS,
    SIX,
    View,
    across,
    at_one_load,
    charts_of,
    claim,
    each,
)
from koala.lab.papers.multiqueue.claims_global_first import (
    COMPONENTS_RISE,
    fewer_components_hurt_more,
    local_rise,
)
from koala.lab.papers.paper import Comparison, Rule

LP_AND_EQ = charts_of(5, 6, 7, 8)


def even_lengths(at: View, one: str, other: str) -> Comparison:
    """Test that the mean numbers of waiting jobs in the global and in a local queue differ less
    with one."""
    multi = at.chart.case.multi
    single = (1 - multi) / 4

    def gap(common: float, local: float) -> float:
        return abs(multi * (common - 1) - single * (local - 1))

    return shown(
        f"gap of mean lengths, global to local: {one} < {other}",
        lambda a, b, c, d: gap(c, d) - gap(a, b),
        *(at.common(one), at.local(one), at.common(other), at.local(other)),
    )


def in_both_queues(at: View, policy: str) -> Iterator[Comparison]:
    """Test for a low response time in the local and in the global queue."""
    yield good(at.local(policy), at.locals(BOTH))
    yield good(at.common(policy), at.commons(BOTH))


def reacts_more(fewer: View, more: View, other: str) -> Comparison:
    """Test that local jobs react more to the components of global jobs under LQ than under the
    other."""

    def contrast(a: float, b: float, c: float, d: float) -> float:
        return max(a / b, b / a) - max(c / d, d / c)

    text = f"change of the local response with the components of global jobs: LQ > {other}"
    return shown(text, contrast, *(view.local(p) for p in ("LQ", other) for view in (fewer, more)))


def first(at: View) -> tuple[str, str]:
    """Return the versions of the chart's policy that enable the global queue first, and the local
    ones."""
    policy = at.chart.policies[0].split("-")[0]
    return f"{policy}-GF", f"{policy}-LF"


def global_first_is_better(at: View) -> Comparison:
    """Test that GF has the lower total."""
    return lower(*at.totals(first(at)))


def global_first_costs_little(at: View) -> Iterator[Comparison]:
    """Test that GF has the lower total at little cost to local jobs."""
    yield global_first_is_better(at)
    yield at_most(*at.locals(first(at)))


def eq_depends_more(*views: View) -> Iterator[Comparison]:
    """Test that the rise of the local response from LF to GF is larger with EQ, for each mix."""
    count = len(views) // 2
    for eq, lp in zip(views[:count], views[count:], strict=True):
        yield ratio_higher(local_rise(eq, "EQ"), local_rise(lp, "LP"))


QUEUES = {
    "3.3-1": claim(
        "LP is the best for local jobs.",
        each(FIGURES_9_TO_14, lambda at: lowest(at.local("LP-GF"), at.locals(BOTH))),
    ),
    "3.3-2": claim(
        "GP is the best for global jobs.",
        each(FIGURES_9_TO_14, lambda at: lowest(at.common("GP"), at.commons(BOTH))),
    ),
    "3.3-3": claim(
        "LP has a low response time for both local and global queues.",
        each(FIGURES_9_TO_14, lambda at: in_both_queues(at, "LP-GF")),
        reading="both closer to the best of LP, EQ, GP and LQ than to the worst",
    ),
    "3.3-4": claim(
        "EQ has a low response time for both local and global queues.",
        each(FIGURES_9_TO_14, lambda at: in_both_queues(at, "EQ-GF")),
        reading="both closer to the best of LP, EQ, GP and LQ than to the worst",
    ),
    "3.3-5": claim(
        "EQ is better than LP for the global queue.",
        each(FIGURES_9_TO_14, lambda at: lower(at.common("EQ-GF"), at.common("LP-GF"))),
    ),
    "3.3-6": claim(
        "LP is better than EQ for the local queues.",
        each(FIGURES_9_TO_14, lambda at: lower(at.local("LP-GF"), at.local("EQ-GF"))),
    ),
    "3.3-7": claim(
        "With many multi-component jobs, LQ gives the global queue the smaller response time.",
        each(charts_of(9), lambda at: lower(at.common("LQ"), at.local("LQ"))),
    ),
    "3.3-8": claim(
        "With many single-component jobs, LQ gives the local queues the smaller one.",
        each(charts_of(13, 14), lambda at: lower(at.local("LQ"), at.common("LQ"))),
    ),
    "3.3-9": claim(
        "LQ gives large jobs, single- or multi-component, a chance sooner than policies that "
        "do not favour that type.",
        each(
            FIGURES_9_TO_14,
            lambda at: (
                lower(at.large("LQ", kind), at.large(other, kind))
                for kind, others in (("single", ("EQ-GF", "GP")), ("multi", ("EQ-GF", "LP-GF")))
                for other in others
            ),
        ),
        reading="the tenth of each type with most processors responds quicker than with EQ, and "
        "than with GP (single) or LP (multi)",
    ),
    "3.3-10": claim(
        "LQ keeps the lengths of the queues balanced.",
        each(
            FIGURES_9_TO_14,
            lambda at: (even_lengths(at, "LQ", other) for other in ("GP", "LP-GF", "EQ-GF")),
        ),
        reading="mean numbers of waiting jobs in the global and a local queue differ less than "
        "with GP, LP and EQ",
    ),
    "3.3-11": claim(
        "LQ switches its behaviour between GP and LP.",
        each(
            FIGURES_9_TO_14,
            lambda at: (
                *ascending(at.local("LP-GF"), at.local("LQ"), at.local("GP")),
                *ascending(at.common("GP"), at.common("LQ"), at.common("LP-GF")),
            ),
        ),
        reading="its local and its global response lie between theirs",
    ),
    "3.3-12": claim(
        "With LQ, jobs of one type are more sensitive to those of the other than with EQ, GP "
        "and LP.",
        across(
            (HALF_TWO, HALF_FOUR),
            lambda two, four: (reacts_more(two, four, other) for other in ("EQ-GF", "GP", "LP-GF")),
        ),
        reading="the local response changes by a larger factor from (50,50,0,0) to (50,0,0,50), at "
        "the same utilisation",
    ),
    "3.3-13": claim(
        "GP and LQ delay the local jobs.",
        each(
            FIGURES_9_TO_14,
            lambda at: all_higher(at.locals(("GP", "LQ")), at.locals(("LP-GF", "EQ-GF"))),
        ),
        reading="they respond slower than with LP and EQ",
    ),
    "3.3-14": claim(
        "With LP and EQ, many global jobs do not deteriorate the performance of local jobs.",
        across(
            (QUARTERS, NINETY),
            lambda many, few: (
                at_most(many.local(policy), few.local(policy)) for policy in ("LP-GF", "EQ-GF")
            ),
        ),
        reading="at the same utilisation, local jobs respond at most 10 % slower in (25,25,25,25) "
        "than in (90,0,0,10)",
    ),
    "3.3-15": claim(
        "With LP and EQ, multi-component jobs can do significantly worse than the system.",
        each(
            charts_of(13, 14),
            lambda at: (
                higher_by(MUCH, at.common(policy), at.total(policy))
                for policy in ("LP-GF", "EQ-GF")
            ),
        ),
        reading=f"with 80 % and 90 % local jobs they respond slower than the mean by at least "
        f"{share(MUCH)}",
    ),
    "3.3-16": claim(
        "That LP enables the global queue first (LP-GF) has a positive effect overall.",
        each(charts_of(5), global_first_is_better),
    ),
    "3.3-17": claim(
        "LP-GF slightly deteriorates the local queues.",
        each(charts_of(5), lambda at: slightly_lower(at.local("LP-LF"), at.local("LP-GF"))),
    ),
    "3.3-18": claim(
        "With LP-GF, the better the global jobs fit, the worse for the local jobs.",
        at_one_load(charts_of(5, cases=COMPONENTS_RISE), fewer_components_hurt_more("LP")),
        reading="the rise from LF to GF: (50,50,0,0) over (50,25,25,0) over (50,0,0,50), at the "
        "same utilisation",
    ),
    "3.3-19": claim(
        "That local jobs suffer more from global jobs that fit better is even stronger for EQ-GF.",
        at_one_load(charts_of(7, 5, cases=COMPONENTS_RISE), eq_depends_more),
        reading="the rise from LF to GF is larger with EQ in each of these cases",
    ),
    "3.3-20": claim(
        "In most cases, the GF version is better for both EQ and LP.",
        each(LP_AND_EQ, global_first_is_better),
        rule=Rule.MOST,
    ),
    "3.3-21": claim(
        "Enabling the global queue first improves the total and has little influence on local "
        "jobs.",
        each(LP_AND_EQ, global_first_costs_little),
        rule=Rule.MOST,
        reading=f"in most cases; local jobs respond at most {share(LITTLE)} slower",
    ),
}


def loses_more(at: View) -> Iterator[Comparison]:
    """Test that LP-LF loses a larger share in the total, and in the global queue, than local jobs
    gain."""
    for name in (View.total, View.common):
        yield ratio_higher(
            (name(at, "LP-LF"), name(at, "LP-GF")), (at.local("LP-GF"), at.local("LP-LF"))
        )


CONCLUSIONS = {
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
        reading="its total is lower; that it is so slightly only is not tested",
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
    "4-9": claim(
        "With many single-component jobs, one global scheduler that may run them anywhere is "
        "better than keeping them local.",
        each(
            charts_of(13, 14),
            lambda at: lowest(at.total("GS"), at.totals(SIX)),
        ),
        reading="another reading of the same sentence: GS is better than every policy that keeps "
        "them local",
    ),
}
