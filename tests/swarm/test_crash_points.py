"""Tests of a scenario with a crash at sampled points, and with a second one during the recovery.

All points: `python -m tests.swarm.crash_points`.
"""

from __future__ import annotations

import pytest

from tests.swarm.crash_points import Result, pairs, play

STEP = 63
PAIRS = 12


@pytest.fixture(scope="module")
def whole() -> Result:
    """Run the scenario without a crash, and return all its points."""
    return play(())


def test_the_story_has_all_that_a_job_can_meet(whole: Result) -> None:
    assert not whole.broken, whole.broken
    missing = [what for what in ("preempted", "Cancelled", "Finished") if not whole.seen.get(what)]
    assert not missing, f"the story never reaches {missing}: the sweep has lost its power"
    kinds = {kind for kind, _ in whole.points}
    assert kinds == {"crash_daemon", "crash_agent", "crash_starter", "cut"}


@pytest.mark.slow
@pytest.mark.long
def test_a_crash_anywhere_breaks_no_promise_nor_does_a_second_one(whole: Result) -> None:
    singles = [play([point]) for point in whole.points[::STEP]]
    doubles = [play(pair) for pair in pairs(singles, PAIRS)]
    for result in (*singles, *doubles):
        crashes = ",".join(f"{kind}:{number}" for kind, number in result.faults)
        command = f"python -m tests.swarm.crash_points --only {crashes}"
        assert not result.broken, f"{result.broken}\nrepeat with: {command}"
