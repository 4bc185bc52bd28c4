"""The contract of local managers (koala_agent.lrm.local_manager) in front of real batch systems."""

from __future__ import annotations

import asyncio
import os
import pwd
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from koala.common.protocol.messages import Resources, Wait
from koala.errors import LocalManagerError
from koala_agent.conformance.checks import CHECKS, tried
from koala_agent.conformance.trial_system import BenchSettings
from koala_agent.lrm.batch.batch_manager import BatchManager
from koala_agent.lrm.local_manager import (
    OUTPUT_FILE,
    EndCause,
    Idle,
    Listed,
    Placeholder,
    Queued,
    Running,
)
from koala_agent.transport.interface import Answer
from koala_agent.transport.shell import Shell
from tests.batch.conftest import COMMAND_S, ONE_OF_EACH, WITHOUT_OAR, Serve, cleared
from tests.batch.systems.system import GPUS, System
from tests.harness.moments import until
from tests.lrm.harness import LIMIT_S, Ask

pytestmark = pytest.mark.lrm

SYSTEMS = {**ONE_OF_EACH, "newer slurm": ("newer_slurm", "iota")}
BY_AGE = "slurm by age"
FOR_GATES = {BY_AGE: ("slurm_by_age", "zeta")}


@pytest.fixture(params=list(SYSTEMS))
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    """One of each kind, and Slurm once more, of another generation."""
    yield from cleared(request, *{**SYSTEMS, **FOR_GATES}[request.param])


SLOW = ("time limit",)
"""Checks that wait for minutes."""


@pytest.mark.parametrize(
    ("system", "check"),
    [
        *(
            pytest.param(system, name, marks=pytest.mark.slow if name in SLOW else ())
            for system in SYSTEMS
            for name in CHECKS
        ),
        (BY_AGE, "gate"),
    ],
    indirect=["system"],
)
async def test_it_passes_the_conformance_kit(
    system: System, shell: Shell, tmp_path: Path, check: str
) -> None:
    settings = BenchSettings(
        processors=16,
        folder=tmp_path,
        account=pwd.getpwuid(os.geteuid()).pw_name,
        limit_s=LIMIT_S,
        poll_s=0.2,
    )
    await tried(CHECKS[check], system.dialect, shell, settings)


@pytest.mark.parametrize("system", ["htcondor"], indirect=True)
async def test_the_end_of_a_claim_that_waited_in_a_pool_tells_why(
    serve: Serve, ask: Ask, system: System
) -> None:
    system.submit("sleep 1000\n", processors=10)
    async with serve() as (manager, witness):
        await witness.until(Idle, lambda idle: idle.local_processors == 10)
        await manager.submit(ask("j1/1/0/1", processors=8))
        assert await manager.listing() == (Queued(claim="j1/1/0/1"),)
        await manager.withdraw("j1/1/0/1")
        end = await witness.ended("j1/1/0/1")
    assert end.cause is EndCause.WITHDRAWN
    assert "1 of 2 slots meet TARGET.Cpus >= RequestCpus" in end.waited_for


def is_free(manager: BatchManager) -> bool:
    """A call, so that the type checker does not take its answer for lasting."""
    return manager.starts_after_stop


async def test_jobs_of_others_count_and_are_never_touched(
    serve: Serve, ask: Ask, system: System
) -> None:
    other = system.submit("sleep 1000\n", processors=10)
    try:
        async with serve() as (manager, witness):
            # A listing may still have it waiting while its processors are in use already.
            idle = await witness.until(Idle, lambda idle: bool(idle.startable % 16))
            assert (idle.processors, idle.idle, idle.startable) == (16, 6, 6)
            assert idle.local_processors == 10
            await manager.submit(ask("j1/1/0/1", processors=6))
            await witness.running("j1/1/0/1")
            await witness.until(Idle, lambda idle: idle.idle == 0 and idle.queued_jobs == 0)
            await until(lambda: is_free(manager))
            behind = [system.submit("true\n", processors=10) for _ in range(2)]
            await witness.until(Idle, lambda idle: idle.queued_jobs == 2 and idle.startable == 0)
            await until(lambda: not is_free(manager))
        assert sorted(system.numbers()) == sorted([other, *behind])
    finally:
        system.clear()


SOON_S = 4.0
"""Limit of commands that get no answer."""


async def test_a_controller_that_is_away_says_nothing_and_changes_nothing(
    serve: Serve, ask: Ask, system: System, shell: Shell
) -> None:
    async with serve() as (manager, witness):
        await manager.submit(ask("j1/1/0/1"))
        await witness.running("j1/1/0/1")
        shell._limit_s = SOON_S
        with system.controller_away():
            with pytest.raises(LocalManagerError) as caught:
                await manager.submit(ask("j1/1/1/1"))
            assert caught.value.transient
            with pytest.raises(LocalManagerError) as caught:
                await manager.listing()
            assert caught.value.transient
            with pytest.raises(LocalManagerError):
                await manager.withdraw("j1/1/0/1")
        shell._limit_s = COMMAND_S
        # The submission is repeated, heard or not: one job of it is left, since the one that comes
        # late out of the controller's queue is cancelled.
        async with asyncio.timeout(120):
            while True:
                try:
                    await manager.submit(ask("j1/1/1/1"))
                    break
                except LocalManagerError:
                    continue
        await witness.running("j1/1/1/1")
        assert (await witness.ended("j1/1/0/1")).cause is EndCause.WITHDRAWN
        await until(lambda: system.numbers("koala-") == [manager.number("j1/1/1/1")])


WISHES: dict[str, tuple[dict[str, Any], ...]] = {
    "slurm": (
        {"queue": "batch", "hosts": 2, "memory_min_mb": 100},
        {"queue": "no-such"},
        {"hosts": 3},
        {"memory_min_mb": 100_000_000},
        {"gpus": GPUS + 1},
        {"gpus": 1, "gpu_type": "h100"},
        {"constraint": "ib&sse"},
        {"licenses": (("matlab", 4),)},
        {"native": "--exclude=mine"},
        {"reservation": "mine"},
    ),
    "gridengine": (
        {"queue": "batch", "native": "-p -5"},
        {"queue": "no-such"},
        {"gpus": GPUS + 1},
        {"constraint": "sse"},
        {"licenses": (("matlab", 4),)},
        {"reservation": "99"},
        {"native": "-l h_rt=99"},
    ),
    "htcondor": (
        {"memory_min_mb": 100, "project": "physics", "native": "+WantFlocking=True"},
        {"memory_min_mb": 100_000_000},
        {"gpus": GPUS + 1},
        {"gpus": 1, "gpu_type": "h100"},
        {"constraint": "sse"},
        {"constraint": "ib|sse"},
        {"reservation": "mine"},
        {"native": "+MaxHosts=2"},
        {"native": "queue=2"},
        {"native": "+WantFlocking=$ENV(HOME)"},
    ),
    "oar": (
        {"queue": "batch", "memory_min_mb": 100, "project": "physics", "native": "-p \"ib='YES'\""},
        {"queue": "no-such"},
        {"memory_min_mb": 100_000_000},
        {"gpus": GPUS + 1},
        {"constraint": "sse"},
        {"constraint": "ib|rome"},
        {"licenses": (("matlab", 4),)},
        {"reservation": "1"},
        {"native": "-t idempotent"},
    ),
}
"""What can be granted, and what never can."""


async def test_wishes_are_granted_or_come_to_nothing_soon(
    serve: Serve, ask: Ask, system: System
) -> None:
    """Slurm refuses some requests that cannot run, and takes others to keep them for ever."""
    granted, *never = WISHES[system.kind]
    async with serve() as (manager, witness):
        first = ask("j1/1/0/1", "true", processors=4)
        await manager.submit(replace(first, resources=Resources(**granted)))
        assert (await witness.ended("j1/1/0/1")).cause is EndCause.EXITED
        for number, wishes in enumerate(never):
            claim = f"j2/1/{number}/1"
            try:
                asked = replace(ask(claim, processors=4), resources=Resources(**wishes))
                await manager.submit(asked)
            except LocalManagerError as error:
                assert not error.transient, error  # noqa: PT017 - some are taken
            else:
                end = await witness.ended(claim)
                assert end.cause is EndCause.WITHDRAWN
                assert end.reason.startswith("it would never start: Partition"), end


async def test_gpus_features_and_licences_are_had_and_counted(serve: Serve, ask: Ask) -> None:
    has = Resources(gpus=3, constraint="ib&rome", licenses=(("matlab", 2),))
    async with serve() as (manager, witness):
        idle = await witness.until(Idle, lambda _: True)
        assert (idle.resources.gpus, idle.idle_gpus) == (GPUS, GPUS)
        await manager.submit(replace(ask("j1/1/0/1", processors=2), resources=has))
        await witness.running("j1/1/0/1")
        await witness.until(Idle, lambda idle: idle.idle_gpus == 1)
        await manager.submit(replace(ask("j1/1/1/1"), resources=Resources(gpus=2)))
        await manager.submit(
            replace(ask("j1/1/2/1"), resources=Resources(licenses=(("matlab", 2),)))
        )
        kinds = [type(listed) for listed in await manager.listing()]
        assert kinds == [Running, Queued, Queued]
        await manager.withdraw("j1/1/0/1")
        await witness.running("j1/1/1/1")
        await witness.running("j1/1/2/1")


@pytest.mark.parametrize("system", ["slurm", "newer slurm"], indirect=True)
async def test_processes_of_several_processors_have_them_on_one_machine(
    serve: Serve, ask: Ask, system: System
) -> None:
    """Fill the first node of alpha but for two of its eight processors."""
    system.submit("sleep 1000\n", processors=6)
    wide = replace(
        ask(
            "j1/1/0/1", "sh", "-c", "echo $SLURM_TASKS_PER_NODE $SLURM_CPUS_PER_TASK", processors=8
        ),
        resources=Resources(cpus_per_task=4, is_exclusive=True),
        processes=2,
    )
    async with serve() as (manager, witness):
        await manager.submit(wide)
        assert (await witness.ended("j1/1/0/1")).exit_status == 0
    assert (wide.directory / OUTPUT_FILE).read_text() == "2 4\n"


# Gates --------------------------------------------------------------------------------------------

GATES = {
    **dict.fromkeys(("alpha", "iota"), "start time"),
    "zeta": "excluded nodes",
    **dict.fromkeys(("gamma", "omega", "sigma"), "user hold"),
    "kappa": "requirement",
}
FIRST, SECOND, SMALL = "j1/1/0/1", "j2/1/0/1", "j3/1/0/1"


@pytest.mark.parametrize("system", ["htcondor"], indirect=True)
async def test_the_longest_run_of_a_pool_is_told(serve: Serve, system: System) -> None:
    path = system.folder / "condor_config"
    text = path.read_text(encoding="utf-8")
    rule = "(JobStatus == 2) && (time() - EnteredCurrentStatus > 24 * 3600)"
    path.write_text(f"{text}\nSYSTEM_PERIODIC_REMOVE = {rule}\n", encoding="utf-8")
    try:
        async with serve() as (_, witness):
            told = await witness.until(Idle, lambda idle: bool(idle.resources.queues))
            (queue,) = told.resources.queues
            assert (queue.name, queue.longest_s) == ("pool", 86_400)
    finally:
        path.write_text(text, encoding="utf-8")


def are_hours(waits: tuple[Wait, ...], hours: int) -> bool:
    """Test the expected starts of two claims."""
    early_s = [hours * 3600 - (wait.start_in_s or 0) for wait in waits]
    return len(early_s) == 2 and all(0 <= early < 200 for early in early_s)


def gated(placeholder: Placeholder) -> Placeholder:
    return replace(placeholder, is_gated=True)


def field_of(system: System, number: str, name: str) -> str:
    """A field of a job of Slurm."""
    found = re.search(rf"\b{name}=(\S*)", system.run("scontrol", "-o", "show", "job", number))
    return "" if found is None else found[1]


def is_purgeable(system: System, number: str) -> bool:
    return field_of(system, number, "Reason") == "BadConstraints"


async def states(manager: BatchManager) -> dict[str, type[Listed]]:
    return {one.claim: type(one) for one in await manager.listing()}


def place_of(manager: BatchManager, claim: str, system: System) -> str:
    """The batch system's words for a claim's place; empty where it has none."""
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


@pytest.mark.parametrize("system", [*WITHOUT_OAR, BY_AGE, "newer slurm"], indirect=True)
async def test_a_claim_that_waits_is_gated_and_outlives_its_agent(
    serve: Serve, ask: Ask, system: System
) -> None:
    other = system.submit("sleep 1000\n#$ -l h_rt=3600\n", processors=16)  # at Slurm by default
    async with serve(kill=False) as (manager, witness):
        await witness.until(Idle, lambda idle: idle.local_processors == 16)
        await manager.submit(ask(FIRST, processors=16))
        await manager.submit(ask(SECOND, processors=16))
        place = await known_place(manager, FIRST, system)
        await manager.set_gate(FIRST, is_gated=True)
        await manager.set_gate(SECOND, is_gated=True)
        assert manager.gate == GATES[system.name]
        await witness.until(Idle, lambda idle: idle.queued_jobs == idle.foreign_queued == 0)
        if system.kind in ("slurm", "gridengine"):  # the other job may run for an hour
            await witness.until(Idle, lambda idle: are_hours(idle.waits, 1))
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


@pytest.mark.slow
@pytest.mark.parametrize("system", [BY_AGE], indirect=True)
async def test_a_gate_that_an_administrator_opens_is_shut_again(
    serve: Serve, ask: Ask, system: System
) -> None:
    system.submit("exec sleep 1000\n", processors=16)
    async with serve() as (manager, witness):
        await witness.until(Idle, lambda idle: idle.local_processors == 16)
        await manager.submit(gated(ask(FIRST, processors=16)))
        await until(partial(is_purgeable, system, manager.number(FIRST)))
        system.run("scontrol", "update", f"JobId={manager.number(FIRST)}", "ExcNodeList=")
        await until(lambda: field_of(system, manager.number(FIRST), "Reason") == "Resources")
        await until(partial(is_purgeable, system, manager.number(FIRST)))
        assert (await states(manager))[FIRST] is Queued


@pytest.mark.slow
@pytest.mark.parametrize("system", [BY_AGE], indirect=True)
async def test_where_a_site_purges_what_cannot_run_another_gate_is_used(
    serve: Serve, ask: Ask, system: System
) -> None:
    async with serve() as (manager, witness):
        for claim in (FIRST, SECOND):
            await manager.submit(gated(ask(claim, processors=1)))
        for claim in (FIRST, SECOND):
            number = manager.number(claim)
            await until(partial(is_purgeable, system, number))
            system.cancel(number)
            assert (await witness.ended(claim)).cause is EndCause.CANCELLED_BY_SITE
        await until(lambda: manager.gate == "nice value")
        other = system.submit("exec sleep 1000\n", processors=16)
        await witness.until(Idle, lambda idle: idle.local_processors == 16)
        await manager.submit(gated(ask(SMALL, processors=16)))
        assert field_of(system, manager.number(SMALL), "Comment") == "koala-gated-nice"
        await manager.set_gate(SMALL, is_gated=False)
        system.cancel(other)
        await witness.running(SMALL)
