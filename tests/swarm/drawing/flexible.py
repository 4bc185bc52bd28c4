"""Flexible and malleable jobs, and the totals that owners ask for."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from koala.core.model.job_spec import Split, StartType
from koala.core.splitting import Room, most_of
from tests.swarm.scenario import FAULTS_S_MAX, Scenario

FLEXIBLE_FIRST = 2000


def flexible(seed: int, drawn: Scenario) -> Scenario:
    """Draw flexible jobs in place of most, some of them malleable, in half of the seeds from
    FLEXIBLE_FIRST on; from a stream of its own. The grid could take each if nothing else ran."""
    random = Random(f"{seed}/flexible")
    if seed < FLEXIBLE_FIRST or random.random() >= 0.5:
        return drawn
    specs = {}
    for job, spec in drawn.specs.items():
        part = replace(spec.components[0], site=None, label=None, start_type=StartType.STRICT)
        total = spec.processors
        most = random.choice((total, max(1, total // 2), random.randint(1, total)))
        split = Split(
            total=total,
            least=total,
            part_min=random.choice((1, 1, random.randint(1, most))),
            part_max=most,
            parts_max=random.choice((2, 4, 1000)),
        )
        if random.random() < 0.4:
            least = random.randint(split.part_min, total)
            more = random.choice((total, 2 * total))
            split = replace(split, total=more, least=least, is_malleable=True)
        rooms = [
            Room(s.name, s.facts.processors, 1 if spec.distinct else s.facts.slots or 1000)
            for s in drawn.settings
            if s.facts.admits(spec.owner)
        ]
        is_free = spec.quorum is None and spec.queue is None and split.nominal
        if not is_free or not most_of(split, rooms) or random.random() < 0.2:
            specs[job] = spec
            continue
        flexible = replace(spec, components=(part,), split=split, connect=())
        specs[job] = flexible.shaped(split.nominal)
    drawn = replace(drawn, specs=specs, placement=random.choice((drawn.placement, "FCM", "CM")))
    return _resized(seed, drawn)


def _resized(seed: int, drawn: Scenario) -> Scenario:
    """Draw other totals of malleable jobs, and how fast these are resized; from a stream of its
    own."""
    random = Random(f"{seed}/resized")
    resizes = []
    for job, spec in drawn.specs.items():
        if spec.split is not None and spec.split.is_malleable:
            most = spec.split.parts_max * spec.split.part_max
            totals = (spec.split.least, spec.split.total, 2 * spec.split.total)
            resizes += [
                (random.uniform(0.0, FAULTS_S_MAX), job, min(most, random.choice(totals)))
                for _ in range(random.choice((0, 1, 3, 8)))
            ]
    limits = replace(
        drawn.parameters,
        resize_first=random.choice(("waiting", "waiting", "running")),
        resize_step_s=random.choice((0.0, 1.0, 10.0)),
        give_way_s=random.choice((0.5, 5.0, 30.0)),
    )
    resizing = random.choice(("FPSMA", "EGS"))
    return replace(drawn, resizes=tuple(resizes), parameters=limits, resizing=resizing)
