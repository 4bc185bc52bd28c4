"""Long runs: lines about where they are, Ctrl-C, and those that a sweep had to stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from koala import lab
from koala.common.runtime import progress_bar
from koala.lab.sim.experiment import standstill
from koala.lab.sim.experiment.standstill import DAY_S, Patience
from koala.lab.sim.log_replay import multicluster

HASTY = Patience(idle_s=DAY_S / 2, steps=100)
BUSY = lab.grid({"a": 16, "b": 16, "c": 32}, local_load=0.8)
AT_S = 6 * 3600.0
SMALL = lab.Job(at=AT_S, processors=1, run_s=60, name="small")
WHOLE = lab.Job(at=AT_S, processors=64, run_s=60, name="whole")
STUCK = lab.Experiment(grid=BUSY, workload=lab.Jobs([SMALL, WHOLE], name="stuck"))


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standstill, "STOPPED", HASTY)


@pytest.mark.usefixtures("hasty")
def test_a_long_run_says_where_it_is_once_a_minute(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multicluster, "TICK_STEPS", 50)
    STUCK.run(seed=2)
    assert capfd.readouterr().err == "", "a minute has not passed"
    monkeypatch.setattr(progress_bar, "LINE_EVERY_S", 0.0)
    STUCK.run(seed=2)
    first, *_, last = capfd.readouterr().err.splitlines()
    run = "stuck; a 16, b 16, c 32, seed 2: simulated day 0."
    assert first.startswith(run)
    assert first.endswith(" jobs submitted, 0 over, 0 run")
    assert last.endswith(": 2 jobs submitted, 1 over, 0 run")
    with progress_bar.quiet():
        STUCK.run(seed=2)
    assert capfd.readouterr().err == ""
    assert progress_bar.QUIET_VARIABLE not in os.environ


@pytest.mark.usefixtures("hasty")
def test_a_sweep_names_its_runs_that_were_stopped(tmp_path: Path) -> None:
    """So does a sweep that finds them in the store; one in which all runs end has no word of it."""
    workloads = {"ends": lab.Jobs([SMALL]), "stuck": lab.Jobs([SMALL, WHOLE])}
    for _ in range(2):
        found = lab.sweep(STUCK, over={"workload": workloads}, reps=1, workers=1, store=tmp_path)
        (stopped,) = found.stopped
        assert (stopped["workload"], stopped["seed"]) == ("stuck", 1)
        assert "stopped at a standstill" in stopped["notes"]
        assert "whole needs 16 + 16 + 16 + 16 processors" in stopped["notes"]
        assert repr(found) == "2 runs of 2 settings, 1 stopped: workload"
    ended = lab.sweep(STUCK, over={"workload": [workloads["ends"]]}, reps=1, workers=1, store=False)
    assert not ended.stopped
    assert "stopped" not in repr(ended)


def interrupted(seed: int) -> Iterator[lab.Job]:
    """Jobs of a seed; at the second one the user presses Ctrl-C."""
    if seed == 2:
        os.kill(os.getpid(), signal.SIGINT)
    yield SMALL


def test_ctrl_c_ends_the_script_unless_it_asks_for_the_finished_runs() -> None:
    base = lab.Experiment(grid=BUSY, workload=lab.Jobs(interrupted))
    with pytest.raises(KeyboardInterrupt):
        lab.sweep(base, reps=3, workers=1, store=False)
    found = lab.sweep(base, reps=3, workers=1, store=False, keeps_finished=True)
    assert found.is_interrupted
    assert found.rows().column("seed") == [1]
