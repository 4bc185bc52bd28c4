"""Draw the scenario of a seed: what every seed has, then the kinds of scenario one after the other,
each from a stream of its own, so that a new kind leaves all others as they were."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.swarm import foreign
from tests.swarm.drawing.basics import plain
from tests.swarm.drawing.busy import bookable, busy
from tests.swarm.drawing.deadlines import rushed, timed
from tests.swarm.drawing.flexible import flexible
from tests.swarm.drawing.jobs import in_turn, kept_together, owning, pathed, with_ports
from tests.swarm.drawing.pace import paced
from tests.swarm.drawing.policies import hinted, in_order, line_up, shared
from tests.swarm.focus import focused
from tests.swarm.scenario import Scenario


def draw(seed: int) -> Scenario:
    """Draw the scenario of a seed."""
    random = Random(seed)
    drawn = plain(random, seed)
    drawn = rushed(random, drawn) if random.random() < 0.15 else drawn
    for kind in KINDS:
        drawn = kind(seed, drawn)
    counted = Random(f"{seed}/counted").choice(("jobs", "jobs", "all"))
    return replace(
        drawn,
        parameters=replace(drawn.parameters, errors_counted=counted),
        foreign=foreign.drawn(seed),
    )


KINDS = (
    line_up, timed, pathed, with_ports, hinted, kept_together, in_turn, in_order, paced, focused,
    owning, busy, bookable, shared, flexible,
)  # fmt: skip
