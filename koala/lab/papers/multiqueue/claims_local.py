"""Claims about the versions of LS (Multiple queues 3.1 and 3.1.1)."""

from __future__ import annotations

from collections.abc import Iterable

from koala.lab.papers.comparisons import (
    MUCH,
    all_close,
    ascending,
    bad,
    close,
    good,
    higher_by,
    highest,
    lower,
    lower_by,
    lowest,
    not_highest,
    ratio_higher,
    shown,
)
from koala.lab.papers.multiqueue.charts import (
    EQ,
    LP,
    LS,
    SINGLE,
    Chart,
    at_one_load,
    charts_of,
    claim,
    each,
)
from koala.lab.papers.paper import Comparison, Rule
from koala.lab.sim.runs import Quantity

FIGURE_3 = charts_of(3)
FIGURE_3_SINGLE_TOO = tuple(chart for chart in FIGURE_3 if chart.case.mix[0])
ONLY_SINGLE = (Chart(case=SINGLE, policies=("LS-DO",), figure=3),)


def matters(totals: Iterable[Quantity]) -> Comparison:
    """Test that the order of visiting makes a difference of MUCH between the worst and the best
    version."""
    of = tuple(totals)
    text = f"worst of {', '.join(map(str, of))} > {1 + MUCH:g} × best"
    return shown(text, lambda *values: max(values) - (1 + MUCH) * min(values), *of)


def more_uneven(one: tuple[Quantity, ...], other: tuple[Quantity, ...]) -> Comparison:
    """Test that the queues' mean response times lie farther apart in one than in the other."""
    count = len(one)

    def contrast(*values: float) -> float:
        first, second = values[:count], values[count:]
        return (max(first) - min(first)) - (max(second) - min(second))

    names = [str(queues[0]).removesuffix(" queue 1") for queues in (one, other)]
    return shown(f"range of the queues' means: {names[0]} > {names[1]}", contrast, *one, *other)


LOCAL_SCHEDULERS = {
    "3.1-1": claim(
        "For LS, the order in which queues are enabled has a significant influence.",
        each(charts_of(3, 4), lambda at: matters(at.totals(LS))),
        rule=Rule.MOST,
    ),
    "3.1-2": claim(
        "For LP, the order in which queues are enabled has a significant influence.",
        each(charts_of(5, 6), lambda at: matters(at.totals(LP))),
        rule=Rule.MOST,
    ),
    "3.1-3": claim(
        "For EQ, the order in which queues are enabled has a significant influence.",
        each(charts_of(7, 8), lambda at: matters(at.totals(EQ))),
        rule=Rule.MOST,
    ),
    "3.1.1-1": claim(
        "With single-component jobs alone, the order of enabling has no influence.",
        each(
            ONLY_SINGLE,
            lambda at: all_close(at.total("LS-OR"), at.totals(LS[1:]), within=0.01),
        ),
        reading="the versions' means are within 1 % of one another",
    ),
    "3.1.1-2": claim(
        "In all balanced cases LS-DO performs best.",
        each(FIGURE_3, lambda at: lowest(at.total("LS-DO"), at.totals(LS))),
    ),
    "3.1.1-3": claim(
        "With LS-DO the lengths of the queues stay similar.",
        each(FIGURE_3, lambda at: all_close(at.queue("LS-DO", 1), at.queues("LS-DO")[1:])),
        reading="mean response times by queue are within 10 % of one another; in the balanced "
        "case they stand for lengths (Little's law)",
    ),
    "3.1.1-4": claim(
        "LS-OR performs worst in figures 3a to 3g.",
        each(FIGURE_3[:7], lambda at: highest(at.total("LS-OR"), at.totals(LS))),
    ),
    "3.1.1-5": claim(
        "LS-OR favours the queues that are visited earlier.",
        each(FIGURE_3[:7], lambda at: ascending(*at.queues("LS-OR"))),
    ),
    "3.1.1-6": claim(
        "LS-OR keeps especially the first queue empty and lets the last one grow.",
        each(
            FIGURE_3[:7],
            lambda at: lower_by(MUCH, at.queue("LS-OR", 1), at.queue("LS-OR", 4)),
        ),
        reading="jobs of the last queue respond slower by at least 25 %",
    ),
    "3.1.1-7": claim(
        "LS-OR unbalances the lengths of the queues, more than LS-RD and LS-DO.",
        each(
            FIGURE_3[:7],
            lambda at: (
                more_uneven(at.queues("LS-OR"), at.queues(other)) for other in ("LS-RD", "LS-DO")
            ),
        ),
        reading="lengths by Little's law, from the queues' mean response times",
    ),
    "3.1.1-8": claim(
        "LS-RD performs very well in figures 3a to 3h.",
        each(FIGURE_3, lambda at: good(at.total("LS-RD"), at.totals(LS))),
        reading="closer to the best version than to the worst",
    ),
    "3.1.1-9": claim(
        "LS-RD keeps the lengths of the queues balanced in general.",
        each(FIGURE_3, lambda at: all_close(at.queue("LS-RD", 1), at.queues("LS-RD")[1:])),
        rule=Rule.MOST,
    ),
    "3.1.1-10": claim(
        "LS-RD delays jobs that are hard to fit: multi-component jobs wait less under LS-DO.",
        each(FIGURE_3, lambda at: lower(at.multi("LS-DO"), at.multi("LS-RD"))),
    ),
    "3.1.1-11": claim(
        "LS-DO therefore performs better than LS-RD.",
        each(FIGURE_3, lambda at: lower(at.total("LS-DO"), at.total("LS-RD"))),
    ),
    "3.1.1-12": claim(
        "In figures 3a to 3f, LS-RO is close to LS-RD.",
        each(FIGURE_3[:6], lambda at: close(at.total("LS-RO"), at.total("LS-RD"))),
    ),
    "3.1.1-13": claim(
        "LS-RO is good for single-component jobs: it gives them a better chance to run.",
        each(
            FIGURE_3_SINGLE_TOO,
            lambda at: (
                lower(at.single("LS-RO"), at.single(other)) for other in ("LS-RD", "LS-DO")
            ),
        ),
        reading="their mean response time is lower than under LS-RD and LS-DO",
    ),
    "3.1.1-14": claim(
        "Where single-component jobs are no majority, LS-RO performs well.",
        each(FIGURE_3[:6], lambda at: good(at.total("LS-RO"), at.totals(LS))),
        reading="closer to the best version than to the worst",
    ),
    "3.1.1-15": claim(
        "With 80 % and 90 % single-component jobs, LS-RO is a bad choice.",
        each(FIGURE_3[6:], lambda at: bad(at.total("LS-RO"), at.totals(LS))),
        reading="closer to the worst version than to the best",
    ),
    "3.1.1-16": claim(
        "With 80 % and 90 % single-component jobs, LS-RO gives others very little chance.",
        each(
            FIGURE_3[6:],
            lambda at: (
                higher_by(MUCH, at.multi("LS-RO"), at.multi(other)) for other in ("LS-RD", "LS-DO")
            ),
        ),
        reading="they respond slower than under LS-RD and LS-DO by at least 25 %",
    ),
    "3.1.1-17": claim(
        "With 80 % and 90 % single-component jobs, LS-OR keeps the queues unbalanced.",
        each(FIGURE_3[6:], lambda at: more_uneven(at.queues("LS-OR"), at.queues("LS-DO"))),
        reading="the range of the queues' means is larger than under LS-DO",
    ),
    "3.1.1-18": claim(
        "With 80 % and 90 % single-component jobs, LS-RO unbalances the queues most.",
        each(
            FIGURE_3[6:],
            lambda at: (
                more_uneven(at.queues("LS-RO"), at.queues(other))
                for other in ("LS-OR", "LS-RD", "LS-DO")
            ),
        ),
        reading="the range of the queues' means within a run, averaged over runs, is the largest",
    ),
    "3.1.1-19": claim(
        "LS-OR improves when the share of multi-component jobs is very low (figure 3h).",
        at_one_load(
            FIGURE_3[6:],
            lambda eighty, ninety: ratio_higher(
                (eighty.total("LS-OR"), eighty.total("LS-DO")),
                (ninety.total("LS-OR"), ninety.total("LS-DO")),
            ),
        ),
        reading="its excess over LS-DO is smaller at 90 % than at 80 % single-component jobs",
    ),
    "3.1.1-20": claim(
        "In figure 3h, LS-OR is no longer the worst.",
        each(
            FIGURE_3[7:],
            lambda at: not_highest(at.total("LS-OR"), at.totals(LS)),
        ),
    ),
    "3.1.1-21": claim(
        "In the unbalanced case LS-OR performs best.",
        each(charts_of(4), lambda at: lowest(at.total("LS-OR"), at.totals(LS))),
    ),
    "3.1.1-22": claim(
        "LS-DO, LS-RD and LS-RO let the loaded queue grow; LS-OR gives it priority.",
        each(
            charts_of(4),
            lambda at: lowest(at.queue("LS-OR", 1), [at.queue(one, 1) for one in LS]),
        ),
        reading="jobs of queue 1 respond quicker under LS-OR",
    ),
    "3.1.1-23": claim(
        "In the unbalanced case LS-RO performs worst.",
        each(charts_of(4), lambda at: highest(at.total("LS-RO"), at.totals(LS))),
    ),
    "3.1.1-24": claim(
        "LS-DO yields a better balance of the queues' lengths than LS-RD.",
        each(FIGURE_3, lambda at: more_uneven(at.queues("LS-RD"), at.queues("LS-DO"))),
        reading="the range of the queues' means within a run, averaged over runs, is larger under "
        "LS-RD",
    ),
    "3.1.1-25": claim(
        "With 80 % single-component jobs and more, LS-DO and LS-RD keep the load balanced.",
        each(
            FIGURE_3[6:],
            lambda at: (
                all_close(at.queue(one, 1), at.queues(one)[1:]) for one in ("LS-DO", "LS-RD")
            ),
        ),
        reading="the queues' means are within 10 % of one another",
    ),
}
