"""Claims about the versions of LP and EQ (Multiple queues 3.1.2 and 3.1.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from koala.papers.claims import (
    LITTLE,
    MUCH,
    ascending,
    at_most,
    close,
    higher,
    highest,
    lower,
    lowest,
    ratio_higher,
    slightly_lower,
)
from koala.papers.multiqueue.charts import (
    FIGURE_5,
    FIGURE_6,
    FIGURE_7,
    FIGURE_8,
    HALF_FOUR,
    HALF_TWO,
    HALF_TWO_THREE,
    QUARTERS,
    Chart,
    View,
    between,
    each,
    of_cases,
)
from koala.papers.paper import Claim, Comparison, Rule

COMPONENTS_RISE = (HALF_TWO, HALF_TWO_THREE, HALF_FOUR)
"""Cases with the same share of global jobs, and more and more components."""


def fewer_components_hurt_more(policy: str) -> Callable[[View, View, View], Iterator[Comparison]]:
    """Compare the rise of the local response from LF to GF: (50,50,0,0) over (50,25,25,0) over
    (50,0,0,50)."""

    def phrase(two: View, three: View, four: View) -> Iterator[Comparison]:
        pairs = [(at.local(f"{policy}-GF"), at.local(f"{policy}-LF")) for at in (two, three, four)]
        yield ratio_higher(pairs[0], pairs[1])
        yield ratio_higher(pairs[1], pairs[2])

    return phrase


def balanced_claims(
    policy: str, section: str, figure: int, charts: tuple[Chart, ...], first: int
) -> tuple[Claim, ...]:
    """List the claims that the paper makes of LP and of EQ in nearly the same words (3.1.2 and
    3.1.3)."""
    gf, lf, rd = (f"{policy}-{order}" for order in ("GF", "LF", "RD"))
    versions = (lf, gf, rd)
    many_global = of_cases(charts, (QUARTERS, HALF_FOUR))
    sentences: tuple[tuple[str, str, Rule, Callable[..., Iterable[Comparison]]], ...] = (
        (
            f"{gf} has the best total performance in all charts of figure {figure}.",
            "",
            Rule.ALL,
            lambda at: lowest(at.total(gf), at.totals(versions)),
        ),
        (
            f"The global queue responds quickest with {gf}.",
            "",
            Rule.ALL,
            lambda at: lowest(at.common(gf), at.commons(versions)),
        ),
        (
            f"In most cases {gf} deteriorates the local queues very little, against {lf}.",
            f"by less than {100 * LITTLE:g} %",
            Rule.MOST,
            lambda at: (at_most(at.local(gf), at.local(lf)),),
        ),
        (
            f"For the global queue, {lf} causes a large increase over {gf}.",
            f"by at least {100 * MUCH:g} %",
            Rule.ALL,
            lambda at: (higher(at.common(lf), at.common(gf), by=MUCH),),
        ),
        (
            f"{lf} has the highest total of the three.",
            "",
            Rule.ALL,
            lambda at: highest(at.total(lf), at.totals(versions)),
        ),
        (
            f"{lf} is very bad for the global jobs.",
            f"they respond slower than with {gf} and {rd}, than {gf} by at least {100 * MUCH:g} %",
            Rule.ALL,
            lambda at: (
                higher(at.common(lf), at.common(gf), by=MUCH),
                higher(at.common(lf), at.common(rd)),
            ),
        ),
        (
            f"In all these cases the total of {rd} lies between those of {gf} and {lf}.",
            "",
            Rule.ALL,
            lambda at: ascending(at.total(gf), at.total(rd), at.total(lf)),
        ),
        (
            f"So does the global queue's response time with {rd}.",
            "",
            Rule.ALL,
            lambda at: ascending(at.common(gf), at.common(rd), at.common(lf)),
        ),
        (
            f"So does the local queues' response time with {rd}.",
            "",
            Rule.ALL,
            lambda at: ascending(at.local(lf), at.local(rd), at.local(gf)),
        ),
    )
    claims = [
        Claim(
            id=f"{section}-{number}",
            section=section,
            text=text,
            reading=reading,
            figures=(figure,),
            rule=rule,
            test=each(charts, phrase),
        )
        for number, (text, reading, rule, phrase) in enumerate(sentences, start=first)
    ]
    number = first + len(claims)
    effect = {"LP": "a good", "EQ": "a very good"}[policy]
    gain = {"LP": 0.0, "EQ": MUCH}[policy]
    claims += [
        Claim(
            id=f"{section}-{number}",
            section=section,
            text=f"With {gf} the local queues suffer more, against {lf}, when global jobs have "
            "fewer components (see (50,50,0,0)).",
            figures=(figure,),
            test=between(of_cases(charts, COMPONENTS_RISE), fewer_components_hurt_more(policy)),
        ),
        Claim(
            id=f"{section}-{number + 1}",
            section=section,
            text=f"With many global jobs of many components, {gf} does not bother local jobs much.",
            reading=f"less than {100 * LITTLE:g} % against {lf}, in (25,25,25,25) and (50,0,0,50)",
            figures=(figure,),
            test=each(many_global, lambda at: (at_most(at.local(gf), at.local(lf)),)),
        ),
        Claim(
            id=f"{section}-{number + 2}",
            section=section,
            text=f"There, {gf} has {effect} effect on the global jobs.",
            figures=(figure,),
            test=each(many_global, lambda at: (higher(at.common(lf), at.common(gf), by=gain),)),
        ),
        Claim(
            id=f"{section}-{number + 3}",
            section=section,
            text="The order in which local queues are enabled does not matter.",
            reading="the first and the last of the equally loaded queues respond alike",
            figures=(figure,),
            test=each(
                charts,
                lambda at: (
                    comparison
                    for version in versions
                    for comparison in close(at.queue(version, 1), at.queue(version, 4))
                ),
            ),
        ),
    ]
    return tuple(claims)


def unbalanced_claims(
    policy: str, section: str, figure: int, charts: tuple[Chart, ...], first: int
) -> tuple[Claim, ...]:
    """List the claims about both when local queues are unbalanced (figures 6 and 8)."""
    gf, lf, rd = (f"{policy}-{order}" for order in ("GF", "LF", "RD"))
    versions = (lf, gf, rd)
    is_lp = policy == "LP"
    total_of_gf: Callable[[View], Iterable[Comparison]] = (
        (lambda at: highest(at.total(gf), at.totals(versions)))
        if is_lp
        else (lambda at: (higher(at.total(gf), at.total(lf), by=MUCH),))
    )
    local_of_rd: Callable[[View], Iterable[Comparison]] = (
        (lambda at: (lower(at.local(lf), at.local(rd)),))
        if is_lp
        else (lambda at: slightly_lower(at.local(lf), at.local(rd)))
    )
    sentences: tuple[tuple[str, Callable[[View], Iterable[Comparison]]], ...] = (
        (
            f"{lf} has the best total performance.",
            lambda at: lowest(at.total(lf), at.totals(versions)),
        ),
        (
            f"{lf} lets the most loaded queue fit its jobs without being bothered.",
            lambda at: lowest(at.queue(lf, 1), [at.queue(one, 1) for one in versions]),
        ),
        (
            f"{lf} is best for the local jobs.",
            lambda at: lowest(at.local(lf), at.locals(versions)),
        ),
        (
            f"{lf} has a bad performance for the global queue.",
            lambda at: (higher(at.common(lf), at.common(gf), by=MUCH),),
        ),
        (
            f"{gf} has a high total average." if is_lp else f"{gf} has a much worse total.",
            total_of_gf,
        ),
        (
            f"{gf} has a very high average response time for the local queues.",
            lambda at: (higher(at.local(gf), at.local(lf), by=MUCH),),
        ),
        (
            f"{rd} has a slightly worse total than {lf}.",
            lambda at: slightly_lower(at.total(lf), at.total(rd)),
        ),
        (
            f"{rd} has a {'' if is_lp else 'slightly '}higher response time for the local queues "
            f"than {lf}.",
            local_of_rd,
        ),
        (
            f"{rd} has a much lower response time for the global queue than {lf}.",
            lambda at: (lower(at.common(rd), at.common(lf), by=MUCH),),
        ),
        (
            f"Total and local queues are not much worse with {rd} than with {lf}.",
            lambda at: (
                at_most(at.total(rd), at.total(lf), above=MUCH),
                at_most(at.local(rd), at.local(lf), above=MUCH),
            ),
        ),
    )
    return tuple(
        Claim(
            id=f"{section}-{number}",
            section=section,
            text=f"Unbalanced: {text}",
            figures=(figure,),
            test=each(charts, phrase),
        )
        for number, (text, phrase) in enumerate(sentences, start=first)
    )


LP_CLAIMS = (
    *balanced_claims("LP", "3.1.2", 5, FIGURE_5, 1),
    *unbalanced_claims("LP", "3.1.2", 6, FIGURE_6, 14),
)

EQ_CLAIMS = (
    *balanced_claims("EQ", "3.1.3", 7, FIGURE_7, 1),
    *unbalanced_claims("EQ", "3.1.3", 8, FIGURE_8, 14),
    Claim(
        id="3.1.3-24",
        section="3.1.3",
        text="With few components, EQ-GF deteriorates the local queues significantly more than "
        "LP-GF does.",
        reading="in (50,50,0,0): the rise from LF to GF is larger by at least 25 %",
        figures=(5, 7),
        test=between(
            (*of_cases(FIGURE_7, (HALF_TWO,)), *of_cases(FIGURE_5, (HALF_TWO,))),
            lambda eq, lp: (
                ratio_higher(
                    (eq.local("EQ-GF"), eq.local("EQ-LF")),
                    (lp.local("LP-GF"), lp.local("LP-LF")),
                    by=MUCH,
                ),
            ),
        ),
    ),
    Claim(
        id="3.1.3-25",
        section="3.1.3",
        text="LP-GF still gives priority to local jobs, EQ-GF does not.",
        reading="in (50,50,0,0): local jobs are the quicker ones with LP-GF only",
        figures=(5, 7),
        test=between(
            (*of_cases(FIGURE_7, (HALF_TWO,)), *of_cases(FIGURE_5, (HALF_TWO,))),
            lambda eq, lp: (
                lower(lp.local("LP-GF"), lp.common("LP-GF")),
                higher(eq.local("EQ-GF"), eq.common("EQ-GF")),
            ),
        ),
    ),
    Claim(
        id="3.1.3-26",
        section="3.1.3",
        text="When global jobs have few components, EQ-GF serves the global queue better than the "
        "local ones.",
        figures=(7,),
        test=each(
            of_cases(FIGURE_7, (HALF_TWO,)),
            lambda at: (lower(at.common("EQ-GF"), at.local("EQ-GF")),),
        ),
    ),
    Claim(
        id="3.1.3-27",
        section="3.1.3",
        text="In (50,50,0,0) the total of EQ-RD is only slightly worse than that of EQ-GF.",
        figures=(7,),
        test=each(
            of_cases(FIGURE_7, (HALF_TWO,)),
            lambda at: slightly_lower(at.total("EQ-GF"), at.total("EQ-RD")),
        ),
    ),
    Claim(
        id="3.1.3-28",
        section="3.1.3",
        text="There, EQ-RD is almost as good as EQ-LF for the local queues.",
        figures=(7,),
        test=each(
            of_cases(FIGURE_7, (HALF_TWO,)),
            lambda at: (at_most(at.local("EQ-RD"), at.local("EQ-LF")),),
        ),
    ),
    Claim(
        id="3.1.3-29",
        section="3.1.3",
        text="There, EQ-RD is much better than EQ-LF for the global queue.",
        figures=(7,),
        test=each(
            of_cases(FIGURE_7, (HALF_TWO,)),
            lambda at: (lower(at.common("EQ-RD"), at.common("EQ-LF"), by=MUCH),),
        ),
    ),
)

CLAIMS = (*LP_CLAIMS, *EQ_CLAIMS)
