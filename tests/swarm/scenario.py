"""Scenario of a seed: grid, workload, parameters, faults. `drawing` draws it.

Parameters are often drawn at their bounds, because rules interact there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from koala.core.model.allowances import Allowance, Payer
from koala.core.model.job_spec import JobSpec
from koala.core.model.parameters import Parameters
from koala.core.model.values import FileName, Instant, JobId, Seconds, SiteName
from tests.swarm.system.faults import Chances, Fault, Incident
from tests.swarm.system.world import STANDARD_PACE, Pace, Setting

FAULTS_S_MAX = 240.0
BANDWIDTH_BPS = 1_000_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything that the seed draws."""

    seed: int
    settings: tuple[Setting, ...]
    parameters: Parameters
    specs: dict[JobId, JobSpec]
    arrivals: dict[JobId, Instant]
    programs: dict[tuple[JobId, int], tuple[Seconds, int]]
    replicas: tuple[tuple[FileName, SiteName, int], ...]
    locals_: tuple[tuple[Instant, SiteName, int, Seconds], ...]
    chances: Chances
    kinds: tuple[Incident, ...]
    placement: str
    queueing: str
    latency_s: Seconds
    bookable: tuple[tuple[SiteName, SiteName, float], ...] = ()
    tickets: str = "none"
    allowances: tuple[tuple[Payer, Allowance], ...] = ()
    pace: Pace = STANDARD_PACE
    faults_s: Seconds = FAULTS_S_MAX
    lasts_s_max: Seconds = 90.0  # of what happens for a while
    only: frozenset[Fault] | None = None
    again: Mapping[JobId, tuple[Instant, ...]] = field(default_factory=dict)
    cancels: Mapping[JobId, Instant] = field(default_factory=dict)
    resizes: tuple[tuple[Instant, JobId, int], ...] = ()  # totals that owners ask for
    resizing: str = "FPSMA"
    foreign: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """Slots whose policy is another package's, which misbehaves after some answers."""


def quiet(scenario: Scenario) -> Scenario:
    """Return the same scenario without faults."""
    return replace(scenario, chances=Chances(), kinds=())
