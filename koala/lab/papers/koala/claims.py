"""Claims of the KOALA paper: its design and experiment (sections 2 to 4), its summary (1 and
7), and the list of all."""

from __future__ import annotations

from pathlib import Path

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
    share,
    shown,
)
from koala.lab.papers.koala.claims_results import FAILURES, PLACING, UTILIZATION
from koala.lab.papers.koala.claims_shared import (
    Phrases,
    against,
    all_finish,
    at_loads,
    by_priority,
    much_more,
    of,
    once,
    shapes,
)
from koala.lab.papers.koala.points import LARGER, Watched, changed
from koala.lab.papers.koala.simulation.setting import Setting
from koala.lab.papers.paper import Comparison
from koala.lab.papers.sentences import read_sentences
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


MODEL: Phrases = {
    "2.3-1": once(all_finish(LARGER)),
    "2.3-2": lambda at: above(Quantity(at, "sharing_percent", "jobs on fewer sites"), 0),
    "2.4-1": lambda at: above(of(at, "extra_claiming_tries"), 0),
    "2.4-2": lambda at: [
        above(of(at, "preemptions_per_job", "low"), 0),
        always(of(at, "preemptions_per_job", "high"), 0),
    ],
    "2.5-1": lambda at: always(Quantity(Watched(at), "most_skew_s", "largest difference, s"), 0),
    "2.6-1": lambda at: lower(
        Quantity(at, "transfer_s", "FTT, Close-to-Files"),
        Quantity(changed(at, "worst fit"), "transfer_s", "Worst-Fit"),
    ),
    "2.7-3": lambda at: shown(
        f"lateness < {share(LITTLE)} of FTT",
        lambda late, transfer: LITTLE * transfer - late,
        Quantity(at, "lateness_s", "lateness, s"),
        Quantity(at, "transfer_s", "FTT, s"),
    ),
    "2.7-1": lambda at: higher_by(
        MUCH, *reversed(against(at, "claim at once", "processor_wasted_s"))
    ),
    "2.7-2": _none_returns,
}

MECHANISMS: Phrases = {
    "3.1-1": lambda at: lower(of(at, "placement_s", "high"), of(at, "placement_s", "low")),
    "3.1-2": _preference,
    "3.1-3": lambda at: [
        always(Quantity(at, "failed_percent", "failed for good, %"), 0),
        above(of(at, "placement_tries"), 1),
    ],
    "3.2-1": lambda at: lower(
        Quantity(at, "returned", "placements a job that came to nothing"),
        Quantity(changed(at, "L fixed"), "returned", "L fixed"),
    ),
    "3.3-1": lambda at: lower(*against(at, "atomic", "start_delay_s")),
    "3.3-2": lambda at: lower(*against(at, "no preemption", "start_delay_s", "high")),
    "3.3-3": lambda at: [
        above(of(at, "preemptions_per_job", "low"), 0),
        always_same(
            Quantity(at, "finished.low", "finished of low priority"),
            Quantity(at, "jobs.low", "submitted"),
        ),
    ],
    "3.3-4": lambda at: higher(*against(at, "atomic", "processor_wasted_s")),
    "3.4-1": lambda at: [
        above(of(at, "failures_per_job"), 0),
        all_finish(at),
    ],
    "3.4-2": lambda at: lower(
        Quantity(at, "processors.end", "usable at the end"),
        Quantity(at, "processors.begin", "at the beginning"),
    ),
}

EXPERIMENT: Phrases = {
    "4.2-1": once(
        always(exact("most_components.36", "most components of 36"), 4),
        always(exact("most_components.72", "most components of 72"), 8),
        always(exact("least_component", "smallest component"), 9),
    ),
    "4.2-2": lambda at: above(Quantity(Watched(at), "most_delayed", "most delayed at once"), 0),
    "4.3-1": lambda at: above(Quantity(at, "failed_once_percent", "failed once"), 100 * MUCH, "%"),
}


SUMMARY: Phrases = {
    "1-1": lambda at: above(Quantity(at, "wasted_percent", "wasted"), 0, "%"),
    "1-2": lambda at: higher(*against(at, "whole", "failures_percent")),
    "1-3": lambda at: lower(*by_priority(at, "response_s", (36,))[0]),
    "1-4": lambda at: much_more(at, "response_s", "72.high", "36.high"),
    "1-5": lambda at: all_higher(shapes(at, "placement_s", 72), shapes(at, "placement_s", 36)[-1:]),
    "1-6": lambda at: above(of(at, "coallocated_percent"), 50, "%"),
    "1-7": all_finish,
}

CONCLUSIONS: Phrases = {
    "7-1": lambda at: (
        above(Quantity(Watched(at), "checks", "checks that all promises hold"), 0),
        all_finish(Watched(at)),
    ),
}

TESTS = {
    **SUMMARY,
    **MODEL,
    **MECHANISMS,
    **EXPERIMENT,
    **UTILIZATION,
    **FAILURES,
    **PLACING,
    **CONCLUSIONS,
}
SENTENCES = read_sentences(Path(__file__).parent, TESTS, at_loads)
