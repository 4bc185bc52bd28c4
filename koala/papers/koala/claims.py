"""Claims of the KOALA paper: its summary (sections 1 and 7), and the list of all."""

from __future__ import annotations

from koala.papers.claims import MUCH, above, all_higher, higher, lower, share
from koala.papers.koala.claims_design import EXPERIMENT, MECHANISMS, MODEL
from koala.papers.koala.claims_results import FAILURES, PLACING, UTILIZATION
from koala.papers.koala.claims_shared import (
    against,
    all_finish,
    by_priority,
    claim,
    much_more,
    of,
    shapes,
)
from koala.papers.koala.points import Watched
from koala.papers.paper import Quantity, Untestable, numbered

SUMMARY = {
    "1-1": claim(
        "Waiting for processors in several clusters, and for files, is inefficient.",
        lambda at: above(Quantity(at, "wasted_percent", "wasted"), 0, "%"),
        reading="a part of the processor time that is claimed is wasted",
    ),
    "1-2": claim(
        "Relying on several resource managers makes jobs less reliable.",
        lambda at: higher(*against(at, "whole", "failures_percent")),
        reading="failures, against the same jobs of one component",
    ),
    "1-3": claim(
        "Priorities get important jobs finished quickly in spite of the unreliable system.",
        lambda at: lower(*by_priority(at, "response_s", (36,))[0]),
        reading="response time of high against low priority, size 36",
    ),
    "1-4": claim(
        "They do so as long as the jobs are not very large.",
        lambda at: much_more(at, "response_s", "72.high", "36.high"),
        reading=f"response time of high priority, 72 over 36 by {share(MUCH)}",
    ),
    "1-5": claim(
        "Large jobs are a problem, too, when they may be split in many different ways.",
        lambda at: all_higher(shapes(at, "placement_s", 72), shapes(at, "placement_s", 36)[-1:]),
        figures=(5,),
        reading="placement time of 72 with each number of components, over 36 with 4",
    ),
    "1-6": claim(
        "Many jobs use co-allocation when given the chance.",
        lambda at: above(of(at, "coallocated_percent"), 50, "%"),
        figures=(4,),
        reading="more than half",
    ),
    "1-7": claim(
        "Even with high failure rates all jobs are completed.",
        all_finish,
    ),
}

CONCLUSIONS = {
    "7-1": claim(
        "KOALA works correctly and reliably on an unreliable testbed.",
        lambda at: (
            above(Quantity(Watched(at), "checks", "checks that all promises hold"), 0),
            all_finish(Watched(at)),
        ),
        reading="all invariants of the scheduler hold whenever they are checked, or the run would "
        "break off; all jobs finish",
    ),
}

CLAIMS = numbered(
    SUMMARY,
    MODEL,
    MECHANISMS,
    EXPERIMENT,
    UTILIZATION,
    FAILURES,
    PLACING,
    CONCLUSIONS,
)

UNTESTABLE = numbered(
    {
        "1-8": Untestable(
            "Co-allocated jobs may have shorter run times, as they have more resources.",
            "how an application speeds up is not simulated; run times are drawn",
        ),
        "1-9": Untestable(
            "Most applications on grids run in one subsystem; grids balance load.",
            "about other people's grids",
        ),
        "2.2-1": Untestable(
            "A single central scheduler has drawbacks (section 7: it is a bottleneck).",
            "in simulated time a decision takes no time; `docs/bench.md` measures live",
        ),
        "3.4-3": Untestable(
            "Restarting is the scheduler's part, checkpoints are the application's.",
            "a division of work, not a result",
        ),
        "4.1-1": Untestable(
            "The test application is split into strips of equal width, one a cluster.",
            "about the authors' application",
        ),
        "4.3-2": Untestable(
            "After an upgrade the DAS was unstable, like a grid.",
            "about the authors' testbed; here its failures are an input",
        ),
        "5.2-11": Untestable(
            "More jobs started at once get more nodes that are configured wrongly.",
            "a simulated site fails by a probability, not by its nodes",
        ),
        "5.2-12": Untestable(
            "Bugs of resource managers caused the failures; any real grid will have many.",
            "about the authors' software and others' grids",
        ),
        "5.3-18": Untestable(
            "It cannot be concluded that smaller jobs perform much better.",
            "what may not be concluded is no result; 5.3-6 and 5.3-15 test both sides of it",
        ),
        "6-1": Untestable(
            "Co-allocation pays while it extends run times by up to a quarter.",
            "results of other papers",
        ),
    }
)
