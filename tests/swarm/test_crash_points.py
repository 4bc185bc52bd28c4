"""Tests of scenarios with a crash at sampled points, and with a second one during the recovery.

All points: `python -m tests.swarm.crash_points`.
"""

from __future__ import annotations

import pytest

from tests.swarm.crash_points import STORIES, Result, command, pairs, play

STEPS = {"preempted": 63, "queued": 21, "booked": 21}
PAIRS = 12
REACHED = {
    "preempted": ("preempted", "Cancelled", "Finished"),
    "queued": ("gated", "opened", "gives back", "Finished"),
    "booked": ("books", "no booking", "Finished"),
}


@pytest.fixture(scope="module", params=STORIES)
def story(request: pytest.FixtureRequest) -> str:
    """The name of each scenario in turn."""
    return str(request.param)


@pytest.fixture(scope="module")
def whole(story: str) -> Result:
    """Run the scenario without a crash, and return all its points."""
    return play((), story)


def test_the_story_has_all_that_a_job_can_meet(story: str, whole: Result) -> None:
    assert not whole.broken, whole.broken
    missing = [what for what in REACHED[story] if not whole.seen.get(what)]
    assert not missing, f"the story never reaches {missing}: the sweep has lost its power"
    kinds = {kind for kind, _ in whole.points}
    assert kinds == {"crash_daemon", "crash_agent", "crash_starter", "cut"}


@pytest.mark.slow
@pytest.mark.long
def test_a_crash_anywhere_breaks_no_promise_nor_does_a_second_one(
    story: str, whole: Result
) -> None:
    singles = [play([point], story) for point in whole.points[:: STEPS[story]]]
    doubles = [play(pair, story) for pair in pairs(singles, PAIRS)]
    for result in (*singles, *doubles):
        again = command(story, result.faults)
        assert not result.broken, f"{result.broken}\nrepeat with: {again}"
