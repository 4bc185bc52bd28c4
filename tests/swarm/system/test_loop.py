"""Tests of the simulated event loop: a simulation leaves nothing behind for the tests after it."""

from __future__ import annotations

import asyncio
import gc
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

import pytest

from koala.lab.sim.engine import Engine
from tests.lab.sim.journal_replay.past import Grid
from tests.swarm.mutants import MUTANTS
from tests.swarm.run import Run
from tests.swarm.scenario import draw
from tests.swarm.swarm import attempt
from tests.swarm.system.agents import Agent
from tests.swarm.system.faults import FaultPlan
from tests.swarm.system.loop import SimulatedLoop
from tests.swarm.system.machines import CrashedError, Machine, Process


@contextmanager
def nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check that the block leaves no open loop, and nothing that the collector warns of."""
    ignored: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: ignored.append(error.exc_value))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        yield
        still_open = [
            str(each)
            for each in gc.get_objects()
            if isinstance(each, SimulatedLoop) and not each.is_closed()
        ]
        gc.collect()
    assert still_open == []
    assert [str(each.message) for each in warned] == []
    assert ignored == []


def test_whole_runs_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with nothing_left(monkeypatch):
        for seed in (1, 7):  # agents are killed in both
            assert not attempt(seed).story


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("release_before_the_last_armed", 21),  # the oracle sees the breach
        ("a_nonce_that_is_not_checked", 0),  # the agent's own step raises
    ],
)
def test_broken_runs_leave_nothing(monkeypatch: pytest.MonkeyPatch, name: str, seed: int) -> None:
    with nothing_left(monkeypatch), MUTANTS[name]():
        assert attempt(seed).story


def test_a_grid_that_is_played_for_a_while_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with nothing_left(monkeypatch):
        Grid(sites={"delft": 8, "leiden": 8}).told(20.0)


def test_agents_that_never_took_a_step_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(replace(draw(1), faults_s=0.0))
    with nothing_left(monkeypatch), pytest.raises(ZeroDivisionError), run.world.running():
        raise ZeroDivisionError


def test_an_agent_that_cannot_start_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(draw(1))
    *_, last = run.world.sites.values()
    start = Agent.start

    def fail(agent: Agent) -> None:
        start(agent)
        if agent is last.agent:
            raise ZeroDivisionError

    monkeypatch.setattr(Agent, "start", fail)
    with nothing_left(monkeypatch), pytest.raises(ZeroDivisionError):
        run.play()


@pytest.mark.parametrize("error", [AssertionError, CrashedError, OSError])
def test_a_killed_process_whose_tasks_fail_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    ended: list[str] = []

    async def work(name: str, lasts: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(lasts):
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0)
            ended.append(name)
            raise error

    def over(loop: SimulatedLoop, task: asyncio.Task[None]) -> None:
        loop.failure = task.exception()

    with nothing_left(monkeypatch):
        engine = Engine()
        process = Process(engine, FaultPlan(1), Machine(engine))
        process.begin_life()
        loop = SimulatedLoop(process)
        for name, lasts in (("short", 0), ("long", 5)):
            loop.create_task(work(name, lasts)).add_done_callback(partial(over, loop))
        engine.run(1.0)
        loop.create_task(work("never begun", 0))
        loop.dispose()
        assert ended == ["short", "long"]
