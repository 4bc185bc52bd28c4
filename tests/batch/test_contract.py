"""The contract of local managers (koala_agent.lrm.local_manager) in front of real batch systems."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from koala.common.protocol.messages import Resources
from koala.errors import LocalManagerError
from koala_agent.lrm.batch.batch_manager import BatchManager
from koala_agent.lrm.dialect import job_name
from koala_agent.lrm.local_manager import OUTPUT_FILE, EndCause, Ended, Idle, Queued, Running
from tests.batch.conftest import ONE_OF_EACH, Serve, cleared
from tests.batch.systems.system import GPUS, System
from tests.live.grid import until
from tests.lrm.harness import Ask, Pipe

pytestmark = pytest.mark.lrm

SYSTEMS = {**ONE_OF_EACH, "newer slurm": ("newer_slurm", "iota")}


@pytest.fixture(params=list(SYSTEMS))
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    """One of each kind, and Slurm once more, of another generation."""
    yield from cleared(request, *SYSTEMS[request.param])


async def test_a_job_runs_where_it_was_told_with_what_it_was_given(serve: Serve, ask: Ask) -> None:
    placeholder = ask(
        "j1/1/0/1", "sh", "-c", 'pwd; echo "$KOALA_CLAIM" "$1"; exit 3', "-", "it's  $1"
    )
    async with serve() as (manager, witness):
        await manager.submit(placeholder)
        end = await witness.ended("j1/1/0/1")
    assert (end.cause, end.exit_status) == (EndCause.EXITED, 3)
    output = (placeholder.directory / OUTPUT_FILE).read_text().splitlines()
    assert output == [str(placeholder.directory), "j1/1/0/1 it's  $1"]


async def test_a_job_that_a_signal_of_its_own_ended_says_which(serve: Serve, ask: Ask) -> None:
    async with serve() as (manager, witness):
        await manager.submit(ask("j1/1/0/1", "sh", "-c", "kill -SEGV $$"))
        end = await witness.ended("j1/1/0/1")
    assert (end.cause, end.exit_status) == (EndCause.EXITED, -signal.SIGSEGV)


async def test_a_claim_is_run_once_however_often_it_is_submitted(serve: Serve, ask: Ask) -> None:
    placeholder = ask("j1/1/0/1", "sh", "-c", "echo ran")
    async with serve() as (manager, witness):
        await asyncio.gather(*(manager.submit(placeholder) for _ in range(5)))
        await witness.ended("j1/1/0/1")
        await manager.submit(placeholder)
        assert [type(listed) for listed in await manager.listing()] == [Ended]
    assert (placeholder.directory / OUTPUT_FILE).read_text() == "ran\n"


async def test_a_withdrawn_claim_is_gone_whether_it_ran_or_waited(serve: Serve, ask: Ask) -> None:
    async with serve() as (manager, witness):
        await manager.submit(ask("j1/1/0/1", processors=16))
        await witness.running("j1/1/0/1")
        await manager.submit(ask("j1/1/1/1", processors=16))
        listed = await manager.listing()
        assert listed == (Running(claim="j1/1/0/1"), Queued(claim="j1/1/1/1"))
        await manager.withdraw("j1/1/1/1")
        assert (await witness.ended("j1/1/1/1")).cause is EndCause.WITHDRAWN
        await manager.withdraw("j1/1/0/1")
        assert (await witness.ended("j1/1/0/1")).cause is EndCause.WITHDRAWN
        await witness.until(Idle, lambda idle: idle.startable == 16)


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


async def test_what_the_sites_people_end_is_told_as_such(
    serve: Serve, ask: Ask, system: System
) -> None:
    async with serve() as (manager, witness):
        await manager.submit(ask("j1/1/0/1"))
        await witness.running("j1/1/0/1")
        (number,) = system.numbers("koala-")
        system.cancel(number)
        assert (await witness.ended("j1/1/0/1")).cause is EndCause.CANCELLED_BY_SITE


async def test_jobs_of_others_count_and_are_never_touched(
    serve: Serve, ask: Ask, system: System
) -> None:
    other = system.submit("sleep 1000\n", processors=10)
    try:
        async with serve() as (manager, witness):
            idle = await witness.until(Idle, lambda idle: idle.local_processors == 10)
            assert (idle.processors, idle.idle, idle.startable) == (16, 6, 6)
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


async def test_the_next_agent_finds_what_runs_waits_and_ended(
    serve: Serve, ask: Ask, pipe: Pipe, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "end")
    async with serve(kill=False) as (manager, witness):
        await manager.submit(ask("j1/1/0/1", processors=15))
        await manager.submit(
            ask("j1/1/1/1", "sh", "-c", f"echo up > {pipe.path}; read x < {tmp_path}/end; exit 5")
        )
        await witness.running("j1/1/0/1")
        assert await pipe.line() == "up"
        await manager.submit(ask("j1/1/2/1", processors=16))
        await manager.listing()
    with (tmp_path / "end").open("w") as writer:  # opens when the job reads
        writer.write("end\n")
    async with serve() as (manager, witness):
        end = await witness.ended("j1/1/1/1")
        assert (end.cause, end.exit_status) == (EndCause.EXITED, 5)
        kinds = {listed.claim: type(listed) for listed in await manager.listing()}
        assert kinds == {"j1/1/0/1": Running, "j1/1/1/1": Ended, "j1/1/2/1": Queued}
        await manager.submit(ask("j1/1/2/1", processors=16))
        assert len(await manager.listing()) == 3


async def test_a_job_under_our_name_that_nobody_asked_for_is_taken_out(
    serve: Serve, ask: Ask, system: System
) -> None:
    """As when the submission of an agent that was killed arrives after all."""
    async with serve() as (manager, witness):
        scope = manager._table.scope
        await manager.submit(ask("j1/1/0/1"))
        await witness.running("j1/1/0/1")
        (ours,) = system.numbers("koala-")
        for claim in ("j1/1/0/1", "j9/1/0/1"):
            command = system.dialect.submit(
                ask(claim), name=job_name(claim, scope=scope), script="#!/bin/sh\nsleep 1000\n"
            )
            system.run(*command.argv, text=command.stdin)
        async with asyncio.timeout(90):
            while system.numbers("koala-") != [ours]:
                await manager.listing()
        tracked = manager._claims.get("j1/1/0/1")
        assert tracked is not None
        assert tracked.row.end is None


async def test_a_controller_that_is_away_says_nothing_and_changes_nothing(
    serve: Serve, ask: Ask, system: System
) -> None:
    async with serve() as (manager, witness):
        await manager.submit(ask("j1/1/0/1"))
        await witness.running("j1/1/0/1")
        with system.controller_away():
            with pytest.raises(LocalManagerError) as caught:
                await manager.submit(ask("j1/1/1/1"))
            assert caught.value.transient
            with pytest.raises(LocalManagerError) as caught:
                await manager.listing()
            assert caught.value.transient
            with pytest.raises(LocalManagerError):
                await manager.withdraw("j1/1/0/1")
        # Whether the submission was heard or not, once it is repeated there is one job of it.
        async with asyncio.timeout(60):
            while True:
                try:
                    await manager.submit(ask("j1/1/1/1"))
                    break
                except LocalManagerError:
                    continue
        await witness.running("j1/1/1/1")
        assert (await witness.ended("j1/1/0/1")).cause is EndCause.WITHDRAWN
        assert len(system.numbers("koala-")) == 1


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
        {"native": "--reservation=mine"},
    ),
    "gridengine": (
        {"queue": "batch", "native": "-p -5"},
        {"queue": "no-such"},
        {"gpus": GPUS + 1},
        {"constraint": "sse"},
        {"licenses": (("matlab", 4),)},
        {"native": "-l h_rt=99"},
    ),
    "htcondor": (
        {"memory_min_mb": 100, "project": "physics", "native": "+WantFlocking=True"},
        {"memory_min_mb": 100_000_000},
        {"gpus": GPUS + 1},
        {"gpus": 1, "gpu_type": "h100"},
        {"constraint": "sse"},
        {"constraint": "ib|sse"},
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
        {"native": "-t idempotent"},
    ),
    "pbs": (
        {"queue": "batch", "memory_min_mb": 100, "native": "-p -5"},
        {"queue": "no-such"},
        {"memory_min_mb": 100_000_000},
        {"gpus": GPUS + 1},
        {"constraint": "sse"},
        {"constraint": "ib|rome"},
        {"licenses": (("matlab", 4),)},
        {"native": "-l walltime=99"},
        {"native": "-J 1-10"},
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
                never_start = ("it would never start: Partition", "it would never start: PBS: Can")
                assert end.reason.startswith(never_start), end


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


async def test_a_request_that_could_never_run_is_refused_for_good(serve: Serve, ask: Ask) -> None:
    async with serve() as (manager, _):
        with pytest.raises(LocalManagerError, match="asks for 17 processors") as caught:
            await manager.submit(ask("j1/1/0/1", processors=17))
        assert not caught.value.transient
        assert await manager.listing() == ()
