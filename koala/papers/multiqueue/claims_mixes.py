"""Claims about many single- or multi-component jobs, and about unbalanced queues (Multiple queues
3.2.1 to 3.2.3)."""

from __future__ import annotations

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
    FIGURE_13,
    FIGURE_14,
    FIGURE_15,
    FIGURE_16,
    FIGURE_17,
    FIGURE_18,
    FOUR,
    MULTI_RISES,
    SINGLE,
    SIX,
    Chart,
    across,
    between,
    each,
    rising,
)
from koala.papers.paper import Claim

NOT_GS = tuple(policy for policy in SIX if policy != "GS")
NOT_LS = tuple(policy for policy in SIX if policy != "LS-DO")


FIGURES_13_AND_14_CLAIMS = (
    Claim(
        id="3.2.1-24",
        section="3.2.1",
        text="With 80 % and 90 % local jobs, EQ performs best.",
        figures=(13, 14),
        test=each(
            (*FIGURE_13, *FIGURE_14),
            lambda at: lowest(at.total("EQ-GF"), at.totals(SIX)),
            beyond=True,
        ),
    ),
    Claim(
        id="3.2.1-25",
        section="3.2.1",
        text="There, LP is worse than EQ.",
        figures=(13, 14),
        test=each(
            (*FIGURE_13, *FIGURE_14),
            lambda at: (higher(at.total("LP-GF"), at.total("EQ-GF")),),
            beyond=True,
        ),
    ),
    Claim(
        id="3.2.1-26",
        section="3.2.1",
        text="There, LP delays the global jobs significantly.",
        reading="they respond slower than with EQ by at least 25 %",
        figures=(13, 14),
        test=each(
            (*FIGURE_13, *FIGURE_14),
            lambda at: (higher(at.common("LP-GF"), at.common("EQ-GF"), by=MUCH),),
        ),
    ),
    Claim(
        id="3.2.1-27",
        section="3.2.1",
        text="GS shows good results for many single-component jobs.",
        reading="closer to the best policy than to the worst",
        figures=(13, 14),
        test=each((*FIGURE_13, *FIGURE_14), lambda at: (good(at.total("GS"), at.totals(SIX)),)),
    ),
    Claim(
        id="3.2.1-28",
        section="3.2.1",
        text="At 90 % local jobs, GS approaches EQ.",
        reading="its excess over EQ is smaller than at 80 %",
        figures=(13, 14),
        test=between(
            (*FIGURE_13, *FIGURE_14),
            lambda eighty, ninety: (
                ratio_higher(
                    (eighty.total("GS"), eighty.total("EQ-GF")),
                    (ninety.total("GS"), ninety.total("EQ-GF")),
                ),
            ),
        ),
    ),
    Claim(
        id="3.2.1-29",
        section="3.2.1",
        text="LQ performs rather well with 80 % and 90 % local jobs.",
        reading="closer to the best policy than to the worst",
        figures=(13, 14),
        test=each((*FIGURE_13, *FIGURE_14), lambda at: (good(at.total("LQ"), at.totals(SIX)),)),
    ),
    Claim(
        id="3.2.1-30",
        section="3.2.1",
        text="A higher percentage of single-component jobs improves GS.",
        reading="at the same utilisation: (90,0,0,10) < (80,0,0,20) < (50,0,0,50)",
        figures=(10, 13, 14),
        test=across(MULTI_RISES, lambda *views: rising(views, "GS")),
    ),
    Claim(
        id="3.2.1-31",
        section="3.2.1",
        text="It deteriorates all other policies.",
        reading="at the same utilisation: (50,0,0,50) < (80,0,0,20) < (90,0,0,10)",
        figures=(10, 13, 14),
        test=across(
            MULTI_RISES,
            lambda *views: (
                comparison for policy in NOT_GS for comparison in rising(views[::-1], policy)
            ),
        ),
    ),
    Claim(
        id="3.2.1-32",
        section="3.2.1",
        text="With single-component jobs alone, GP, LP, EQ and LQ become LS.",
        reading="equal totals, within 1 %",
        figures=(15,),
        test=each(
            (Chart(case=SINGLE, policies=("GS", "LS-DO")),),
            lambda at: (
                comparison
                for policy in BOTH
                for comparison in close(at.total(policy), at.total("LS-DO"), within=0.01)
            ),
        ),
    ),
    Claim(
        id="3.2.1-33",
        section="3.2.1",
        text="A higher percentage of multi-component jobs improves LS.",
        reading="at the same utilisation: (0,0,0,100) < (50,0,0,50) < (80,0,0,20) < (90,0,0,10)",
        figures=(10, 13, 14, 16),
        test=across((FOUR, *MULTI_RISES[::-1]), lambda *views: rising(views, "LS-DO")),
    ),
    Claim(
        id="3.2.1-34",
        section="3.2.1",
        text="It deteriorates all other policies.",
        reading="at the same utilisation: (90,0,0,10) < (80,0,0,20) < (50,0,0,50) < (0,0,0,100)",
        figures=(10, 13, 14, 16),
        test=across(
            (*MULTI_RISES, FOUR),
            lambda *views: (
                comparison for policy in NOT_LS for comparison in rising(views, policy)
            ),
        ),
    ),
    Claim(
        id="3.2.1-35",
        section="3.2.1",
        text="With multi-component jobs alone, GP, LP, EQ and LQ become GS.",
        reading="equal totals, within 1 %",
        figures=(16, 17),
        test=each(
            (*FIGURE_16, *FIGURE_17),
            lambda at: (
                comparison
                for policy in BOTH
                for comparison in close(at.total(policy), at.total("GS"), within=0.01)
            ),
        ),
    ),
)

LATER_CLAIMS = (
    Claim(
        id="3.2.2-1",
        section="3.2.2",
        text="With single-component jobs alone, GS is better: it balances the load.",
        figures=(15,),
        test=each(FIGURE_15, lambda at: (lower(at.total("GS"), at.total("LS-DO")),)),
    ),
    Claim(
        id="3.2.2-2",
        section="3.2.2",
        text="With multi-component jobs alone, LS is better: it chooses among four jobs.",
        figures=(16, 17),
        test=each((*FIGURE_16, *FIGURE_17), lambda at: (lower(at.total("LS-DO"), at.total("GS")),)),
    ),
    Claim(
        id="3.2.3-1",
        section="3.2.3",
        text="Unbalanced: LS-OR performs worse than EQ and LP.",
        figures=(18,),
        test=each(FIGURE_18, lambda at: highest(at.total("LS-OR"), at.totals(("EQ-LF", "LP-LF")))),
    ),
    Claim(
        id="3.2.3-2",
        section="3.2.3",
        text="Unbalanced: LP gives slightly worse results than EQ.",
        figures=(18,),
        test=each(FIGURE_18, lambda at: slightly_lower(at.total("EQ-LF"), at.total("LP-LF"))),
    ),
    Claim(
        id="3.2.3-3",
        section="3.2.3",
        text="Unbalanced: LP delays the multi-component jobs more than EQ.",
        figures=(18,),
        test=each(FIGURE_18, lambda at: (higher(at.common("LP-LF"), at.common("EQ-LF")),)),
    ),
    Claim(
        id="3.2.3-4",
        section="3.2.3",
        text="Unbalanced: LS-OR favours the local queue with the highest percentage of jobs.",
        reading="its jobs respond quicker than those of every other queue",
        figures=(18,),
        test=each(FIGURE_18, lambda at: lowest(at.queue("LS-OR", 1), at.queues("LS-OR"))),
    ),
)

CLAIMS = (*FIGURES_13_AND_14_CLAIMS, *LATER_CLAIMS)
