"""`koala demo` for real: jobs finish, the summary is right, and nothing is left behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.cli.command import LIMIT_S, environment, koala
from tests.cli.grids import marked_with, still_running

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.long]


def test_the_demo_finishes_its_jobs_and_sums_them_up(tmp_path: Path) -> None:
    run = koala("demo", "--jobs", "2", "--json", TMPDIR=str(tmp_path))
    assert run.returncode == 0, run.stderr
    hello, poisson = json.loads(run.stdout)["jobs"]
    assert (hello["example"], hello["phase"], hello["status"]) == ("hello", "Finished", 0)
    assert (poisson["example"], poisson["phase"], poisson["status"]) == ("poisson", "Finished", 0)
    assert len(set(poisson["sites"])) == 3
    assert poisson["transfer_bytes"] > 0
    assert poisson["transfer_s"] > 0
    assert poisson["start_skew_ms"] >= 0
    assert "Finished" in run.stderr
    assert list(tmp_path.iterdir()) == []
    assert marked_with(str(tmp_path)) == []


def test_an_interrupted_demo_leaves_nothing(tmp_path: Path) -> None:
    """SIGHUP, as from a terminal that goes away; other signals are those of `koala up`."""
    with subprocess.Popen(
        [sys.executable, "-m", "koala.cli", "demo", "--jobs", "9"],
        env=environment(TMPDIR=str(tmp_path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        while "passed the barrier" not in demo.stderr.readline():
            assert demo.poll() is None
        children = psutil.Process(demo.pid).children(recursive=True)
        demo.send_signal(signal.SIGHUP)
        rest = demo.stderr.read()
        assert demo.stdout.read() == ""
        assert demo.wait(timeout=LIMIT_S) == 1
    assert "interrupted; everything was stopped" in rest
    assert still_running(children) == []
    assert marked_with(str(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []
