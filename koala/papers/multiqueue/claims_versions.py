"""Claims about the versions of LS, LP and EQ (Multiple queues 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from koala.papers.comparisons import (
    LITTLE,
    MUCH,
    all_close,
    ascending,
    at_most,
    bad,
    close,
    good,
    higher,
    higher_by,
    highest,
    lower,
    lower_by,
    lowest,
    not_highest,
    ratio_higher,
    ratio_higher_by,
    share,
    shown,
    slightly_lower,
)
from koala.papers.multiqueue.charts import (
    ALIKE,
    EQ,
    HALF_FOUR,
    HALF_TWO,
    HALF_TWO_THREE,
    LP,
    LS,
    QUARTERS,
    SINGLE,
    Chart,
    Phrase,
    View,
    at_one_load,
    between,
    charts_of,
    claim,
    each,
    first_and_last_alike,
)
from koala.papers.paper import Claim, Comparison, Rule
from koala.papers.runs import Quantity

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


COMPONENTS_RISE = (HALF_TWO, HALF_TWO_THREE, HALF_FOUR)
"""Cases with the same share of global jobs, and more and more components."""
FEW_COMPONENTS = charts_of(7, 5, cases=(HALF_TWO,))


def local_rise(at: View, policy: str) -> tuple[Quantity, Quantity]:
    """Return the local response with GF and with LF, which it exceeds."""
    return at.local(f"{policy}-GF"), at.local(f"{policy}-LF")


def fewer_components_hurt_more(policy: str) -> Callable[[View, View, View], Iterator[Comparison]]:
    """Compare the rise of the local response from LF to GF: (50,50,0,0) over (50,25,25,0) over
    (50,0,0,50)."""

    def phrase(*views: View) -> Iterator[Comparison]:
        for fewer, more in pairwise(local_rise(at, policy) for at in views):
            yield ratio_higher(fewer, more)

    return phrase


def balanced_claims(policy: str, figure: int) -> tuple[Claim, ...]:
    """List the claims that the paper makes of LP and of EQ in nearly the same words (3.1.2 and
    3.1.3)."""
    gf, lf, rd = (f"{policy}-{order}" for order in ("GF", "LF", "RD"))
    versions = (lf, gf, rd)
    charts = charts_of(figure)
    many_global = charts_of(figure, cases=(QUARTERS, HALF_FOUR))
    effect, gain = {"LP": ("a good", 0.0), "EQ": ("a very good", MUCH)}[policy]
    return (
        claim(
            f"{gf} has the best total performance in all charts of figure {figure}.",
            each(charts, lambda at: lowest(at.total(gf), at.totals(versions))),
        ),
        claim(
            f"The global queue responds quickest with {gf}.",
            each(charts, lambda at: lowest(at.common(gf), at.commons(versions))),
        ),
        claim(
            f"In most cases {gf} deteriorates the local queues very little, against {lf}.",
            each(charts, lambda at: at_most(at.local(gf), at.local(lf))),
            rule=Rule.MOST,
            reading=f"by less than {share(LITTLE)}",
        ),
        claim(
            f"For the global queue, {lf} causes a large increase over {gf}.",
            each(charts, lambda at: higher_by(MUCH, at.common(lf), at.common(gf))),
            reading=f"by at least {share(MUCH)}",
        ),
        claim(
            f"{lf} has the highest total of the three.",
            each(charts, lambda at: highest(at.total(lf), at.totals(versions))),
        ),
        claim(
            f"{lf} is very bad for the global jobs.",
            each(
                charts,
                lambda at: (
                    higher_by(MUCH, at.common(lf), at.common(gf)),
                    higher(at.common(lf), at.common(rd)),
                ),
            ),
            reading=f"they respond slower than with {gf} and {rd}, than {gf} by at least "
            f"{share(MUCH)}",
        ),
        claim(
            f"In all these cases the total of {rd} lies between those of {gf} and {lf}.",
            each(charts, lambda at: ascending(*at.totals((gf, rd, lf)))),
        ),
        claim(
            f"In all these cases the global queue's response time with {rd} lies between theirs.",
            each(charts, lambda at: ascending(*at.commons((gf, rd, lf)))),
        ),
        claim(
            f"In all these cases the local queues' response time with {rd} lies between theirs.",
            each(charts, lambda at: ascending(*at.locals((lf, rd, gf)))),
        ),
        claim(
            f"With {gf} the local queues suffer more, against {lf}, when global jobs have "
            "fewer components (see (50,50,0,0)).",
            at_one_load(
                charts_of(figure, cases=COMPONENTS_RISE), fewer_components_hurt_more(policy)
            ),
        ),
        claim(
            f"With many global jobs of many components, {gf} does not bother local jobs much.",
            each(many_global, lambda at: at_most(at.local(gf), at.local(lf))),
            reading=f"less than {share(LITTLE)} against {lf}, in (25,25,25,25) and (50,0,0,50)",
        ),
        claim(
            f"With many global jobs of many components, {gf} has {effect} effect on them.",
            each(many_global, lambda at: higher_by(gain, at.common(lf), at.common(gf))),
        ),
        claim(
            "The order in which local queues are enabled does not matter.",
            each(charts, lambda at: first_and_last_alike(at, versions)),
            reading=ALIKE,
        ),
    )


def unbalanced_claims(policy: str, figure: int) -> tuple[Claim, ...]:
    """List the claims about both when local queues are unbalanced (figures 6 and 8)."""
    gf, lf, rd = (f"{policy}-{order}" for order in ("GF", "LF", "RD"))
    versions = (lf, gf, rd)
    total_of_gf: tuple[str, Phrase]
    local_of_rd: tuple[str, Phrase]
    if policy == "LP":
        total_of_gf = "a high total average", lambda at: highest(at.total(gf), at.totals(versions))
        local_of_rd = "higher", lambda at: lower(at.local(lf), at.local(rd))
    else:
        total_of_gf = "a much worse total", lambda at: higher_by(MUCH, at.total(gf), at.total(lf))
        local_of_rd = "slightly higher", lambda at: slightly_lower(at.local(lf), at.local(rd))
    sentences: dict[str, Phrase] = {
        f"{lf} has the best total performance.": lambda at: lowest(
            at.total(lf), at.totals(versions)
        ),
        f"{lf} lets the most loaded queue fit its jobs without being bothered.": lambda at: lowest(
            at.queue(lf, 1), [at.queue(one, 1) for one in versions]
        ),
        f"{lf} is best for the local jobs.": lambda at: lowest(at.local(lf), at.locals(versions)),
        f"{lf} has a bad performance for the global queue.": lambda at: higher_by(
            MUCH, at.common(lf), at.common(gf)
        ),
        f"{gf} has {total_of_gf[0]}.": total_of_gf[1],
        f"{gf} has a very high average response time for the local queues.": lambda at: higher_by(
            MUCH, at.local(gf), at.local(lf)
        ),
        f"{rd} has a slightly worse total than {lf}.": lambda at: slightly_lower(
            at.total(lf), at.total(rd)
        ),
        f"{rd} has a {local_of_rd[0]} response time for the local queues than {lf}.": (
            local_of_rd[1]
        ),
        f"{rd} has a much lower response time for the global queue than {lf}.": lambda at: lower_by(
            MUCH, at.common(rd), at.common(lf)
        ),
        f"Total and local queues are not much worse with {rd} than with {lf}.": lambda at: (
            at_most(at.total(rd), at.total(lf), above=MUCH),
            at_most(at.local(rd), at.local(lf), above=MUCH),
        ),
    }
    return tuple(
        claim(f"Unbalanced: {text}", each(charts_of(figure), phrase))
        for text, phrase in sentences.items()
    )


def both(policy: str, section: str, balanced: int, unbalanced: int) -> dict[str, Claim]:
    """List the claims about LP or EQ, with balanced and with unbalanced queues."""
    claims = (*balanced_claims(policy, balanced), *unbalanced_claims(policy, unbalanced))
    return {f"{section}-{number}": one for number, one in enumerate(claims, start=1)}


GLOBAL_FIRST: dict[str, Claim] = {
    **both("LP", "3.1.2", 5, 6),
    **both("EQ", "3.1.3", 7, 8),
    "3.1.3-24": claim(
        "With few components, EQ-GF deteriorates the local queues significantly more than "
        "LP-GF does.",
        at_one_load(
            FEW_COMPONENTS,
            lambda eq, lp: ratio_higher_by(MUCH, local_rise(eq, "EQ"), local_rise(lp, "LP")),
        ),
        reading="in (50,50,0,0): the rise from LF to GF is larger by at least 25 %",
    ),
    "3.1.3-25": claim(
        "LP-GF still gives priority to local jobs, EQ-GF does not.",
        between(
            FEW_COMPONENTS,
            lambda eq, lp: (
                lower(lp.local("LP-GF"), lp.common("LP-GF")),
                higher(eq.local("EQ-GF"), eq.common("EQ-GF")),
            ),
        ),
        reading="in (50,50,0,0): local jobs are the quicker ones with LP-GF only",
    ),
    "3.1.3-26": claim(
        "When global jobs have few components, EQ-GF serves the global queue better than the "
        "local ones.",
        each(FEW_COMPONENTS[:1], lambda at: lower(at.common("EQ-GF"), at.local("EQ-GF"))),
    ),
    "3.1.3-27": claim(
        "In (50,50,0,0) the total of EQ-RD is only slightly worse than that of EQ-GF.",
        each(FEW_COMPONENTS[:1], lambda at: slightly_lower(at.total("EQ-GF"), at.total("EQ-RD"))),
    ),
    "3.1.3-28": claim(
        "In (50,50,0,0) EQ-RD is almost as good as EQ-LF for the local queues.",
        each(FEW_COMPONENTS[:1], lambda at: at_most(at.local("EQ-RD"), at.local("EQ-LF"))),
    ),
    "3.1.3-29": claim(
        "In (50,50,0,0) EQ-RD is much better than EQ-LF for the global queue.",
        each(FEW_COMPONENTS[:1], lambda at: lower_by(MUCH, at.common("EQ-RD"), at.common("EQ-LF"))),
    ),
}
