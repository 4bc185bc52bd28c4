"""Claims of sections 2 and 3.1 of the deadlines paper: the model and its parameters."""

from __future__ import annotations

from collections.abc import Iterable

from koala.lab.papers.comparisons import LITTLE, above, below, exact, higher, once, shown
from koala.lab.papers.deadlines.points import LoadLevel, Watched, at
from koala.lab.papers.deadlines.quantities import (
    GP,
    LP,
    PURE,
    WAIT_10,
    everywhere,
    fraction,
    lead,
    near,
    none,
    of,
    wait,
)
from koala.lab.papers.paper import Comparison
from koala.lab.sim.runs import Quantity

# 2: the model.


def _overtaken(level: LoadLevel) -> Iterable[Comparison]:
    yield above(Quantity(Watched(at(level, PURE)), "overtaken", "global jobs overtaken"), 0, "%")


def _balanced(level: LoadLevel) -> Iterable[Comparison]:
    watched = Watched(at(level, WAIT_10))
    for site in range(4):
        part = Quantity(watched, f"share.{site}", f"share of cluster {site + 1} in the global work")
        yield near(part, 25, 25 * LITTLE, "%")


MODEL = {
    "2-1": everywhere(lambda level: below(wait(at(level, LP), "success_rate", 0.0), 100, "%")),
    "2-2": everywhere(
        lambda level: higher(
            wait(at(level, GP), "success_rate", 0.0),
            wait(at(level, LP), "success_rate", 0.0),
        )
    ),
    "2.1-1": once(higher(exact("small", "P(size ≤ 8)"), exact("uniform_small", "uniform"))),
    "2.1-2": once(
        higher(exact("powers", "P(power of two)"), exact("uniform_powers", "uniform")),
    ),
    "2.2-1": once(none(exact("claiming_difference_s", "largest difference, s"))),
    "2.2-2": once(above(exact("left_s", "time left"), 0, "s")),
    "2.2-3": everywhere(_overtaken),
    "2.2-4": everywhere(_balanced),
    "2.2-5": everywhere(
        lambda level: higher(
            lead(at(level, WAIT_10), "success_rate", 3600.0),
            lead(at(level, PURE), "success_rate", 3600.0),
        )
    ),
    "2.3-1": everywhere(
        lambda level: [
            none(fraction(at(level), "wasted", 1.0)),
            above(fraction(at(level), "wasted", 0.7), 0, "%"),
        ]
    ),
}

# 3.1: the parameters.


def _not_as_requested(level: LoadLevel) -> Iterable[Comparison]:
    yield below(of(at(level, PURE), "local_load", "Wait-∞"), 100 * level.local_load, "%")
    yield below(of(at(level, PURE), "global_load", "Wait-∞"), 100 * level.global_load, "%")


def _accounted(level: LoadLevel) -> Iterable[Comparison]:
    point = at(level, PURE)
    yield shown(
        "total load less wasted = local and global load",
        lambda total, wasted, local, glob: 1e-6 - abs(total - wasted - local - glob),
        of(point, "total_load", "Wait-∞"),
        of(point, "wasted", "Wait-∞"),
        of(point, "local_load", "Wait-∞"),
        of(point, "global_load", "Wait-∞"),
    )


PARAMETERS = {
    "3.1-1": once(near(exact("local_size", "E[Sl]"), 6.95, 0.005)),
    "3.1-2": once(near(exact("global_size", "E[Sg]"), 10.44, 0.005)),
    "3.1-3": everywhere(_not_as_requested),
    "3.1-4": everywhere(lambda level: above(of(at(level), "local_kill_rate", "Wait-∞"), 0, "%")),
    "3.1-5": everywhere(lambda level: above(of(at(level), "wasted", "Wait-∞"), 0, "%")),
    "3.1-6": everywhere(lambda level: above(of(at(level), "fail_rate", "Wait-∞"), 0, "%")),
    "3.1-7": everywhere(_accounted),
}
