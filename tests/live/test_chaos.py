"""A few jobs and a few faults: that `make chaos` works. Continuous integration runs more of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.chaos import Plan, campaign, tell

pytestmark = [pytest.mark.live, pytest.mark.slow]


def test_jobs_under_faults_are_neither_lost_nor_run_twice_and_leave_nothing(
    tmp_path: Path,
) -> None:
    course = campaign(tmp_path, Plan(seed=1, jobs=16, kills=6, intensity=2.0))
    assert course.broken == [], tell(course)
    assert course.jobs >= 16
    assert course.account.kills >= 6
