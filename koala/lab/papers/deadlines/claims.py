"""Claims of the deadlines paper: its conclusions (section 4), and the list of all."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from koala.lab.papers.comparisons import MUCH, above, higher, higher_by, share
from koala.lab.papers.deadlines.claims_model import MODEL, PARAMETERS
from koala.lab.papers.deadlines.claims_rpp import RPP
from koala.lab.papers.deadlines.claims_wait import WAIT
from koala.lab.papers.deadlines.points import Beginning, LoadLevel, Point, at
from koala.lab.papers.deadlines.quantities import (
    GP,
    LP,
    by_wait,
    everywhere,
    first_better,
    high,
    scarcer_later,
    wait,
)
from koala.lab.papers.paper import Claim, Comparison, Untestable, numbered
from koala.lab.sim.runs import Quantity


def _better(base: Point) -> Iterable[Comparison]:
    for metric in ("success_rate", "global_load"):
        ten, pure = by_wait(base, metric, 10.0, inf)
        yield higher(ten, pure)


def _wait_is_better(level: LoadLevel) -> Iterable[Comparison]:
    yield from _better(at(level, GP))
    if level.is_low:
        yield from _better(at(level, LP))


CONCLUSIONS = {
    "4-1": Claim(
        "It is better to consider jobs only shortly before their deadline.",
        everywhere(_wait_is_better),
        reading="success and global load, Wait-10 against Wait-∞, where the paper compares them: "
        "GP, and LP with a low local load",
    ),
    "4-2": Claim(
        "It is better in general to consider jobs only shortly before their deadline.",
        high(lambda level: _better(at(level, LP))),
        reading="the same where the paper does not look: LP with a high local load",
    ),
    "4-3": Claim(
        "Considering jobs too early makes many of them fail.",
        everywhere(
            lambda level: higher_by(
                MUCH, wait(at(level), "fail_rate", inf), wait(at(level), "fail_rate", 10.0)
            )
        ),
        reading=f"failed, Wait-∞ over Wait-10 by {share(MUCH)}, GP",
    ),
    "4-4": Claim(
        "Of jobs that are considered too early, the first ones run fine.",
        everywhere(lambda level: first_better(level, 0.7)),
        reading="from an empty grid, Lp 0.7: more success for the first five than after the 20th",
    ),
    "4-5": Claim(
        "Of jobs that are considered too early, the first ones waste processor time.",
        everywhere(
            lambda level: above(
                Quantity(Beginning(at(level)), "wasted.first", "wasted at first"), 0, "%"
            )
        ),
        reading="Lp 0.7: wasted in the first 20 minutes of an empty grid, over none; that it is "
        "much, as the paper says, is not tested",
    ),
    "4-6": Claim(
        "The jobs after these do not find enough processors.",
        everywhere(lambda level: scarcer_later(level, 0.7)),
        reading="Lp 0.7 against 1, long after an empty grid: global jobs hold or use more",
    ),
}

CLAIMS = numbered(MODEL, PARAMETERS, RPP, WAIT, CONCLUSIONS)

UNTESTABLE = numbered(
    {
        "1-1": Untestable(
            "Co-allocation has been shown by simulation to be a viable option.",
            "a result of other papers; `koala reproduce multiqueue` tests one of them",
        ),
        "1-2": Untestable(
            "With reservation-based local schedulers the same time slot can be reserved.",
            "no simulated site takes reservations; the paper is about those without",
        ),
        "2-3": Untestable(
            "A start time that follows from file transfers can play the role of the deadline; a "
            "job that misses it may still start, elsewhere.",
            "another model, the KOALA paper's: `koala reproduce koala` tests it (3.1-3, 3.2-1)",
        ),
        "4-7": Untestable(
            "With communication overheads Wait-10 may be worse, and the best X depends on them.",
            "the paper's model has none, and it does not say what they would be",
        ),
        "4-8": Untestable(
            "X may serve as a priority: jobs of high priority are considered earlier.",
            "proposed as future work without a rule that sets X",
        ),
    }
)
