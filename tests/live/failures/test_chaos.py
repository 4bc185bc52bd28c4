"""A few jobs and a few faults: that `make chaos` works. Continuous integration runs more of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.chaos import Plan, campaign, tell
from tests.live.faults import Kind

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.long]

SOON_OVER = (Kind.KILL_DAEMON, Kind.KILL_AGENT, Kind.KILL_STARTER, Kind.KILL_RELAY, Kind.CUT)


def test_jobs_under_faults_are_neither_lost_nor_run_twice_and_leave_nothing(
    tmp_path: Path,
) -> None:
    course = campaign(tmp_path, Plan(seed=1, jobs=12, kills=4, intensity=2.0, kinds=SOON_OVER))
    assert course.broken == [], tell(course)
    assert course.jobs >= 12
    assert course.account.kills >= 4
