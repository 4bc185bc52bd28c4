"""Programs that have dropped all marks of their claim end though their starter is killed.

They have dropped or overwritten their environment, and some their session and parent, when they
tell their process id. The starter is killed then, alone or together with its agent.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from koala_agent.lrm.claim_processes import ProcessIdentity, identify, is_alive
from tests.agent.live.agent_process import AgentProcess, a_job, agent_process
from tests.agent.live.fake_daemon import (
    GONE,
    GRANTED,
    PASSED,
    FakeDaemon,
    FakeSession,
    fake_daemon,
    hold,
)
from tests.agent.watching import Ear
from tests.harness.moments import moment

pytestmark = [pytest.mark.live, pytest.mark.slow]

BARE = "env -i /bin/sh -c 'echo $$ > EAR; exec sleep 600'; true"

RENAMED = """
import signal
start, end = (int(word) for word in open("/proc/self/stat").read().split(")")[-1].split()[45:49:3])
with open("/proc/self/mem", "r+b", buffering=0) as memory:
    memory.seek(start)
    memory.write(b"sleep 600".ljust(end - start, b"\\0"))
assert b"KOALA" not in open("/proc/self/environ", "rb").read()
open("EAR", "w").write("%s\\n" % os.getpid())
signal.pause()
"""
"""Writes over its arguments and, right behind them, its environment, as setproctitle does."""

ESCAPED = """
import signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork():
    signal.pause()
os.setsid()
if os.fork():
    os._exit(0)
os.chdir("/")
os.closerange(0, 256)
says = "echo $$ > EAR; exec sleep 600"
os.execve("/bin/sh", ["login", "-c", says], {"PATH": "/bin:/usr/bin"})
"""
"""Leaves parent, session, folder, files and environment, and minds no TERM."""

PROGRAMS = {
    "bare": BARE,
    "renamed": shlex.join((sys.executable, "-I", "-S", "-c", f"import os{RENAMED}")) + "; true",
    "escaped": shlex.join((sys.executable, "-I", "-S", "-c", f"import os{ESCAPED}")) + "; true",
}


@pytest.fixture
def ear(tmp_path: Path) -> Iterator[Ear]:
    """Programs tell their process ids. A test that fails leaves some, which only this can end."""
    opened = Ear(tmp_path / "ear")
    yield opened
    for pid in opened.all_lines():
        with suppress(OSError):
            if b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(int(pid), signal.SIGKILL)
    opened.close()


async def left_alone(ear: Ear, agent: AgentProcess) -> tuple[int, ProcessIdentity]:
    """The starter, and the program that has made itself unknown."""
    program = identify(int(await ear.line()))
    assert program is not None
    assert program.pid not in agent.processes()
    while len(left := set(agent.processes()) - set(agent.programs())) != 1:
        await moment()  # a process that the program has left is about to end
    (starter,) = left
    return starter, program


async def begin(daemon: FakeDaemon, claim: str, ear: Ear, shape: str) -> FakeSession:
    script = PROGRAMS[shape].replace("EAR", str(ear.path))
    session = await daemon.live(hold(claim, "-c", script), kill_s=0.5)
    await session.claim(claim, GRANTED)
    await session.next("ping", is_about=lambda ping: ping.claim == claim)
    release_at = session.arm(claim)
    await session.next("claim", lambda report: report.claim == claim)  # armed
    session.release(claim, release_at=release_at)
    await session.claim(claim, PASSED)
    return session


@pytest.mark.parametrize("shape", PROGRAMS)
async def test_nothing_that_a_killed_starter_ran_outlives_its_claim(
    tmp_path: Path, ear: Ear, shape: str
) -> None:
    job = a_job()
    claim = f"{job}/1/0/1"
    async with fake_daemon() as daemon, agent_process(tmp_path, daemon.target, job=job) as agent:
        session = await begin(daemon, claim, ear, shape)
        starter, program = await left_alone(ear, agent)
        os.kill(starter, signal.SIGKILL)
        await session.claim(claim, GONE)
        assert not is_alive(program)
        await session.next("site", lambda report: report.idle == 4)


@pytest.mark.parametrize("shape", PROGRAMS)
async def test_nothing_outlives_a_starter_and_an_agent_that_were_killed_together(
    tmp_path: Path, ear: Ear, shape: str
) -> None:
    job = a_job()
    claim = f"{job}/1/0/1"
    async with fake_daemon() as daemon, agent_process(tmp_path, daemon.target, job=job) as agent:
        await begin(daemon, claim, ear, shape)
        starter, program = await left_alone(ear, agent)
        assert agent.process is not None
        agent.process.kill()
        os.kill(starter, signal.SIGKILL)
        await agent.kill()
        await agent.start()
        session = await daemon.live(hold(claim, is_granted=True), kill_s=0.5)
        await session.claim(claim, GONE)
        assert not is_alive(program)
        await session.next("site", lambda report: report.idle == 4)
