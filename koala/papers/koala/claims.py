"""Claims of the KOALA paper: its summary (sections 1 and 7), and the list of all."""

from __future__ import annotations

from collections.abc import Iterable

from koala.papers.claims import MUCH, higher, lower, share
from koala.papers.koala.claims_design import EXPERIMENT, MECHANISMS, MODEL
from koala.papers.koala.claims_results import FAILURES, PLACING, UTILIZATION
from koala.papers.koala.claims_shared import (
    above,
    against,
    equal,
    everywhere,
    much_more,
    of,
    shapes,
    whole,
)
from koala.papers.koala.points import Watched
from koala.papers.koala.simulation.setting import Setting
from koala.papers.paper import Claim, Comparison, Untestable


def _however_split(setting: Setting) -> Iterable[Comparison]:
    *_, small = shapes(setting, "placement_s", 36)
    return [higher(one, small) for one in shapes(setting, "placement_s", 72)]


def _correct(setting: Setting) -> Iterable[Comparison]:
    yield above(whole(Watched(setting=setting), "checks", "checks that all promises hold"), 0)
    yield equal(whole(Watched(setting=setting), "finished_percent", "finished, %"), 100)


SUMMARY = (
    Claim(
        id="1-1",
        section="1",
        text="Waiting for processors in several clusters, and for files, is inefficient.",
        reading="a part of the processor time that is claimed is wasted",
        test=everywhere(
            lambda setting: [above(whole(setting, "wasted_percent", "wasted"), 0, "%")]
        ),
    ),
    Claim(
        id="1-2",
        section="1",
        text="Relying on several resource managers makes jobs less reliable.",
        reading="failures, against the same jobs of one component",
        test=everywhere(lambda setting: [higher(*against(setting, "whole", "failures_percent"))]),
    ),
    Claim(
        id="1-3",
        section="1",
        text="Priorities get important jobs finished quickly in spite of the unreliable system.",
        reading="response time of high against low priority, size 36",
        test=everywhere(
            lambda setting: [
                lower(of(setting, "response_s", "36.high"), of(setting, "response_s", "36.low"))
            ]
        ),
    ),
    Claim(
        id="1-4",
        section="1",
        text="They do so as long as the jobs are not very large.",
        reading=f"response time of high priority, 72 over 36 by {share(MUCH)}",
        test=everywhere(lambda setting: [much_more(setting, "response_s", "72.high", "36.high")]),
    ),
    Claim(
        id="1-5",
        section="1",
        text="Large jobs are a problem, too, when they may be split in many different ways.",
        reading="placement time of 72 with each number of components, over 36 with 4",
        figures=(5,),
        test=everywhere(_however_split),
    ),
    Claim(
        id="1-6",
        section="1",
        text="Many jobs use co-allocation when given the chance.",
        reading="more than half",
        figures=(4,),
        test=everywhere(lambda setting: [above(of(setting, "coallocated_percent"), 50, "%")]),
    ),
    Claim(
        id="1-7",
        section="1",
        text="Even with high failure rates all jobs are completed.",
        test=everywhere(
            lambda setting: [equal(whole(setting, "finished_percent", "finished, %"), 100)]
        ),
    ),
)

CONCLUSIONS = (
    Claim(
        id="7-1",
        section="7",
        text="KOALA works correctly and reliably on an unreliable testbed.",
        reading="all invariants of the scheduler hold whenever they are checked, or the run would "
        "break off; all jobs finish",
        test=everywhere(_correct),
    ),
)

CLAIMS = (
    *SUMMARY,
    *MODEL,
    *MECHANISMS,
    *EXPERIMENT,
    *UTILIZATION,
    *FAILURES,
    *PLACING,
    *CONCLUSIONS,
)

UNTESTABLE = (
    Untestable(
        id="1-8",
        section="1",
        text="Co-allocated jobs may have shorter run times, as they have more resources.",
        reason="how an application speeds up is not simulated; run times are drawn",
    ),
    Untestable(
        id="1-9",
        section="1",
        text="Most applications on grids run in one subsystem; grids balance load.",
        reason="about other people's grids",
    ),
    Untestable(
        id="2.2-1",
        section="2.2",
        text="A single central scheduler has drawbacks (section 7: it is a bottleneck).",
        reason="in simulated time a decision takes no time; `docs/bench.md` measures live",
    ),
    Untestable(
        id="3.4-3",
        section="3.4",
        text="Restarting is the scheduler's part, checkpoints are the application's.",
        reason="a division of work, not a result",
    ),
    Untestable(
        id="4.1-1",
        section="4.1",
        text="The test application is split into strips of equal width, one a cluster.",
        reason="about the authors' application",
    ),
    Untestable(
        id="4.3-2",
        section="4.3",
        text="After an upgrade the DAS was unstable, like a grid.",
        reason="about the authors' testbed; here its failures are an input",
    ),
    Untestable(
        id="5.2-11",
        section="5.2",
        text="More jobs started at once get more nodes that are configured wrongly.",
        reason="a simulated site fails by a probability, not by its nodes",
    ),
    Untestable(
        id="5.2-12",
        section="5.2",
        text="Bugs of resource managers caused the failures; any real grid will have many.",
        reason="about the authors' software and others' grids",
    ),
    Untestable(
        id="5.3-18",
        section="5.3",
        text="It cannot be concluded that smaller jobs perform much better.",
        reason="what may not be concluded is no result; 5.3-6 and 5.3-15 test both sides of it",
    ),
    Untestable(
        id="6-1",
        section="6",
        text="Co-allocation pays while it extends run times by up to a quarter.",
        reason="results of other papers",
    ),
)
