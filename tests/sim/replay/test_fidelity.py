"""The honesty of a what-if: without changes it tells what was (issue: one core)."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest

from koala.core.invariants import check
from koala.sim.faults import Chances, Incident
from tests.sim.replay.past import drawn
from tests.sim.scenario import Scenario, draw

SEEDS = range(200, 210)
KINDS: dict[str, tuple[Incident, ...]] = {
    "none": (),
    "links": (Incident.LINK_DOWN, Incident.LINK_CUT),
    "starters": (Incident.STARTER_KILLED, Incident.SITE_CANCEL),
    "daemon": (Incident.DAEMON_CRASH,),
    "operators": (Incident.DRAIN, Incident.USER_CANCEL),
    "managers": (),
}


def with_faults(seed: int, name: str) -> Scenario:
    """A drawn grid and workload with one kind of fault."""
    chances = Chances(
        incidents_per_s=0.02 if KINDS[name] else 0.0,
        manager_error=0.2 if name == "managers" else 0.0,
    )
    return replace(draw(seed), chances=chances, kinds=KINDS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_simulation_without_changes_places_and_starts_as_it_was(name: str) -> None:
    """Nearly all jobs: a seed draws local users that compete with us within milliseconds, and
    rules at their bounds, where a millisecond decides which of two jobs goes first."""
    jobs = same_sites = same_phase = 0
    off_s: list[float] = []
    for seed in SEEDS:
        comparison = drawn(with_faults(seed, name)).compare()
        simulated = comparison.columns["simulated"]
        check(simulated.scheduler, simulated.chronicle.last_at)
        found = comparison.document()["fidelity"]
        jobs += found["jobs"]
        same_sites += found["same_sites"]
        same_phase += found["same_phase"]
        if found["start_off_s"]["max"] is not None:
            off_s.append(found["start_off_s"]["max"])
    assert same_sites >= 0.93 * jobs, (same_sites, jobs)
    assert same_phase >= 0.97 * jobs, (same_phase, jobs)
    assert median(off_s) < 0.3, sorted(off_s)


def test_the_same_journal_gives_the_same_what_if() -> None:
    told = drawn(with_faults(230, "starters"))
    assert told.compare(placement="WF").document() == told.compare(placement="WF").document()
