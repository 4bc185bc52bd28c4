"""Claims about local against global queues (Multiple queues 3.3)."""

from __future__ import annotations

from collections.abc import Iterator

from koala.papers.claims import (
    LITTLE,
    MUCH,
    ascending,
    at_most,
    good,
    higher,
    lower,
    lowest,
    ratio_higher,
    slightly_lower,
)
from koala.papers.multiqueue.charts import (
    BOTH,
    FIGURE_5,
    FIGURE_6,
    FIGURE_7,
    FIGURE_8,
    FIGURE_9,
    FIGURE_13,
    FIGURE_14,
    FIGURES_9_TO_14,
    HALF_FOUR,
    HALF_TWO,
    HALF_TWO_THREE,
    NINETY,
    QUARTERS,
    View,
    across,
    between,
    each,
    of_cases,
)
from koala.papers.multiqueue.claims_global_first import fewer_components_hurt_more
from koala.papers.paper import Claim, Comparison, Quantity, Rule

LP_AND_EQ = (*FIGURE_5, *FIGURE_6, *FIGURE_7, *FIGURE_8)
BALANCED_LP_AND_EQ = (*FIGURE_5, *FIGURE_7)
SAME_SHARE = (HALF_TWO, HALF_TWO_THREE, HALF_FOUR)


def even_lengths(at: View, one: str, other: str) -> Comparison:
    """Test that the mean numbers of waiting jobs in the global and in a local queue differ less
    with one."""
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
    """Test for a low response time in the local and in the global queue."""
    yield good(at.local(policy), at.locals(BOTH))
    yield good(at.common(policy), at.commons(BOTH))


def reacts_more(fewer: View, more: View, other: str) -> Comparison:
    """Test that local jobs react more to the components of global jobs under LQ than under the
    other."""

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


def first(at: View) -> tuple[str, str]:
    """Return the versions of the chart's policy that enable the global queue first, and the local
    ones."""
    policy = at.chart.policies[0].split("-")[0]
    return f"{policy}-GF", f"{policy}-LF"


def global_first_is_better(at: View) -> Iterator[Comparison]:
    """Test that GF has the lower total."""
    gf, lf = first(at)
    yield lower(at.total(gf), at.total(lf))


def global_first_costs_little(at: View) -> Iterator[Comparison]:
    """Test that GF has the lower total at little cost to local jobs."""
    gf, lf = first(at)
    yield lower(at.total(gf), at.total(lf))
    yield at_most(at.local(gf), at.local(lf))


def eq_depends_more(*views: View) -> Iterator[Comparison]:
    """Test that the rise of the local response from LF to GF is larger with EQ, for each mix."""
    count = len(views) // 2
    for eq, lp in zip(views[:count], views[count:], strict=True):
        yield ratio_higher(
            (eq.local("EQ-GF"), eq.local("EQ-LF")), (lp.local("LP-GF"), lp.local("LP-LF"))
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
        test=each((*FIGURE_13, *FIGURE_14), lambda at: (lower(at.local("LQ"), at.common("LQ")),)),
    ),
    Claim(
        id="3.3-9",
        section="3.3",
        text="LQ gives large jobs, single- or multi-component, a chance sooner than policies that "
        "do not favour that type.",
        reading="the tenth of each type with most processors responds quicker than with EQ, and "
        "than with GP (single) or LP (multi)",
        figures=(9, 10, 11, 12, 13, 14),
        test=each(
            FIGURES_9_TO_14,
            lambda at: (
                lower(at.large("LQ", kind), at.large(other, kind))
                for kind, others in (("single", ("EQ-GF", "GP")), ("multi", ("EQ-GF", "LP-GF")))
                for other in others
            ),
        ),
    ),
    Claim(
        id="3.3-10",
        section="3.3",
        text="LQ keeps the lengths of the queues balanced.",
        reading="mean numbers of waiting jobs in the global and a local queue differ less than "
        "with GP, LP and EQ",
        figures=(9, 10, 11, 12, 13, 14),
        test=each(
            FIGURES_9_TO_14,
            lambda at: (even_lengths(at, "LQ", other) for other in ("GP", "LP-GF", "EQ-GF")),
        ),
    ),
    Claim(
        id="3.3-11",
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
        id="3.3-12",
        section="3.3",
        text="With LQ, jobs of one type are more sensitive to those of the other than with EQ, GP "
        "and LP.",
        reading="the local response changes by a larger factor from (50,50,0,0) to (50,0,0,50), at "
        "the same utilisation",
        figures=(10, 12),
        test=across(
            (HALF_TWO, HALF_FOUR),
            lambda two, four: (reacts_more(two, four, other) for other in ("EQ-GF", "GP", "LP-GF")),
        ),
    ),
    Claim(
        id="3.3-13",
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
        id="3.3-14",
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
        id="3.3-15",
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


GLOBAL_FIRST = (
    Claim(
        id="3.3-16",
        section="3.3",
        text="That LP enables the global queue first (LP-GF) has a positive effect overall.",
        figures=(5,),
        test=each(FIGURE_5, global_first_is_better),
    ),
    Claim(
        id="3.3-17",
        section="3.3",
        text="It slightly deteriorates the local queues.",
        figures=(5,),
        test=each(FIGURE_5, lambda at: slightly_lower(at.local("LP-LF"), at.local("LP-GF"))),
    ),
    Claim(
        id="3.3-18",
        section="3.3",
        text="With LP-GF, the better the global jobs fit, the worse for the local jobs.",
        reading="the rise from LF to GF: (50,50,0,0) over (50,25,25,0) over (50,0,0,50)",
        figures=(5,),
        test=between(of_cases(FIGURE_5, SAME_SHARE), fewer_components_hurt_more("LP")),
    ),
    Claim(
        id="3.3-19",
        section="3.3",
        text="This dependency is even stronger for EQ.",
        reading="the rise from LF to GF is larger with EQ in each of these cases",
        figures=(5, 7),
        test=between(
            (*of_cases(FIGURE_7, SAME_SHARE), *of_cases(FIGURE_5, SAME_SHARE)), eq_depends_more
        ),
    ),
    Claim(
        id="3.3-20",
        section="3.3",
        text="In most cases, the GF version is better for both EQ and LP.",
        figures=(5, 6, 7, 8),
        rule=Rule.MOST,
        test=each(LP_AND_EQ, global_first_is_better),
    ),
    Claim(
        id="3.3-21",
        section="3.3",
        text="Enabling the global queue first improves the total and has little influence on local "
        "jobs.",
        reading=f"in most cases; local jobs respond at most {100 * LITTLE:g} % slower",
        figures=(5, 6, 7, 8),
        rule=Rule.MOST,
        test=each(LP_AND_EQ, global_first_costs_little),
    ),
)

CLAIMS = (*QUEUES, *GLOBAL_FIRST)
