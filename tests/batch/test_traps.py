"""Habits of batch systems that an adapter must not misread."""

from __future__ import annotations

import asyncio
import os
import pwd
import subprocess
from contextlib import suppress

import pytest

from koala.errors import LocalManagerError
from koala_agent.lrm.dialect import job_name
from koala_agent.lrm.local_manager import (
    EndCause,
    Ended,
    Idle,
    Listed,
    RequestRefusedError,
    Running,
)
from tests.agent.watching import Ear
from tests.batch.conftest import WITHOUT_OAR, Serve
from tests.batch.systems.system import System
from tests.harness.moments import until
from tests.lrm.harness import Ask

pytestmark = pytest.mark.lrm


@pytest.mark.parametrize("system", WITHOUT_OAR, indirect=True)
async def test_our_jobs_are_not_put_back_into_the_queue(
    serve: Serve, ask: Ask, system: System, ear: Ear
) -> None:
    """Slurm's administrators cannot, unless they allow it first; a status of 99 makes Grid Engine
    run a job again in spite of `-r n`; HTCondor's evict jobs, which puts them
    back. Either way it is taken out. OAR puts back what its machine failed to
    start, and nobody can ask for that (tests/lrm/batch/test_oar.py)."""
    is_slurm = system.kind == "slurm"
    is_cell = system.kind == "gridengine"
    script = f"echo ran > {ear.path}; " + ("exit 99" if is_cell else "sleep 1000")
    async with serve() as (manager, witness):
        await manager.submit(ask("j1/1/0/1", "sh", "-c", script))
        assert await ear.line() == "ran"
        if is_slurm:
            await witness.running("j1/1/0/1")
            (number,) = system.numbers("koala-")
            with pytest.raises(AssertionError, match="disabled"):
                system.run("scontrol", "requeue", number)
            system.run("scontrol", "update", f"JobId={number}", "Requeue=1")
            system.run("scontrol", "requeue", number)
        elif not is_cell:
            await witness.running("j1/1/0/1")
            system.run("condor_vacate_job", manager.number("j1/1/0/1"))
        end = await witness.ended("j1/1/0/1")
    assert end.cause is EndCause.CANCELLED_BY_SITE
    # HTCondor's schedd takes it out itself, when it comes to it first.
    assert end.reason in (
        "the batch system put it back into its queue",
        "HTCondor: removed: it was evicted",
    )


@pytest.mark.parametrize("system", ["gridengine"], indirect=True)
async def test_a_status_of_100_leaves_nothing_in_the_queue(
    serve: Serve, ask: Ask, system: System
) -> None:
    """With it Grid Engine puts a job into state E."""
    async with serve() as (manager, witness):
        await manager.submit(ask("j1/1/0/1", "sh", "-c", "exit 100"))
        assert (await witness.ended("j1/1/0/1")).cause is EndCause.LOST
    assert system.numbers("koala-") == []


async def test_a_time_limit_is_told_as_one(
    serve: Serve, ask: Ask, system: System, ear: Ear
) -> None:
    script = f"echo ran > {ear.path}; exec sleep 1000"
    async with serve() as (manager, witness):
        await manager.submit(ask("j1/1/0/1", "sh", "-c", script, time_limit_s=2.0))
        await ear.line()  # Slurm tells of a failed launch if the limit comes before the script
        if system.kind == "slurm":  # whose limits are minutes, and are looked at now and then
            (number,) = system.numbers("koala-")
            system.run("scontrol", "update", f"JobId={number}", "TimeLimit=0")
        assert (await witness.ended("j1/1/0/1")).cause is EndCause.TIME_LIMIT


async def test_drained_processors_are_not_there_and_a_reason_with_blanks_hurts_nobody(
    serve: Serve, ask: Ask, system: System
) -> None:
    is_slurm = system.kind == "slurm"
    async with serve() as (manager, witness):
        await witness.until(Idle, lambda idle: idle.idle == 16)
        with system.drained():
            left = 8 if is_slurm else 0
            await witness.until(Idle, lambda idle: (idle.idle, idle.processors) == (left, left))
            if is_slurm:  # `ReqNodeNotAvail, UnavailableNodes:alpha1` or more words than that
                system.run(
                    *("sbatch", "-J", "other", "-w", "alpha1", "-n", "1", "-o", "/dev/null"),
                    text="#!/bin/sh\ntrue\n",
                )
                with pytest.raises(RequestRefusedError, match="not available"):
                    await manager.submit(ask("j1/1/0/1", processors=16))
                await manager.submit(ask("j1/1/1/1", processors=8))
                await witness.running("j1/1/1/1")
        system.clear()


@pytest.mark.parametrize("system", ["slurm"], indirect=True)
async def test_a_reservation_of_others_leaves_nothing_startable(
    serve: Serve, ask: Ask, system: System
) -> None:
    """(Grid Engine's take slots, which are then not available.)"""
    async with serve() as (_, witness):
        await witness.until(Idle, lambda idle: idle.startable == 16)
        reservation = ("ReservationName=theirs", "Users=nobody", "Nodes=alpha1")
        system.run(
            *("scontrol", "create", "reservation", *reservation, "StartTime=now", "Duration=9")
        )
        try:
            await witness.until(Idle, lambda idle: idle.startable == 8)
        finally:
            system.run("scontrol", "delete", "ReservationName=theirs")


async def test_jobs_with_names_like_ours_are_left_alone(
    serve: Serve, ask: Ask, system: System
) -> None:
    """Those of another agent, those that only look like ours, and where anybody may end any job,
    one of another account under our very name."""
    async with serve() as (manager, witness):
        scope = manager._table.scope
        ours = job_name("j1/1/0/1", scope=scope)
        names = (ours.replace(scope, "0" * 8), ours.removesuffix(".1"), f"my-{ours}")
        others = {system.submit("sleep 1000\n", name=name) for name in names}
        if system.kind == "gridengine":
            others.add(_submit_as_nobody(system, ours))
        await manager.submit(ask("j1/1/0/1"))
        await witness.running("j1/1/0/1")
        assert await manager.listing() == (Running(claim="j1/1/0/1"),)
        own = manager.number("j1/1/0/1")
        assert set(system.numbers()) == {own, *others}
        await manager.withdraw("j1/1/0/1")
        await witness.ended("j1/1/0/1")
        async with asyncio.timeout(90):
            while own in system.numbers():
                await manager.listing()
        assert set(system.numbers()) == others


async def test_no_name_of_anybodys_job_hides_ours(serve: Serve, ask: Ask, system: System) -> None:
    """Batch systems take control characters, line ends and what is no text at all."""
    for name in ("a\x01b", "a\x0bb", "a\x7fb", "a\nb", "a<&>b", "a\udcffb", "a\ufffeb"):
        with suppress(AssertionError):  # this one it does not take
            system.submit("sleep 1000\n", name=name)
    async with serve() as (manager, witness):
        await manager.submit(ask("j1/1/0/1"))
        await witness.running("j1/1/0/1")
        assert (await manager.idle()).processors > 0
        await manager.withdraw("j1/1/0/1")
        await witness.ended("j1/1/0/1")


def _submit_as_nobody(system: System, name: str) -> str:
    words = ("qsub", "-terse", "-N", name, "-pe", "grid", "1", "-o", "/dev/null", "-j", "y")
    nobody = pwd.getpwnam("nobody")
    return subprocess.run(
        [*words, "-S", "/bin/sh"],
        input="sleep 1000\n",
        env={**os.environ, **system.environment, "HOME": "/", "USER": "nobody"},
        cwd="/",
        user=nobody.pw_uid,
        group=nobody.pw_gid,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout.strip()


@pytest.mark.parametrize(
    "system",
    ["htcondor", pytest.param("gridengine", marks=pytest.mark.slow)],
    indirect=True,
)
async def test_a_controller_that_starts_again_knows_all_jobs(
    serve: Serve, ask: Ask, system: System
) -> None:
    async with serve() as (manager, witness):
        await manager.submit(ask("j1/1/0/1", processors=16))
        await witness.running("j1/1/0/1")
        await manager.submit(ask("j1/1/1/1"))
        await until(system.has_saved)
        system.restart_controller()
        listed: tuple[Listed, ...] | None = None
        async with asyncio.timeout(60):
            while listed is None:
                try:
                    listed = await manager.listing()
                except LocalManagerError as error:
                    assert error.transient  # noqa: PT017 - it is tried again
        assert not any(isinstance(entry, Ended) for entry in listed), listed
        await manager.withdraw("j1/1/0/1")
        async with asyncio.timeout(90):  # Grid Engine's execution daemon looks for its master again
            while Running(claim="j1/1/1/1") not in await manager.listing():
                await asyncio.to_thread(system.numbers)
