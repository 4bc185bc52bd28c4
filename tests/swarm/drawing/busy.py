"""Busy sites whose queues jobs enter, and those that book processors."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.swarm.scenario import FAULTS_S_MAX, Scenario
from tests.swarm.system.agents import MUTE

BUSY_FIRST = 1000
"""First seed that may draw busy sites: most seeds that find mutants are below."""
BOOKED_FIRST = 2000
"""First seed in which busy sites may book: those that find mutants of tickets are below."""


def busy(seed: int, drawn: Scenario) -> Scenario:
    """Draw busy sites whose queues jobs enter, in a quarter of the seeds; from a stream of its own.
    Minutes stand for hours."""
    random = Random(f"{seed}/busy")
    if seed < BUSY_FIRST or random.random() >= 0.25:
        return drawn
    crowd = tuple(
        (
            random.uniform(0.0, FAULTS_S_MAX),
            (setting := random.choice(drawn.settings)).name,
            random.randint(1, setting.facts.processors),
            random.choice((20.0, 100.0, 300.0)),
        )
        for _ in range(random.choice((5, 20, 40)))
    )
    hold_s = random.choice((1.0, 10.0, 60.0))
    more = Random(f"{seed}/busy more")
    return replace(
        drawn,
        specs={
            job: replace(spec, redundancy=more.choice((1, 1, 2, 3)))
            for job, spec in drawn.specs.items()
        },
        tickets=random.choice(("dodge", "dodge", "turns", "spare")),
        settings=tuple(
            replace(
                s,
                facts=replace(
                    s.facts,
                    gate=random.choice(("queue", "queue", MUTE, "")),
                    tickets_max=more.choice((None, None, 1, 4)),
                    held_share_max=more.choice((None, None, 0.5)),
                ),
            )
            for s in drawn.settings
        ),
        parameters=replace(
            drawn.parameters,
            tickets_max=random.choice((1, 3)),
            tickets_user_max=random.choice((3, 100, 100)),
            held_share_max=more.choice((0.2, 0.5, 1.0)),
            redundancy_share_max=more.choice((0.1, 1.0)),
            ticket_plan_s=random.choice((5.0, 20.0)),
            ticket_slack_s=random.choice((0.0, 10.0)),
            ticket_hold_min_s=hold_s,
            ticket_hold_max_s=hold_s * random.choice((1.0, 4.0)),
        ),
        chances=replace(drawn.chances, gate_lost=random.choice((0.0, 0.0, 0.2))),
        locals_=(*drawn.locals_, *crowd),
    )


def bookable(seed: int, drawn: Scenario) -> Scenario:
    """Draw busy sites that book processors, in half of those with queues that jobs enter; from a
    stream of its own."""
    random = Random(f"{seed}/bookings")
    if seed < BOOKED_FIRST or drawn.tickets == "none" or random.random() < 0.5:
        return drawn
    return replace(
        drawn,
        tickets="book",
        specs={
            job: replace(
                spec,
                components=tuple(
                    one
                    if one.wall_time_s
                    else replace(one, wall_time_s=random.choice((20.0, 200.0)))
                    for one in spec.components
                ),
            )
            for job, spec in drawn.specs.items()
        },
        settings=tuple(
            replace(s, facts=replace(s.facts, books=random.choice(("calendar", "calendar", ""))))
            for s in drawn.settings
        ),
        chances=replace(drawn.chances, booking_revoked=random.choice((0.0, 0.1, 0.5))),
    )
