"""The process above a starter in a batch job: what is left when either is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from koala.common.protocol.messages import EndKind
from koala_agent.lrm.claim_processes import identify, is_alive
from tests.agent.live.agent_process import ROOT
from tests.agent.site import a_shell_hold, a_site
from tests.agent.watching import LIMIT_S, Ear, process_ended

pytestmark = pytest.mark.live

STARTER = """
import os, signal, sys
from koala_agent.starter.subreaper import keep
keep()
def say(word):
    with open("EAR", "a") as ear:
        print(word, os.getpid(), file=ear)
def told(number, _frame):
    os._exit(number)
signal.signal(signal.SIGXCPU, told)
"""
LATE = """
import os
from koala_agent.starter.subreaper import keep
fork = os.fork
def late():
    if starter := fork():
        os.waitid(os.P_PID, starter, os.WEXITED | os.WNOWAIT)
    return starter
os.fork = late
keep()
os._exit(7)
"""
"""The starter has ended before its keeper does anything."""
ESCAPE = """
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.setsid()
    if os.fork():
        os._exit(0)
    os.closerange(0, 256)
    os.execve("/bin/sh", ["sh", "-c", "echo escaped $$ > EAR; exec sleep 600"], {})
os.wait()
"""
"""Leaves session, parent, files and environment."""
LAST = """
say("starter")
while True:
    signal.sigtimedwait((), 0.05)
"""
"""Not `pause`: a signal that comes just before it would be handled after it only."""


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().split(")")[-1].split()[1])


def command_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


async def keeper_of(program: str) -> asyncio.subprocess.Process:
    path = os.pathsep.join((str(ROOT), str(ROOT / "agents")))
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, env={**os.environ, "PYTHONPATH": path}
    )


async def begin(ear: Ear, *parts: str) -> tuple[asyncio.subprocess.Process, dict[str, int]]:
    """The keeper, and who told its number."""
    keeper = await keeper_of("".join((STARTER, *parts, LAST)).replace("EAR", str(ear.path)))
    told = [(await ear.line()).split() for _ in (*parts, LAST)]
    return keeper, {word: int(pid) for word, pid in told}


async def test_a_batch_job_whose_starter_was_killed_lasts_until_nothing_of_it_is_left(
    ear: Ear,
) -> None:
    keeper, pids = await begin(ear, ESCAPE)
    escaped = identify(pids["escaped"])
    assert escaped is not None
    os.kill(pids["starter"], signal.SIGKILL)
    async with asyncio.timeout(LIMIT_S):
        assert await keeper.wait() == -signal.SIGKILL
    assert not is_alive(escaped)


async def test_a_starter_that_ended_before_its_keeper_looked_is_over_for_it() -> None:
    keeper = await keeper_of(LATE)
    async with asyncio.timeout(LIMIT_S):
        assert await keeper.wait() == 7


async def test_what_the_batch_system_says_to_the_first_process_its_starter_hears(ear: Ear) -> None:
    keeper, pids = await begin(ear)
    assert pids["starter"] != keeper.pid
    keeper.send_signal(signal.SIGXCPU)
    async with asyncio.timeout(LIMIT_S):
        assert await keeper.wait() == signal.SIGXCPU  # the status that the starter chose


async def test_a_starter_whose_keeper_was_killed_ends(ear: Ear) -> None:
    keeper, pids = await begin(ear)
    keeper.kill()
    await process_ended(pids["starter"])
    await keeper.wait()


@pytest.mark.parametrize("is_shared", [True, False])
async def test_a_starter_in_a_batch_job_has_a_keeper(
    tmp_path: Path, ear: Ear, is_shared: bool
) -> None:
    """With it the barrier passes, and the site's word arrives."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    script = f"echo $PPID > {ear.path}; exec sleep 600"
    async with a_site(tmp_path, kind="slurm", scratch=None if is_shared else scratch) as site:
        await site.passed(a_shell_hold(script))
        starter = int(await ear.line())
        keeper = parent_of(starter)
        assert command_of(keeper) == command_of(starter)
        os.kill(keeper, signal.SIGTERM)
        end = (await site.gone()).end
    assert end is not None
    assert (end.kind, end.reason) == (EndKind.SITE, "SIGTERM from the site")
