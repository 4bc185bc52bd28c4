"""Claims of the KOALA paper: its design and experiment (sections 2 to 4), its summary (1 and
7), and the list of all."""

from __future__ import annotations

from koala.lab.papers.comparisons import (
    LITTLE,
    MUCH,
    above,
    all_higher,
    always,
    always_same,
    exact,
    higher,
    higher_by,
    lower,
    once,
    share,
    shown,
)
from koala.lab.papers.koala.claims_results import FAILURES, PLACING, UTILIZATION
from koala.lab.papers.koala.claims_shared import (
    against,
    all_finish,
    by_priority,
    claim,
    much_more,
    of,
    shapes,
)
from koala.lab.papers.koala.points import LARGER, Watched, changed
from koala.lab.papers.koala.simulation.setting import Setting
from koala.lab.papers.paper import Claim, Comparison, Untestable, numbered
from koala.lab.sim.runs import Quantity


def _preference(at: Setting) -> Comparison:
    plain = changed(at, "S = 1")
    return shown(
        "low less high in placement time: more with S = 2 than with S = 1",
        lambda low, high, low_1, high_1: (low - high) - (low_1 - high_1),
        of(at, "placement_s", "low"),
        of(at, "placement_s", "high"),
        of(plain, "placement_s", "low", "low, S = 1"),
        of(plain, "placement_s", "high", "high"),
    )


def _none_returns(at: Setting) -> Comparison:
    text = "placements a job that came to nothing, claimed"
    once_ = Quantity(changed(at, "claim at once"), "returned", f"{text} at once")
    return higher(Quantity(at, "returned", f"{text} later"), once_)


MODEL = {
    "2.3-1": Claim(
        "Co-allocation runs jobs that need more processors than any site has.",
        once(all_finish(LARGER)),
        reading="jobs of 144 processors on sites of 130 and 60, all finished",
    ),
    "2.3-2": claim(
        "Several components of a job can be on one site.",
        lambda at: above(Quantity(at, "sharing_percent", "jobs on fewer sites"), 0),
    ),
    "2.4-1": claim(
        "When a job is about to start, its processors may not be available any more.",
        lambda at: above(of(at, "extra_claiming_tries"), 0),
        reading="some claiming tries are not the last of their job",
    ),
    "2.4-2": claim(
        "For a job that is about to start, high priority preempts low priority, and nothing else.",
        lambda at: [
            above(of(at, "preemptions_per_job", "low"), 0),
            always(of(at, "preemptions_per_job", "high"), 0),
        ],
    ),
    "2.5-1": claim(
        "The start of a job's components is synchronised.",
        lambda at: always(Quantity(Watched(at), "most_skew_s", "largest difference, s"), 0),
        reading="largest difference between the instants at which components of an attempt begin",
    ),
    "2.6-1": claim(
        "Close-to-Files keeps the estimated file transfers short.",
        lambda at: lower(
            Quantity(at, "transfer_s", "FTT, Close-to-Files"),
            Quantity(changed(at, "worst fit"), "transfer_s", "Worst-Fit"),
        ),
        reading="FTT of the last placements, against Worst-Fit",
    ),
    "2.7-3": claim(
        "A job's start time can be estimated from its file transfers.",
        lambda at: shown(
            f"lateness < {share(LITTLE)} of FTT",
            lambda late, transfer: LITTLE * transfer - late,
            Quantity(at, "lateness_s", "lateness, s"),
            Quantity(at, "transfer_s", "FTT, s"),
        ),
        reading=f"jobs start later than their JST by less than {share(LITTLE)} of the mean FTT",
    ),
    "2.7-1": claim(
        "To start a placed job at once and hold it at a barrier wastes processor time.",
        lambda at: higher_by(MUCH, *reversed(against(at, "claim at once", "processor_wasted_s"))),
        reading=f"processor-seconds wasted with L = 0, over those with L = 0.75 by {share(MUCH)}",
    ),
    "2.7-2": claim(
        "To start it later runs the risk that processors are not available any more.",
        _none_returns,
        reading="more placements come to nothing with L = 0.75 than with L = 0",
    ),
}

MECHANISMS = {
    "3.1-1": claim(
        "The high-priority queue is preferred.",
        lambda at: lower(of(at, "placement_s", "high"), of(at, "placement_s", "low")),
        reading="placement time of high and of low priority",
    ),
    "3.1-2": claim(
        "The high-priority queue is preferred by S scans for each scan of the low-priority queue.",
        _preference,
        reading="the difference is larger with S = 2 than with S = 1",
    ),
    "3.1-3": claim(
        "With no limit on tries, no job fails for lack of a placement.",
        lambda at: [
            always(Quantity(at, "failed_percent", "failed for good, %"), 0),
            above(of(at, "placement_tries"), 1),
        ],
        reading="none has failed for good, though it takes many tries",
    ),
    "3.2-1": claim(
        "L is decreased when a job goes back, which makes the next claiming likelier to work.",
        lambda at: lower(
            Quantity(at, "returned", "placements a job that came to nothing"),
            Quantity(changed(at, "L fixed"), "returned", "L fixed"),
        ),
        reading="fewer placements come to nothing than with a fixed L",
    ),
    "3.3-1": claim(
        "Incremental claiming with re-placement makes jobs start with less delay.",
        lambda at: lower(*against(at, "atomic", "start_delay_s")),
        reading="start delay, against atomic claiming (T = 1), which claims and moves nothing "
        "unless all components can start",
    ),
    "3.3-2": claim(
        "Preemption makes jobs of high priority start with less delay.",
        lambda at: lower(*against(at, "no preemption", "start_delay_s", "high")),
    ),
    "3.3-3": claim(
        "Preempted jobs go back to their queue, and run later.",
        lambda at: [
            above(of(at, "preemptions_per_job", "low"), 0),
            always_same(
                Quantity(at, "finished.low", "finished of low priority"),
                Quantity(at, "jobs.low", "submitted"),
            ),
        ],
        reading="some are preempted, all of low priority finish",
    ),
    "3.3-4": claim(
        "Components that were claimed early wait at the barrier; with T = 1 fewer do.",
        lambda at: higher(*against(at, "atomic", "processor_wasted_s")),
        reading="processor-seconds wasted, against atomic claiming",
    ),
    "3.4-1": claim(
        "A job of which a component fails is aborted, goes back to its queue, and runs again.",
        lambda at: [
            above(of(at, "failures_per_job"), 0),
            all_finish(at),
        ],
        reading="attempts fail, and all jobs finish",
    ),
    "3.4-2": claim(
        "A cluster whose consecutive errors reach a threshold becomes unusable.",
        lambda at: lower(
            Quantity(at, "processors.end", "usable at the end"),
            Quantity(at, "processors.begin", "at the beginning"),
        ),
        reading="fewer processors can be used at the end than at the beginning",
    ),
}

EXPERIMENT = {
    "4.2-1": Claim(
        "With components larger than 8, a job of 36 has 3 or 4 of them, one of 72 up to 8.",
        once(
            always(exact("most_components.36", "most components of 36"), 4),
            always(exact("most_components.72", "most components of 72"), 8),
            always(exact("least_component", "smallest component"), 9),
        ),
    ),
    "4.2-2": claim(
        "When 100 jobs are in the placement queues, a submission is delayed.",
        lambda at: above(Quantity(Watched(at), "most_delayed", "most delayed at once"), 0),
        reading="some were",
    ),
    "4.3-1": claim(
        "Such failure rates show a strong need for fault tolerance.",
        lambda at: above(Quantity(at, "failed_once_percent", "failed once"), 100 * MUCH, "%"),
        reading=f"{share(MUCH)} of the jobs or more fail once at least, and would be lost",
    ),
}


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
        "Priorities get important jobs finished quickly as long as they are not very large.",
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
