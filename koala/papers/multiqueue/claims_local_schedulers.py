"""Claims about policies with several versions in general, and about LS (Multiple queues 3.1 and
3.1.1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from koala.papers.claims import (
    MUCH,
    ascending,
    bad,
    close,
    good,
    higher,
    highest,
    lower,
    lowest,
    not_highest,
    ratio_higher,
)
from koala.papers.multiqueue.charts import (
    EIGHTY,
    EQ,
    FIGURE_3,
    FIGURE_4,
    FIGURE_5,
    FIGURE_6,
    FIGURE_7,
    FIGURE_8,
    LP,
    LS,
    NINETY,
    SINGLE,
    Chart,
    between,
    each,
    of_cases,
)
from koala.papers.paper import Claim, Comparison, Quantity, Rule

FIGURE_3A_TO_G = of_cases(FIGURE_3, without=(NINETY,))
FIGURE_3A_TO_F = of_cases(FIGURE_3, without=(EIGHTY, NINETY))
FIGURE_3G_H = of_cases(FIGURE_3, (EIGHTY, NINETY))
FIGURE_3_SINGLE_TOO = tuple(chart for chart in FIGURE_3 if chart.case.mix[0])
ONLY_SINGLE = (Chart(case=SINGLE, policies=("LS-DO",)),)


def matters(totals: Iterable[Quantity]) -> Comparison:
    """Test that the order of visiting makes a difference of MUCH between the worst and the best
    version."""
    of = tuple(totals)
    return Comparison(
        text=f"worst of {', '.join(map(str, of))} > {1 + MUCH:g} × best",
        of=of,
        contrast=lambda *values: max(values) - (1 + MUCH) * min(values),
    )


def more_uneven(one: tuple[Quantity, ...], other: tuple[Quantity, ...]) -> Comparison:
    """Test that the queues' mean response times lie farther apart in one than in the other."""
    count = len(one)

    def contrast(*values: float) -> float:
        first, second = values[:count], values[count:]
        return (max(first) - min(first)) - (max(second) - min(second))

    names = [str(queues[0]).removesuffix(" queue 1") for queues in (one, other)]
    return Comparison(
        text=f"range of the queues' means: {names[0]} > {names[1]}",
        of=(*one, *other),
        contrast=contrast,
    )


def even(queues: tuple[Quantity, ...]) -> Iterator[Comparison]:
    """Test that each queue's mean response time is close to that of the first."""
    for queue in queues[1:]:
        yield from close(queues[0], queue)


IN_GENERAL = (
    Claim(
        id="3.1-1",
        section="3.1",
        text="For LS, the order in which queues are enabled has a significant influence.",
        figures=(3, 4),
        rule=Rule.MOST,
        test=each((*FIGURE_3, *FIGURE_4), lambda at: (matters(at.totals(LS)),)),
    ),
    Claim(
        id="3.1-2",
        section="3.1",
        text="For LP, the order in which queues are enabled has a significant influence.",
        figures=(5, 6),
        rule=Rule.MOST,
        test=each((*FIGURE_5, *FIGURE_6), lambda at: (matters(at.totals(LP)),)),
    ),
    Claim(
        id="3.1-3",
        section="3.1",
        text="For EQ, the order in which queues are enabled has a significant influence.",
        figures=(7, 8),
        rule=Rule.MOST,
        test=each((*FIGURE_7, *FIGURE_8), lambda at: (matters(at.totals(EQ)),)),
    ),
)

LS_CLAIMS = (
    Claim(
        id="3.1.1-1",
        section="3.1.1",
        text="With single-component jobs alone, the order of enabling has no influence.",
        figures=(3,),
        reading="the versions' means are within 1 % of one another",
        test=each(
            ONLY_SINGLE,
            lambda at: (
                comparison
                for version in LS[1:]
                for comparison in close(at.total("LS-OR"), at.total(version), within=0.01)
            ),
        ),
    ),
    Claim(
        id="3.1.1-2",
        section="3.1.1",
        text="In all balanced cases LS-DO performs best.",
        figures=(3,),
        test=each(FIGURE_3, lambda at: lowest(at.total("LS-DO"), at.totals(LS))),
    ),
    Claim(
        id="3.1.1-3",
        section="3.1.1",
        text="With LS-DO the lengths of the queues stay similar.",
        figures=(3,),
        reading="mean response times by queue are within 10 % of one another; in the balanced "
        "case they stand for lengths (Little's law)",
        test=each(FIGURE_3, lambda at: even(at.queues("LS-DO"))),
    ),
    Claim(
        id="3.1.1-4",
        section="3.1.1",
        text="LS-OR performs worst in figures 3a to 3g.",
        figures=(3,),
        test=each(FIGURE_3A_TO_G, lambda at: highest(at.total("LS-OR"), at.totals(LS))),
    ),
    Claim(
        id="3.1.1-5",
        section="3.1.1",
        text="LS-OR favours the queues that are visited earlier.",
        figures=(3,),
        test=each(FIGURE_3A_TO_G, lambda at: ascending(*at.queues("LS-OR"))),
    ),
    Claim(
        id="3.1.1-6",
        section="3.1.1",
        text="LS-OR keeps especially the first queue empty and lets the last one grow.",
        figures=(3,),
        reading="jobs of the last queue respond slower by at least 25 %",
        test=each(
            FIGURE_3A_TO_G,
            lambda at: (lower(at.queue("LS-OR", 1), at.queue("LS-OR", 4), by=MUCH),),
        ),
    ),
    Claim(
        id="3.1.1-7",
        section="3.1.1",
        text="LS-OR unbalances the lengths of the queues, more than LS-RD and LS-DO.",
        figures=(3,),
        reading="lengths by Little's law, from the queues' mean response times",
        test=each(
            FIGURE_3A_TO_G,
            lambda at: (
                more_uneven(at.queues("LS-OR"), at.queues(other)) for other in ("LS-RD", "LS-DO")
            ),
        ),
    ),
    Claim(
        id="3.1.1-8",
        section="3.1.1",
        text="LS-RD performs very well in figures 3a to 3h.",
        figures=(3,),
        reading="closer to the best version than to the worst",
        test=each(FIGURE_3, lambda at: (good(at.total("LS-RD"), at.totals(LS)),)),
    ),
    Claim(
        id="3.1.1-9",
        section="3.1.1",
        text="LS-RD keeps the lengths of the queues balanced in general.",
        figures=(3,),
        rule=Rule.MOST,
        test=each(FIGURE_3, lambda at: even(at.queues("LS-RD"))),
    ),
    Claim(
        id="3.1.1-10",
        section="3.1.1",
        text="LS-RD delays jobs that are hard to fit: multi-component jobs wait less under LS-DO.",
        figures=(3,),
        test=each(FIGURE_3, lambda at: (lower(at.multi("LS-DO"), at.multi("LS-RD")),)),
    ),
    Claim(
        id="3.1.1-11",
        section="3.1.1",
        text="LS-DO therefore performs better than LS-RD.",
        figures=(3,),
        test=each(FIGURE_3, lambda at: (lower(at.total("LS-DO"), at.total("LS-RD")),)),
    ),
    Claim(
        id="3.1.1-12",
        section="3.1.1",
        text="In figures 3a to 3f, LS-RO is close to LS-RD.",
        figures=(3,),
        test=each(FIGURE_3A_TO_F, lambda at: close(at.total("LS-RO"), at.total("LS-RD"))),
    ),
    Claim(
        id="3.1.1-13",
        section="3.1.1",
        text="LS-RO is good for single-component jobs: it gives them a better chance to run.",
        figures=(3,),
        reading="their mean response time is lower than under LS-RD and LS-DO",
        test=each(
            FIGURE_3_SINGLE_TOO,
            lambda at: (
                lower(at.single("LS-RO"), at.single(other)) for other in ("LS-RD", "LS-DO")
            ),
        ),
    ),
    Claim(
        id="3.1.1-14",
        section="3.1.1",
        text="Where single-component jobs are no majority, LS-RO performs well.",
        figures=(3,),
        reading="closer to the best version than to the worst",
        test=each(FIGURE_3A_TO_F, lambda at: (good(at.total("LS-RO"), at.totals(LS)),)),
    ),
    Claim(
        id="3.1.1-15",
        section="3.1.1",
        text="With 80 % and 90 % single-component jobs, LS-RO is a bad choice.",
        figures=(3,),
        reading="closer to the worst version than to the best",
        test=each(FIGURE_3G_H, lambda at: (bad(at.total("LS-RO"), at.totals(LS)),)),
    ),
    Claim(
        id="3.1.1-16",
        section="3.1.1",
        text="There, LS-RO gives multi-component jobs very little chance.",
        figures=(3,),
        reading="they respond slower than under LS-RD and LS-DO by at least 25 %",
        test=each(
            FIGURE_3G_H,
            lambda at: (
                higher(at.multi("LS-RO"), at.multi(other), by=MUCH) for other in ("LS-RD", "LS-DO")
            ),
        ),
    ),
    Claim(
        id="3.1.1-17",
        section="3.1.1",
        text="There, LS-OR keeps the lengths of the queues unbalanced.",
        figures=(3,),
        reading="the range of the queues' means is larger than under LS-DO",
        test=each(FIGURE_3G_H, lambda at: (more_uneven(at.queues("LS-OR"), at.queues("LS-DO")),)),
    ),
    Claim(
        id="3.1.1-18",
        section="3.1.1",
        text="There, LS-RO unbalances the queues most.",
        figures=(3,),
        reading="the range of the queues' means within a run, averaged over runs, is the largest",
        test=each(
            FIGURE_3G_H,
            lambda at: (
                more_uneven(at.queues("LS-RO"), at.queues(other))
                for other in ("LS-OR", "LS-RD", "LS-DO")
            ),
        ),
    ),
    Claim(
        id="3.1.1-19",
        section="3.1.1",
        text="LS-OR improves when the share of multi-component jobs is very low (figure 3h).",
        figures=(3,),
        reading="its excess over LS-DO is smaller at 90 % than at 80 % single-component jobs",
        test=between(
            of_cases(FIGURE_3, (EIGHTY, NINETY)),
            lambda eighty, ninety: (
                ratio_higher(
                    (eighty.total("LS-OR"), eighty.total("LS-DO")),
                    (ninety.total("LS-OR"), ninety.total("LS-DO")),
                ),
            ),
        ),
    ),
    Claim(
        id="3.1.1-20",
        section="3.1.1",
        text="In figure 3h, LS-OR is no longer the worst.",
        figures=(3,),
        test=each(
            of_cases(FIGURE_3, (NINETY,)),
            lambda at: (not_highest(at.total("LS-OR"), at.totals(LS)),),
        ),
    ),
    Claim(
        id="3.1.1-21",
        section="3.1.1",
        text="In the unbalanced case LS-OR performs best.",
        figures=(4,),
        test=each(FIGURE_4, lambda at: lowest(at.total("LS-OR"), at.totals(LS))),
    ),
    Claim(
        id="3.1.1-22",
        section="3.1.1",
        text="LS-DO, LS-RD and LS-RO let the loaded queue grow; LS-OR gives it priority.",
        figures=(4,),
        reading="jobs of queue 1 respond quicker under LS-OR",
        test=each(
            FIGURE_4,
            lambda at: lowest(at.queue("LS-OR", 1), [at.queue(one, 1) for one in LS]),
        ),
    ),
    Claim(
        id="3.1.1-23",
        section="3.1.1",
        text="In the unbalanced case LS-RO performs worst.",
        figures=(4,),
        test=each(FIGURE_4, lambda at: highest(at.total("LS-RO"), at.totals(LS))),
    ),
)


CLAIMS = (*IN_GENERAL, *LS_CLAIMS)
