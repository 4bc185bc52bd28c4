"""Open pages follow the grid: every change of a job appears on each of them by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.web.browser.following import DELAY_MAX_S, follow

pytestmark = pytest.mark.browser
JOBS = 12


def test_open_pages_show_every_change_without_being_loaded_again(tmp_path: Path) -> None:
    figures = follow(tmp_path, JOBS)
    missed = {one.name: one.value for one in figures if one.limit == 0}
    assert len(missed) == 2, "of the list, and of the page of one job"
    assert set(missed.values()) == {0}, missed
    for one in figures:
        if one.limit == DELAY_MAX_S:
            print(f"{one.name} {one.value:.2f} s")
