"""Claims of the deadlines paper: its conclusions (section 4), and the list of all."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from koala.papers.claims import MUCH, higher, share
from koala.papers.deadlines.claims_model import MODEL, PARAMETERS
from koala.papers.deadlines.claims_rpp import RPP
from koala.papers.deadlines.claims_shared import (
    GP,
    LP,
    everywhere,
    first_better,
    high,
    scarcer_later,
)
from koala.papers.deadlines.claims_waits import WAIT
from koala.papers.deadlines.points import LOW_LEVELS, Beginning, LoadLevel, Point, at
from koala.papers.deadlines.quantities import above, by_wait, seen, wait
from koala.papers.paper import Claim, Comparison, Untestable


def _better(base: Point) -> Iterable[Comparison]:
    for metric in ("success_rate", "global_load"):
        ten, pure = by_wait(base, metric, 10.0, inf)
        yield higher(ten, pure)


def _wait_is_better(level: LoadLevel) -> Iterable[Comparison]:
    yield from _better(at(level, GP))
    if level in LOW_LEVELS:
        yield from _better(at(level, LP))


CONCLUSIONS = (
    Claim(
        id="4-1",
        section="4",
        text="It is better to consider jobs only shortly before their deadline.",
        reading="success and global load, Wait-10 against Wait-∞, where the paper compares them: "
        "GP, and LP with a low local load",
        test=everywhere(_wait_is_better),
    ),
    Claim(
        id="4-2",
        section="4",
        text="It is so in general.",
        reading="the same where the paper does not look: LP with a high local load",
        test=high(lambda level: _better(at(level, LP))),
    ),
    Claim(
        id="4-3",
        section="4",
        text="Considering them too early makes many jobs fail.",
        reading=f"failed, Wait-∞ over Wait-10 by {share(MUCH)}, GP",
        test=everywhere(
            lambda level: [
                higher(
                    wait(at(level), "fail_rate", inf),
                    wait(at(level), "fail_rate", 10.0),
                    by=MUCH,
                )
            ]
        ),
    ),
    Claim(
        id="4-4",
        section="4",
        text="The first jobs then run fine.",
        reading="from an empty grid, Lp 0.7: more success for the first five than after the 20th",
        test=everywhere(lambda level: [first_better(level, 0.7)]),
    ),
    Claim(
        id="4-5",
        section="4",
        text="But these waste much processor time.",
        reading="Lp 0.7: wasted in the first 20 minutes of an empty grid, over none",
        test=everywhere(
            lambda level: [
                above(seen(Beginning(point=at(level)), "wasted.first", "wasted at first"), 0)
            ]
        ),
    ),
    Claim(
        id="4-6",
        section="4",
        text="The next ones do not find enough processors.",
        reading="Lp 0.7 against 1, long after an empty grid: global jobs hold or use more",
        test=everywhere(lambda level: [scarcer_later(level, 0.7)]),
    ),
)

CLAIMS = (*MODEL, *PARAMETERS, *RPP, *WAIT, *CONCLUSIONS)

UNTESTABLE = (
    Untestable(
        id="1-1",
        section="1",
        text="Co-allocation has been shown by simulation to be a viable option.",
        reason="a result of other papers; `koala reproduce multiqueue` tests one of them",
    ),
    Untestable(
        id="1-2",
        section="1",
        text="With reservation-based local schedulers the same time slot can be reserved.",
        reason="no simulated site takes reservations; the paper is about those without",
    ),
    Untestable(
        id="2-3",
        section="2",
        text="A start time that follows from file transfers can play the role of the deadline; a "
        "job that misses it may still start, elsewhere.",
        reason="another model, the KOALA paper's: `koala reproduce koala` tests it (3.1-3, 3.2-1)",
    ),
    Untestable(
        id="4-7",
        section="4",
        text="With communication overheads Wait-10 may be worse, and the best X depends on them.",
        reason="the paper's model has none, and it does not say what they would be",
    ),
    Untestable(
        id="4-8",
        section="4",
        text="X may serve as a priority: jobs of high priority are considered earlier.",
        reason="proposed as future work without a rule that sets X",
    ),
)
