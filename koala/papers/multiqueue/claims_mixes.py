"""Claims about many single- or multi-component jobs, and about unbalanced queues (Multiple queues
3.2.1 to 3.2.3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from koala.papers.claims import (
    MUCH,
    close,
    good,
    higher,
    highest,
    lower,
    lowest,
    ratio_higher,
    slightly_lower,
)
from koala.papers.multiqueue.charts import (
    BOTH,
    EVER,
    FOUR,
    MULTI_RISES,
    SIX,
    across,
    between,
    charts_of,
    claim,
    each,
    rising,
)
from koala.papers.paper import Comparison, Quantity

MANY_LOCAL = charts_of(13, 14)
"""Charts with 80 % and 90 % local jobs."""
NOT_GS = tuple(policy for policy in SIX if policy != "GS")
NOT_LS = tuple(policy for policy in SIX if policy != "LS-DO")


def alike(ones: Iterable[Quantity], other: Quantity) -> Iterator[Comparison]:
    """Test that these are equal to the other, within 1 %."""
    for one in ones:
        yield from close(one, other, within=0.01)


CLAIMS = {
    "3.2.1-24": claim(
        "With 80 % and 90 % local jobs, EQ performs best.",
        each(
            MANY_LOCAL,
            lambda at: lowest(at.total("EQ-GF"), at.totals(SIX)),
            levels=EVER,
        ),
    ),
    "3.2.1-25": claim(
        "There, LP is worse than EQ.",
        each(
            MANY_LOCAL,
            lambda at: higher(at.total("LP-GF"), at.total("EQ-GF")),
            levels=EVER,
        ),
    ),
    "3.2.1-26": claim(
        "There, LP delays the global jobs significantly.",
        each(
            MANY_LOCAL,
            lambda at: higher(at.common("LP-GF"), at.common("EQ-GF"), by=MUCH),
        ),
        reading="they respond slower than with EQ by at least 25 %",
    ),
    "3.2.1-27": claim(
        "GS shows good results for many single-component jobs.",
        each(MANY_LOCAL, lambda at: good(at.total("GS"), at.totals(SIX))),
        reading="closer to the best policy than to the worst",
    ),
    "3.2.1-28": claim(
        "At 90 % local jobs, GS approaches EQ.",
        between(
            MANY_LOCAL,
            lambda eighty, ninety: ratio_higher(
                (eighty.total("GS"), eighty.total("EQ-GF")),
                (ninety.total("GS"), ninety.total("EQ-GF")),
            ),
        ),
        reading="its excess over EQ is smaller than at 80 %",
    ),
    "3.2.1-29": claim(
        "LQ performs rather well with 80 % and 90 % local jobs.",
        each(MANY_LOCAL, lambda at: good(at.total("LQ"), at.totals(SIX))),
        reading="closer to the best policy than to the worst",
    ),
    "3.2.1-30": claim(
        "A higher percentage of single-component jobs improves GS.",
        across(MULTI_RISES, lambda *views: rising(views, "GS")),
        reading="at the same utilisation: (90,0,0,10) < (80,0,0,20) < (50,0,0,50)",
    ),
    "3.2.1-31": claim(
        "It deteriorates all other policies.",
        across(
            MULTI_RISES,
            lambda *views: (
                comparison for policy in NOT_GS for comparison in rising(views[::-1], policy)
            ),
        ),
        reading="at the same utilisation: (50,0,0,50) < (80,0,0,20) < (90,0,0,10)",
    ),
    "3.2.1-32": claim(
        "With single-component jobs alone, GP, LP, EQ and LQ become LS.",
        each(
            charts_of(15),
            lambda at: alike(at.totals(BOTH), at.total("LS-DO")),
        ),
        reading="equal totals, within 1 %",
    ),
    "3.2.1-33": claim(
        "A higher percentage of multi-component jobs improves LS.",
        across((FOUR, *MULTI_RISES[::-1]), lambda *views: rising(views, "LS-DO")),
        reading="at the same utilisation: (0,0,0,100) < (50,0,0,50) < (80,0,0,20) < (90,0,0,10)",
    ),
    "3.2.1-34": claim(
        "It deteriorates all other policies.",
        across(
            (*MULTI_RISES, FOUR),
            lambda *views: (
                comparison for policy in NOT_LS for comparison in rising(views, policy)
            ),
        ),
        reading="at the same utilisation: (90,0,0,10) < (80,0,0,20) < (50,0,0,50) < (0,0,0,100)",
    ),
    "3.2.1-35": claim(
        "With multi-component jobs alone, GP, LP, EQ and LQ become GS.",
        each(
            charts_of(16, 17),
            lambda at: alike(at.totals(BOTH), at.total("GS")),
        ),
        reading="equal totals, within 1 %",
    ),
    "3.2.2-1": claim(
        "With single-component jobs alone, GS is better: it balances the load.",
        each(charts_of(15), lambda at: lower(at.total("GS"), at.total("LS-DO"))),
    ),
    "3.2.2-2": claim(
        "With multi-component jobs alone, LS is better: it chooses among four jobs.",
        each(charts_of(16, 17), lambda at: lower(at.total("LS-DO"), at.total("GS"))),
    ),
    "3.2.3-1": claim(
        "Unbalanced: LS-OR performs worse than EQ and LP.",
        each(charts_of(18), lambda at: highest(at.total("LS-OR"), at.totals(("EQ-LF", "LP-LF")))),
    ),
    "3.2.3-2": claim(
        "Unbalanced: LP gives slightly worse results than EQ.",
        each(charts_of(18), lambda at: slightly_lower(at.total("EQ-LF"), at.total("LP-LF"))),
    ),
    "3.2.3-3": claim(
        "Unbalanced: LP delays the multi-component jobs more than EQ.",
        each(charts_of(18), lambda at: higher(at.common("LP-LF"), at.common("EQ-LF"))),
    ),
    "3.2.3-4": claim(
        "Unbalanced: LS-OR favours the local queue with the highest percentage of jobs.",
        each(charts_of(18), lambda at: lowest(at.queue("LS-OR", 1), at.queues("LS-OR"))),
        reading="its jobs respond quicker than those of every other queue",
    ),
}
