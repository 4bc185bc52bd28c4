"""Claims about the versions of LP and EQ (Multiple queues 3.1.2 and 3.1.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from koala.lab.papers.comparisons import (
    LITTLE,
    MUCH,
    ascending,
    at_most,
    higher,
    higher_by,
    highest,
    lower,
    lower_by,
    lowest,
    ratio_higher,
    ratio_higher_by,
    share,
    slightly_lower,
)
from koala.lab.papers.multiqueue.charts import (
    ALIKE,
    FIGURES_9_TO_14,
    HALF_FOUR,
    HALF_TWO,
    HALF_TWO_THREE,
    QUARTERS,
    Phrase,
    View,
    at_one_load,
    between,
    charts_of,
    claim,
    each,
    first_and_last_alike,
    unmoved_by_reversal,
)
from koala.lab.papers.paper import Claim, Comparison, Rule
from koala.lab.sim.runs import Quantity

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


def in_either_order(policy: str) -> Claim:
    """Make the second reading of the sentence on the order of the local queues (3.1.2-13,
    3.1.3-13), of the runs that 2.5-6 compares."""
    return claim(
        "The order in which local queues are enabled does not matter.",
        each(FIGURES_9_TO_14, lambda at: unmoved_by_reversal(at, (policy,))),
        reading=f"another test of the same sentence: with the order reversed and all else equal, "
        f"local jobs respond the same under {policy}, in the cases of figures 9 to 14",
    )


GLOBAL_FIRST: dict[str, Claim] = {
    **both("LP", "3.1.2", 5, 6),
    "3.1.2-24": in_either_order("LP-GF"),
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
    "3.1.3-30": in_either_order("EQ-GF"),
}
