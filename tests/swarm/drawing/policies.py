"""Orders of queues, placement by hints, and limits of groups."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from koala.common.protocol.ordering import ORDERS
from koala.core.model.allowances import Allowance, group_payer, user_payer
from koala.core.model.job_spec import Hint
from koala.policies.queueing.multiqueue import DISCIPLINES
from tests.swarm.drawing.busy import BUSY_FIRST
from tests.swarm.scenario import BANDWIDTH_BPS, Scenario


def in_order(seed: int, drawn: Scenario) -> Scenario:
    """Draw a queue in an order of its jobs, in a tenth of the seeds; from a stream of its own."""
    random = Random(f"{seed}/ordering")
    if random.random() >= 0.1:
        return drawn
    return replace(drawn, queueing=random.choice(tuple(ORDERS)))


def line_up(seed: int, drawn: Scenario) -> Scenario:
    """Draw one of the disciplines for several queues, with local jobs, in half of the seeds. It
    uses a stream of its own, so that kept seeds stay the same in all the rest."""
    random = Random(f"{seed}/queueing")
    if random.random() < 0.5:
        return drawn
    specs = {}
    for job, spec in drawn.specs.items():
        fits = [s.name for s in drawn.settings if s.facts.processors >= spec.largest]
        home = spec.components[0].site or random.choice(fits)
        if random.random() < 0.5:
            specs[job] = replace(spec, queue=home)
        else:
            specs[job] = spec
    return replace(
        drawn,
        specs=specs,
        queueing=random.choice(tuple(DISCIPLINES)),
        placement=random.choice((drawn.placement, "WF-distinct")),
    )


def hinted(seed: int, drawn: Scenario) -> Scenario:
    """Draw placement by speed, booked links and hints, in a quarter of the seeds; from a stream of
    its own."""
    random = Random(f"{seed}/hints")
    if random.random() >= 0.25:
        return drawn
    names = [setting.name for setting in drawn.settings]
    links = [(a, b, BANDWIDTH_BPS * random.choice((0.2, 1.0))) for a in names for b in names]
    return replace(
        drawn,
        placement=random.choice(("NoNetwork", "PreferLocal", "Service", "Service")),
        bookable=tuple(link for link in links if random.random() < 0.8),
        settings=tuple(
            replace(
                s,
                facts=replace(
                    s.facts,
                    mips=random.choice((500.0, 1000.0, 3000.0)),
                    slots=random.choice((None, None, 2, 4)),
                ),
            )
            for s in drawn.settings
        ),
        specs={
            job: replace(
                spec,
                hint=random.choice((None, Hint(kind="cpu"), Hint(kind="io", deviation=0.5))),
                length_mi=random.choice((None, 1000.0, 20_000.0)),
                preferred_mips=random.choice((None, None, 500.0)),
            )
            for job, spec in drawn.specs.items()
        },
    )


def shared(seed: int, drawn: Scenario) -> Scenario:
    """Draw groups with limits, in a sixth of the seeds; from a stream of its own. No job is larger
    than the limits."""
    random = Random(f"{seed}/shared")
    if seed < BUSY_FIRST or random.random() >= 1 / 6:
        return drawn
    specs = {
        job: replace(spec, group=random.choice(("physics", "physics", "")))
        for job, spec in drawn.specs.items()
    }
    largest = max(spec.processors for spec in specs.values())
    allowances = tuple(
        (
            payer,
            Allowance(
                processors=random.choice((None, largest, largest + 2)),
                jobs=random.choice((None, 1, 2)),
                hold_s=random.choice((None, None, 50_000.0)),
                shares=random.choice((0.5, 1.0, 2.0)),
            ),
        )
        for payer in (group_payer("physics"), user_payer("ann"))
    )
    return replace(drawn, specs=specs, allowances=allowances)
