"""Claims of sections 2 to 4 of the KOALA paper: its design and its experiment."""

from __future__ import annotations

from collections.abc import Iterable

from koala.papers.claims import LITTLE, MUCH, higher, lower, share
from koala.papers.koala.claims_shared import (
    above,
    against,
    equal,
    everywhere,
    of,
    once,
    same,
    shown,
    whole,
)
from koala.papers.koala.points import LARGER, Watched, changed, exact
from koala.papers.koala.simulation.setting import Setting
from koala.papers.paper import Claim, Comparison


def _preference(setting: Setting) -> Comparison:
    two = of(setting, "placement_s", "low"), of(setting, "placement_s", "high")
    plain = changed(setting, "S = 1")
    one = of(plain, "placement_s", "low", "low, S = 1"), of(plain, "placement_s", "high", "high")
    return shown(
        "low less high in placement time: more with S = 2 than with S = 1",
        lambda low, high, low_1, high_1: (low - high) - (low_1 - high_1),
        *two,
        *one,
    )


def _none_returns(setting: Setting) -> Iterable[Comparison]:
    once_, later = (
        whole(one, "returned", f"placements a job that came to nothing, {name}")
        for one, name in (
            (changed(setting, "claim at once"), "claimed at once"),
            (setting, "claimed later"),
        )
    )
    yield higher(later, once_)


def _returned(setting: Setting, change: str) -> Iterable[Comparison]:
    yield lower(
        whole(setting, "returned", "placements a job that came to nothing"),
        whole(changed(setting, change), "returned", change),
    )


MODEL = (
    Claim(
        id="2.3-1",
        section="2.3",
        text="Co-allocation runs jobs that need more processors than any site has.",
        reading="jobs of 144 processors on sites of 130 and 60, all finished",
        test=once(equal(whole(LARGER, "finished_percent", "finished, %"), 100)),
    ),
    Claim(
        id="2.3-2",
        section="2.3",
        text="Several components of a job can be on one site.",
        test=everywhere(
            lambda setting: [above(whole(setting, "sharing_percent", "jobs on fewer sites"), 0)]
        ),
    ),
    Claim(
        id="2.4-1",
        section="2.4",
        text="When a job is about to start, its processors may not be available any more.",
        reading="some claiming tries are not the last of their job",
        test=everywhere(lambda setting: [above(of(setting, "extra_claiming_tries"), 0)]),
    ),
    Claim(
        id="2.4-2",
        section="2.4",
        text="Jobs of high priority then preempt jobs of low priority, and no others.",
        test=everywhere(
            lambda setting: [
                above(of(setting, "preemptions_per_job", "low"), 0),
                equal(of(setting, "preemptions_per_job", "high"), 0),
            ]
        ),
    ),
    Claim(
        id="2.5-1",
        section="2.5",
        text="The start of a job's components is synchronised.",
        reading="largest difference between the instants at which components of an attempt begin",
        test=everywhere(
            lambda setting: [
                equal(whole(Watched(setting=setting), "most_skew_s", "largest difference, s"), 0)
            ]
        ),
    ),
    Claim(
        id="2.6-1",
        section="2.6",
        text="Close-to-Files keeps the estimated file transfers short.",
        reading="FTT of the last placements, against Worst-Fit",
        test=everywhere(
            lambda setting: [
                lower(
                    whole(setting, "transfer_s", "FTT, Close-to-Files"),
                    whole(changed(setting, "worst fit"), "transfer_s", "Worst-Fit"),
                )
            ]
        ),
    ),
    Claim(
        id="2.7-3",
        section="2.7",
        text="A job's start time can be estimated from its file transfers.",
        reading=f"jobs start later than their JST by less than {share(LITTLE)} of the mean FTT",
        test=everywhere(
            lambda setting: [
                shown(
                    f"lateness < {share(LITTLE)} of FTT",
                    lambda late, transfer: LITTLE * transfer - late,
                    whole(setting, "lateness_s", "lateness, s"),
                    whole(setting, "transfer_s", "FTT, s"),
                )
            ]
        ),
    ),
    Claim(
        id="2.7-1",
        section="2.7",
        text="To start a placed job at once and hold it at a barrier wastes processor time.",
        reading=f"processor-seconds wasted with L = 0, over those with L = 0.75 by {share(MUCH)}",
        test=everywhere(
            lambda setting: [
                higher(*reversed(against(setting, "claim at once", "processor_wasted_s")), by=MUCH)
            ]
        ),
    ),
    Claim(
        id="2.7-2",
        section="2.7",
        text="To start it later runs the risk that processors are not available any more.",
        reading="more placements come to nothing with L = 0.75 than with L = 0",
        test=everywhere(_none_returns),
    ),
)

MECHANISMS = (
    Claim(
        id="3.1-1",
        section="3.1",
        text="The high-priority queue is preferred.",
        reading="placement time of high and of low priority",
        test=everywhere(
            lambda setting: [
                lower(of(setting, "placement_s", "high"), of(setting, "placement_s", "low"))
            ]
        ),
    ),
    Claim(
        id="3.1-2",
        section="3.1",
        text="It is so by being scanned S times for each scan of the low-priority queue.",
        reading="the difference is larger with S = 2 than with S = 1",
        test=everywhere(lambda setting: [_preference(setting)]),
    ),
    Claim(
        id="3.1-3",
        section="3.1",
        text="With no limit on tries, no job fails for lack of a placement.",
        reading="none has failed for good, though it takes many tries",
        test=everywhere(
            lambda setting: [
                equal(whole(setting, "failed_percent", "failed for good, %"), 0),
                above(of(setting, "placement_tries"), 1),
            ]
        ),
    ),
    Claim(
        id="3.2-1",
        section="3.2",
        text="L is decreased when a job goes back, which makes the next claiming likelier to work.",
        reading="fewer placements come to nothing than with a fixed L",
        test=everywhere(lambda setting: _returned(setting, "L fixed")),
    ),
    Claim(
        id="3.3-1",
        section="3.3",
        text="Incremental claiming with re-placement makes jobs start with less delay.",
        reading="start delay, against atomic claiming (T = 1), which claims and moves nothing "
        "unless all components can start",
        test=everywhere(lambda setting: [lower(*against(setting, "atomic", "start_delay_s"))]),
    ),
    Claim(
        id="3.3-2",
        section="3.3",
        text="Preemption makes jobs of high priority start with less delay.",
        test=everywhere(
            lambda setting: [lower(*against(setting, "no preemption", "start_delay_s", "high"))]
        ),
    ),
    Claim(
        id="3.3-3",
        section="3.3",
        text="Preempted jobs go back to their queue, and run later.",
        reading="some are preempted, all of low priority finish",
        test=everywhere(
            lambda setting: [
                above(of(setting, "preemptions_per_job", "low"), 0),
                same(
                    whole(setting, "finished.low", "finished of low priority"),
                    whole(setting, "jobs.low", "submitted"),
                ),
            ]
        ),
    ),
    Claim(
        id="3.3-4",
        section="3.3",
        text="Components that were claimed early wait at the barrier; with T = 1 fewer do.",
        reading="processor-seconds wasted, against atomic claiming",
        test=everywhere(
            lambda setting: [higher(*against(setting, "atomic", "processor_wasted_s"))]
        ),
    ),
    Claim(
        id="3.4-1",
        section="3.4",
        text="A job of which a component fails is aborted, goes back to its queue, and runs again.",
        reading="attempts fail, and all jobs finish",
        test=everywhere(
            lambda setting: [
                above(of(setting, "failures_per_job"), 0),
                equal(whole(setting, "finished_percent", "finished, %"), 100),
            ]
        ),
    ),
    Claim(
        id="3.4-2",
        section="3.4",
        text="A cluster whose consecutive errors reach a threshold becomes unusable.",
        reading="fewer processors can be used at the end than at the beginning",
        test=everywhere(
            lambda setting: [
                lower(
                    whole(setting, "processors.end", "usable at the end"),
                    whole(setting, "processors.begin", "at the beginning"),
                )
            ]
        ),
    ),
)

EXPERIMENT = (
    Claim(
        id="4.2-1",
        section="4.2",
        text="With components larger than 8, a job of 36 has 3 or 4 of them, one of 72 up to 8.",
        test=once(
            equal(exact("most_components.36", "most components of 36"), 4),
            equal(exact("most_components.72", "most components of 72"), 8),
            equal(exact("least_component", "smallest component"), 9),
        ),
    ),
    Claim(
        id="4.2-2",
        section="4.2",
        text="When 100 jobs are in the placement queues, a submission is delayed.",
        reading="some were",
        test=everywhere(
            lambda setting: [
                above(whole(Watched(setting=setting), "most_delayed", "most delayed at once"), 0)
            ]
        ),
    ),
    Claim(
        id="4.3-1",
        section="4.3",
        text="Such failure rates show a strong need for fault tolerance.",
        reading=f"{share(MUCH)} of the jobs or more fail once at least, and would be lost",
        test=everywhere(
            lambda setting: [
                above(whole(setting, "failed_once_percent", "failed once"), 100 * MUCH, "%")
            ]
        ),
    ),
)
