"""`koala demo` for real: jobs finish, the summary is right, and nothing is left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import koala
from tests.cli.grids import marked_with

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.long]


def test_the_demo_finishes_its_jobs_and_sums_them_up(tmp_path: Path) -> None:
    run = koala("demo", "--jobs", "2", "--json", TMPDIR=str(tmp_path))
    assert run.returncode == 0, run.stderr
    hello, poisson = json.loads(run.stdout)["jobs"]
    assert (hello["name"], hello["phase"]) == ("hello", "Finished")
    assert (poisson["name"], poisson["phase"]) == ("poisson", "Finished")
    assert len(set(poisson["sites"])) == 3
    assert poisson["timeline"]["transfer_bytes"] > 0
    assert poisson["timeline"]["transfer_s"] > 0
    assert poisson["timeline"]["start_skew_s"] >= 0
    assert "Finished" in run.stderr
    assert list(tmp_path.iterdir()) == []
    assert marked_with(str(tmp_path)) == []
