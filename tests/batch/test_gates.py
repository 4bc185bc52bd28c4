"""Gates of real batch systems: a claim that is gated does not start, and loses nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from koala_agent.lrm.batch.batch_manager import BatchManager
from koala_agent.lrm.local_manager import EndCause, Idle, Listed, Placeholder, Queued, Running
from koala_agent.transport.interface import Answer
from tests.batch.conftest import ONE_OF_EACH, Serve, cleared
from tests.batch.systems.system import System
from tests.live.grid import until
from tests.lrm.harness import Ask

pytestmark = pytest.mark.lrm

SYSTEMS = {
    **ONE_OF_EACH,
    "slurm by age": ("slurm_by_age", "zeta"),
    "newer slurm": ("newer_slurm", "iota"),
}
GATES = {
    "slurm": "start time",
    "newer slurm": "start time",
    "slurm by age": "excluded nodes",
    "gridengine": "user hold",
    "htcondor": "requirement",
    "oar": "user hold",
    "pbs": "user hold",
}
FIRST, SECOND, SMALL = "j1/1/0/1", "j2/1/0/1", "j3/1/0/1"


SLOW = ("oar",)
"""Its server looks at holds once a minute."""


@pytest.fixture(
    params=[pytest.param(k, marks=pytest.mark.slow if k in SLOW else ()) for k in SYSTEMS]
)
def kind(request: pytest.FixtureRequest) -> str:
    """A key of SYSTEMS."""
    return str(request.param)


@pytest.fixture
def system(request: pytest.FixtureRequest, kind: str) -> Iterator[System]:
    """One of each kind, and Slurm three times: by arrival, by age, and of another generation."""
    yield from cleared(request, *SYSTEMS[kind])


def gated(placeholder: Placeholder) -> Placeholder:
    return replace(placeholder, is_gated=True)


async def states(manager: BatchManager) -> dict[str, type[Listed]]:
    return {one.claim: type(one) for one in await manager.listing()}


def place_of(manager: BatchManager, claim: str, system: System) -> str:
    """What the batch system says of a claim's place; empty where it says nothing."""
    dialect = system.dialect
    answers = [Answer(status=0, out=system.run(*one.argv), err="") for one in dialect.gates()]
    gate = dialect.read_gates(tuple(answers))[0]
    if gate.place is None:
        return ""
    question = gate.place(manager.number(claim))
    return question.read(Answer(status=0, out=system.run(*question.command.argv), err=""))


async def known_place(manager: BatchManager, claim: str, system: System) -> str:
    """The same, once the scheduler has looked at the job."""
    if system.kind == "slurm":
        await until(lambda: place_of(manager, claim, system) != "")
    return place_of(manager, claim, system)


async def test_a_gated_claim_is_passed_over_and_starts_first_when_it_is_opened(
    serve: Serve, ask: Ask, system: System, kind: str
) -> None:
    async with serve() as (manager, witness):
        await manager.submit(gated(ask(FIRST, processors=16)))
        assert manager.gate == GATES[kind]
        idle = await manager.idle()
        assert (idle.startable, idle.foreign_queued) == (16, 0)
        await manager.submit(ask(SMALL, processors=1))
        await witness.running(SMALL)
        assert await states(manager) == {FIRST: Queued, SMALL: Running}
        await manager.submit(ask(SECOND, processors=16))
        assert (await states(manager))[SECOND] is Queued
        place = await known_place(manager, FIRST, system)
        await manager.set_gate(FIRST, is_gated=False)
        await manager.withdraw(SMALL)
        await witness.running(FIRST)
        assert (await states(manager))[SECOND] is Queued
        assert place_of(manager, FIRST, system) == place


async def test_a_claim_that_waits_is_gated_and_outlives_its_agent(
    serve: Serve, ask: Ask, system: System
) -> None:
    other = system.submit("sleep 1000\n", processors=16)
    async with serve(kill=False) as (manager, witness):
        await witness.until(Idle, lambda idle: idle.local_processors == 16)
        await manager.submit(ask(FIRST, processors=16))
        await manager.submit(ask(SECOND, processors=16))
        place = await known_place(manager, FIRST, system)
        await manager.set_gate(FIRST, is_gated=True)
        await manager.set_gate(SECOND, is_gated=True)
    async with serve() as (manager, witness):
        await manager.submit(ask(SMALL, processors=1))
        system.cancel(other)
        await witness.running(SMALL)
        assert await states(manager) == {FIRST: Queued, SECOND: Queued, SMALL: Running}
        assert place_of(manager, FIRST, system) == place
        await manager.set_gate(SECOND, is_gated=False)
        await manager.set_gate(FIRST, is_gated=False)
        await manager.withdraw(SMALL)
        await witness.running(FIRST)
        assert (await states(manager))[SECOND] is Queued
        await manager.set_gate(SECOND, is_gated=True)
        await manager.set_gate(FIRST, is_gated=True)  # it runs: too late
        await manager.withdraw(SECOND)
        assert (await witness.ended(SECOND)).cause is EndCause.WITHDRAWN
        assert (await states(manager))[FIRST] is Running
