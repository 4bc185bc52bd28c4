"""Intervals of the protocol, and what is kept, restored and said again."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from koala.core.model.values import FOREVER, Instant, JobId
from tests.swarm.scenario import FAULTS_S_MAX, Scenario
from tests.swarm.system.daemons import Custody
from tests.swarm.system.world import Pace


def paced(seed: int, drawn: Scenario) -> Scenario:
    """Draw the repetition intervals of the protocol."""
    random = Random(f"{seed}/pace")
    beat_s = random.choice((1.0, 5.0, 5.0))
    return replace(
        drawn,
        faults_s=random.choice((100.0, 150.0, FAULTS_S_MAX)),
        pace=Pace(
            beat_s=beat_s,
            silence_s=beat_s * random.choice((3.0, 7.0)),
            again_s=random.choice((1.0, 5.0)),
            linger_s=random.choice((1.0, 30.0)),
            custody=_custody(seed, snapshot_events=random.choice((40, 40, 300, 10_000))),
        ),
        chances=replace(drawn.chances, restore=_restore(seed), slow_collect=_slow_collect(seed)),
        again=_again(seed, drawn),
    )


def _custody(seed: int, *, snapshot_events: int) -> Custody:
    """Draw the retention of jobs and events: three seeds in ten forget them as soon as they may."""
    random = Random(f"{seed}/custody")
    if random.random() >= 0.3:
        return Custody(snapshot_events=snapshot_events, images=0.05 if _restore(seed) else 0.01)
    return Custody(
        snapshot_events=random.choice((20, 60)),
        keep_jobs=random.choice((0, 0, 2)),
        keep_jobs_s=random.choice((0.0, 20.0, FOREVER)),
        keep_s=random.choice((0.0, 30.0, FOREVER)),
        images=0.05 if _restore(seed) else 0.01,
    )


def _restore(seed: int) -> float:
    """Draw disk losses and restored backups, in one seed of ten."""
    return 0.3 if Random(f"{seed}/restore").random() < 0.1 else 0.0


def _slow_collect(seed: int) -> float:
    """Draw collections of logs and outputs that take longer than leases, in two seeds of three."""
    return Random(f"{seed}/collect").choice((0.0, 0.05, 0.3))


def _again(seed: int, drawn: Scenario) -> dict[JobId, tuple[Instant, ...]]:
    """Draw the instants at which clients repeat a request under the same key."""
    random = Random(f"{seed}/keys")
    return {
        job: tuple(at + random.choice((0.0, 0.5, random.uniform(0.0, 300.0))) for _ in range(n))
        for job, at in drawn.arrivals.items()
        if (n := random.choice((0, 0, 1, 3)))
    }
