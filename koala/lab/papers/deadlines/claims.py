"""Claims of the deadlines paper: its conclusions (section 4), and all its sentences."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from pathlib import Path

from koala.lab.papers.comparisons import MUCH, above, higher, higher_by
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
from koala.lab.papers.paper import Comparison
from koala.lab.papers.sentences import read_sentences
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
    "4-1": everywhere(_wait_is_better),
    "4-2": high(lambda level: _better(at(level, LP))),
    "4-3": everywhere(
        lambda level: higher_by(
            MUCH, wait(at(level), "fail_rate", inf), wait(at(level), "fail_rate", 10.0)
        )
    ),
    "4-4": everywhere(lambda level: first_better(level, 0.7)),
    "4-5": everywhere(
        lambda level: above(
            Quantity(Beginning(at(level)), "wasted.first", "wasted at first"), 0, "%"
        )
    ),
    "4-6": everywhere(lambda level: scarcer_later(level, 0.7)),
}

SENTENCES = read_sentences(
    Path(__file__).parent, {**MODEL, **PARAMETERS, **RPP, **WAIT, **CONCLUSIONS}
)
