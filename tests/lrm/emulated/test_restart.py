"""An agent that is killed, and the next one with the same state directory."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from koala.common.runtime.clock import boot_id
from koala.errors import JournalError
from koala_agent.environments import CLAIM_VARIABLE
from koala_agent.lrm.claim_processes import SCOPE_VARIABLE, identify, scan
from koala_agent.lrm.job_table import JobRow, JobTable, Leaving, Starting, Waiting
from koala_agent.lrm.local_manager import EndCause, Ended, Placeholder, Queued, Running
from tests.agent.watching import Ear
from tests.lrm.harness import ESCAPE, LIMIT_S, Ask, Serve, python

pytestmark = pytest.mark.live

PROGRAM = Path(__file__).with_name("agent_program.py")


def own_scope() -> str:
    """Name a site of this process alone: a site ends all strays under its name."""
    return f"here-{os.getpid()}"


class KilledAgent:
    """An agent in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._lines: list[str] = []

    async def line(self) -> str:
        assert self._process.stdout is not None
        async with asyncio.timeout(LIMIT_S):
            line = (await self._process.stdout.readline()).decode().strip()
        assert line, f"the agent ended after it said {self._lines}"
        self._lines.append(line)
        return line

    async def submit(self, placeholder: Placeholder) -> None:
        assert self._process.stdin is not None
        asked = {
            "claim": placeholder.claim,
            "processors": placeholder.processors,
            "time_limit_s": placeholder.time_limit_s,
            "argv": placeholder.argv,
            "directory": str(placeholder.directory),
            "is_gated": placeholder.is_gated,
        }
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        await self.until(f"submitted {placeholder.claim}")

    async def until(self, expected: str) -> None:
        """Returns when the agent has said this line."""
        while expected not in self._lines:
            await self.line()

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


Launch = Callable[[], AbstractAsyncContextManager[KilledAgent]]


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    """An agent over 8 processors in the state directory of `serve`; killed at the end at last."""

    @asynccontextmanager
    async def start() -> AsyncIterator[KilledAgent]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            PROGRAM,
            tmp_path / "state",
            "8",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        agent = KilledAgent(process)
        try:
            yield agent
        finally:
            await agent.kill()

    return start


async def test_what_runs_is_adopted_and_what_waits_keeps_its_place(
    serve: Serve, ask: Ask, ear: Ear, launch: Launch
) -> None:
    async with launch() as agent:
        await agent.submit(ask("a", "sh", "-c", f"echo $$ > {ear.path}; exec sleep 1000"))
        await agent.submit(replace(ask("first", processors=8), is_gated=True))
        await agent.submit(ask("second", processors=8))
        await agent.submit(ask("third", processors=8))
        await agent.until("Running a")
        pid = int(await ear.line())
        await agent.kill()
    assert identify(pid) is not None
    async with serve() as (manager, witness):
        assert await manager.listing() == (
            Running(claim="a"),
            Queued(claim="first"),
            Queued(claim="second"),
            Queued(claim="third"),
        )
        assert (await manager.idle()).idle == 7
        await manager.withdraw("a")
        end = await witness.ended("a")
        assert (end.cause, end.exit_status) == (EndCause.WITHDRAWN, None)
        assert identify(pid) is None
        await witness.running("second")
        await manager.set_gate("first", is_gated=False)
        await manager.withdraw("second")
        await witness.running("first")
        await manager.withdraw("first")
        await witness.running("third")


async def test_a_job_that_ended_while_no_agent_ran_is_told_and_its_daemon_reaped(
    serve: Serve, ask: Ask, ear: Ear, launch: Launch
) -> None:
    claim = f"a-{os.getpid()}"  # no other test run's
    async with launch() as agent:
        await agent.submit(ask(claim, *python(ESCAPE, ear.path, "lasting")))
        daemon = int(await ear.line())
        await agent.until(f"Running {claim}")
        (leader,) = leaders(claim)
        await agent.kill()
    os.kill(leader, 9)
    assert identify(daemon) is not None
    async with serve() as (manager, witness):
        end = await witness.ended(claim)
        assert (end.cause, end.exit_status) == (EndCause.EXITED, None)
        assert identify(daemon) is None
        assert (await manager.idle()).idle == 8


def leaders(claim: str) -> list[int]:
    """The session leaders among the processes of a claim that are not daemons."""
    return [
        seen.identity.pid
        for seen in scan().seen
        if seen.claim == claim and os.getsid(seen.identity.pid) == seen.identity.pid
    ]


async def test_killed_at_any_moment_the_agent_runs_no_claim_twice(
    serve: Serve, ask: Ask, tmp_path: Path, launch: Launch
) -> None:
    """Each job writes its claim once; some ended, some run, some were never started."""
    log = tmp_path / "log"
    claims = [f"c{number}" for number in range(24)]
    asked = [ask(claim, "sh", "-c", f"echo {claim} >> {log}") for claim in claims]
    for submitted_when_killed in (5, 13, 20):
        async with launch() as agent:
            for placeholder in asked[:submitted_when_killed]:
                await agent.submit(placeholder)
            await agent.kill()
    async with serve() as (manager, witness):
        for placeholder in asked:
            await manager.submit(placeholder)
        for each in await manager.listing():
            if not isinstance(each, Ended):
                await witness.ended(each.claim)
        listed = await manager.listing()
    assert [ended.claim for ended in listed if isinstance(ended, Ended)] == claims
    lost = [e.claim for e in listed if isinstance(e, Ended) and e.cause is EndCause.LOST]
    ran = log.read_text().split()
    assert len(ran) == len(set(ran))
    assert set(ran) | set(lost) == set(claims)


async def test_a_job_found_half_started_is_ended_and_lost(
    serve: Serve, ask: Ask, tmp_path: Path
) -> None:
    """The agent died between the start of the process and the record of its pid."""
    table = JobTable(tmp_path / "state", JobRow, boot=boot_id(), scope=own_scope())
    table.save("a", JobRow(ask("a", processors=3), Starting()))
    table.close()
    variables = {CLAIM_VARIABLE: "a", SCOPE_VARIABLE: table.scope}
    process = await asyncio.create_subprocess_exec("sleep", "1000", env={**os.environ, **variables})
    async with serve(kill_s=LIMIT_S) as (_, witness):
        assert (await witness.ended("a")).cause is EndCause.LOST
    assert await process.wait() == -15


async def test_strays_are_reaped_but_not_those_of_another_site(
    serve: Serve, tmp_path: Path
) -> None:
    """Claims are unique to a daemon; two demonstrations on a machine must not kill one another."""
    table = JobTable(tmp_path / "state", JobRow, boot=boot_id(), scope=own_scope())
    table.close()
    variables = {CLAIM_VARIABLE: "j1/1/0/1"}
    here, elsewhere = [
        await asyncio.create_subprocess_exec(
            "sleep", "1000", env={**os.environ, **variables, SCOPE_VARIABLE: scope}
        )
        for scope in (own_scope(), "elsewhere")
    ]
    async with serve(kill_s=LIMIT_S), asyncio.timeout(LIMIT_S):
        assert await here.wait() == -15
    # Had it been told to end, the first signal to arrive would be another.
    elsewhere.kill()
    assert await elsewhere.wait() == -9


async def test_after_a_reboot_what_had_not_ended_is_lost(
    serve: Serve, ask: Ask, tmp_path: Path
) -> None:
    table = JobTable(tmp_path / "state", JobRow, boot="an earlier one", scope=own_scope())
    table.save("waited", JobRow(ask("waited"), Waiting()))
    table.save("left", JobRow(ask("left"), Leaving(EndCause.EXITED, "", 0, None)))
    table.close()
    for _ in range(2):
        async with serve() as (manager, _witness):
            listed = await manager.listing()
            assert [(e.claim, e.cause) for e in listed if isinstance(e, Ended)] == [
                ("waited", EndCause.LOST),
                ("left", EndCause.LOST),
            ]


async def test_a_table_of_another_format_is_refused(serve: Serve, tmp_path: Path) -> None:
    table = JobTable(tmp_path / "state", JobRow, boot=boot_id(), scope=own_scope())
    table._database.connection.execute("PRAGMA user_version = 99")
    table.close()
    with pytest.RaisesGroup(pytest.RaisesExc(JournalError, match="format 99")):
        async with serve():
            raise AssertionError("opened")
