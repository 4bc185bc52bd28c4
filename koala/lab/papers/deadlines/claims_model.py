"""Claims of sections 2 and 3.1 of the deadlines paper: the model and its parameters."""

from __future__ import annotations

from collections.abc import Iterable

from koala.lab.papers.comparisons import LITTLE, above, below, exact, higher, once, share, shown
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
from koala.lab.papers.paper import Claim, Comparison
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
    "2-1": Claim(
        "With queues there is no guarantee that the processors are free at a given time.",
        everywhere(lambda level: below(wait(at(level, LP), "success_rate", 0.0), 100, "%")),
        reading="without killing, some jobs that are tried at their deadline fail (LP, Wait-0)",
    ),
    "2-2": Claim(
        "Busy processors can be freed on demand for a global job that is at its deadline.",
        everywhere(
            lambda level: higher(
                wait(at(level, GP), "success_rate", 0.0),
                wait(at(level, LP), "success_rate", 0.0),
            )
        ),
        reading="GP starts more jobs than LP with the same single try at the deadline (Wait-0)",
    ),
    "2.1-1": Claim(
        "The realistic distribution has more small sizes than the uniform one.",
        once(higher(exact("small", "P(size ≤ 8)"), exact("uniform_small", "uniform"))),
        reading="components of at most 8 processors, of [4, 32]",
    ),
    "2.1-2": Claim(
        "It has more sizes that are powers of two.",
        once(
            higher(exact("powers", "P(power of two)"), exact("uniform_powers", "uniform")),
        ),
    ),
    "2.2-1": Claim(
        "RPP is a variation of what KOALA uses for claiming.",
        once(none(exact("claiming_difference_s", "largest difference, s"))),
        reading="with Lp = L and D = JST the tries are at the same instants",
    ),
    "2.2-2": Claim(
        "The series of tries can go on for ever, so it needs a limit.",
        once(above(exact("left_s", "time left"), 0, "s")),
        reading="after Mp + 1 = 11 tries, Lp = 0.7, a job with a lead of 3599 s is not at D",
    ),
    "2.2-3": Claim(
        "Global jobs are not necessarily scheduled in FCFS order.",
        everywhere(_overtaken),
        reading="some are claimed for after jobs that were submitted later",
    ),
    "2.2-4": Claim(
        "Worst Fit is a sort of load balancing.",
        everywhere(_balanced),
        reading=f"each cluster does a quarter of the global work, within {share(LITTLE)}",
    ),
    "2.2-5": Claim(
        "When the deadline is far away it may be better to ignore a job for a while.",
        everywhere(
            lambda level: higher(
                lead(at(level, WAIT_10), "success_rate", 3600.0),
                lead(at(level, PURE), "success_rate", 3600.0),
            )
        ),
        reading="lead of 3600 s: success of Wait-10 over that of Wait-∞",
    ),
    "2.3-1": Claim(
        "Processor time is wasted by claiming before the deadline.",
        everywhere(
            lambda level: [
                none(fraction(at(level), "wasted", 1.0)),
                above(fraction(at(level), "wasted", 0.7), 0, "%"),
            ]
        ),
        figures=(2, 3),
        reading="none with Lp = 1, some with Lp = 0.7",
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
    "3.1-1": Claim(
        "The expected size of local jobs is 6.95.",
        once(near(exact("local_size", "E[Sl]"), 6.95, 0.005)),
    ),
    "3.1-2": Claim(
        "The expected size of components of global jobs is 10.44.",
        once(near(exact("global_size", "E[Sg]"), 10.44, 0.005)),
    ),
    "3.1-3": Claim(
        "The actual local and global loads are not the requested ones.",
        everywhere(_not_as_requested),
        figures=(1,),
        reading="both are lower",
    ),
    "3.1-4": Claim(
        "One reason why loads are not the requested ones: local jobs are killed.",
        everywhere(lambda level: above(of(at(level), "local_kill_rate", "Wait-∞"), 0, "%")),
        figures=(1,),
    ),
    "3.1-5": Claim(
        "Another reason: processor time is wasted by early claims.",
        everywhere(lambda level: above(of(at(level), "wasted", "Wait-∞"), 0, "%")),
        figures=(1,),
    ),
    "3.1-6": Claim(
        "A third reason: global jobs fail at their deadlines.",
        everywhere(lambda level: above(of(at(level), "fail_rate", "Wait-∞"), 0, "%")),
        figures=(1,),
    ),
    "3.1-7": Claim(
        "The useful load can be computed.",
        everywhere(_accounted),
        reading="what is busy or claimed, less what is wasted, is what jobs use",
    ),
}
