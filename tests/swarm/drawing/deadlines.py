"""Required starts."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from koala.core.model.job_spec import Deadline, JobSpec, StartType
from koala.core.model.values import JobId
from tests.swarm.focus import rush
from tests.swarm.scenario import FAULTS_S_MAX, Scenario


def timed(seed: int, drawn: Scenario) -> Scenario:
    """Draw a required start for most jobs, and local users who fill the sites, in three seeds of
    ten; from a stream of its own."""
    random = Random(f"{seed}/deadlines")
    if random.random() >= 0.3:
        return drawn
    specs: dict[JobId, JobSpec] = {}
    for job, spec in drawn.specs.items():
        if random.random() < 0.3:
            specs[job] = spec
            continue
        at = random.choice((None, random.uniform(20.0, 300.0)))
        after_s = random.choice((0.0, 0.5, 5.0, 30.0, random.uniform(0.0, 200.0)))
        specs[job] = replace(
            spec,
            deadline=Deadline(after_s=after_s) if at is None else Deadline(at=at),
            components=tuple(
                c if c.start_type is not StartType.NONE else replace(c, start_type=StartType.LOOSE)
                for c in spec.components
            ),
        )
    crowd = tuple(
        (
            random.uniform(0.0, FAULTS_S_MAX),
            (setting := random.choice(drawn.settings)).name,
            random.randint(1, setting.facts.processors),
            random.choice((10.0, 100.0)),
        )
        for _ in range(random.choice((0, 20, 40)))
    )
    return replace(
        drawn,
        specs=specs,
        settings=tuple(
            replace(s, facts=replace(s.facts, may_kill_local=random.random() < 0.7))
            for s in drawn.settings
        ),
        parameters=replace(
            drawn.parameters,
            at_deadline=random.choice(("kill", "kill", "fail")),
            deadline_fraction=random.choice((0.1, 0.7, 1.0)),
            deadline_tries_max=random.choice((0, 2, 10)),
            wait_s=random.choice((0.0, 0.0, 20.0, float("inf"))),
            wait_graces=random.choice((0.0, 3.0, 3.0)),
        ),
        locals_=(*drawn.locals_, *crowd),
    )


def rushed(random: Random, drawn: Scenario) -> Scenario:
    """Draw a rush of required starts: a high-priority job waits for its file while low ones take
    the processors of its placement. It must preempt, if it may."""
    return rush(
        drawn,
        preempt=random.choice(("component", "complete")),
        high_every=len(drawn.specs),
        low_run_s=120.0,
        apart_s=3.0,
        file_bytes=40_000_000,
    )
