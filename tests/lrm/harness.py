"""Tools for tests of local managers: programs to run, placeholders."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

from koala.queue_model.local_users import LoadParameters
from koala_agent.conformance.witness import Witness
from koala_agent.lrm.claim_processes import ProcessIdentity, members, scan
from koala_agent.lrm.emulated.emulated_manager import EmulatedLocalManager
from koala_agent.lrm.local_manager import (
    EndCause,
    Idle,
    Listed,
    LocalManager,
    Placeholder,
)

LIMIT_S = 60.0
Told = TypeVar("Told", bound=Listed | Idle)


def boot_clock() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def find_by_claim(claim: str, *, scope: str | None = None) -> tuple[ProcessIdentity, ...]:
    """The processes of a claim by their environment, and their descendants."""
    belongs = members(scan().seen, {claim: ()}, scope=scope)
    return tuple(process.identity for process in belongs[claim])


def reap(process: ProcessIdentity) -> None:
    """Wait for the first process of a job that an agent has left to the next one. Here it stays a
    child of this process, which plays both."""
    with suppress(ChildProcessError):  # the manager may have waited for it
        os.waitpid(process.pid, 0)


@asynccontextmanager
async def serving(manager: LocalManager, *, kill: bool = False) -> AsyncIterator[LocalManager]:
    """Run a local manager around a block, and close it at the block's end.

    A manager that fails ends the block; a block that fails cancels the manager, which leaves batch
    jobs as they are.
    """
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run())
        await manager.opened()
        yield manager
        await manager.close(kill=kill)


async def cancel_as_site(manager: EmulatedLocalManager, claim: str) -> None:
    """End or dequeue a job of the emulated manager as the site's administrator could."""
    manager._runs.post_end(claim, EndCause.CANCELLED_BY_SITE, "cancelled by the site")
    await manager._turns.stored()


CROWD = LoadParameters(
    arrivals_per_hour=3_600_000.0, run_mean_s=1e6, run_max_s=1e9, size_min=2, size_max=2
)
"""Local jobs of 2 processors that fill the site within milliseconds, and stay."""

Serve = Callable[..., AbstractAsyncContextManager[tuple[EmulatedLocalManager, Witness]]]
Ask = Callable[..., Placeholder]


def asking(folder: Path, *, limit_s: float) -> Ask:
    """Builds placeholders; unless told otherwise one asks for one processor and runs for ever, of
    which it gets `limit_s`."""

    def build(
        claim: str, *argv: str, processors: int = 1, time_limit_s: float = limit_s
    ) -> Placeholder:
        return Placeholder(
            claim=claim,
            processors=processors,
            time_limit_s=time_limit_s,
            argv=argv or ("sleep", "1000"),
            directory=folder / "work" / claim.replace("/", "-"),
        )

    return build


def python(program: str, *arguments: object) -> tuple[str, ...]:
    """The argv of a Python program."""
    return (sys.executable, "-I", "-S", "-c", program, *(str(argument) for argument in arguments))


ESCAPE = """
import os, signal, sys
is_lasting = sys.argv[2] == "lasting"
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open(sys.argv[1], "a") as pipe:
            print(os.getpid(), file=pipe)
        while True:
            signal.pause()
    os._exit(0)
os.wait()
while is_lasting:
    signal.pause()
"""
"""Forks twice, leaves its session, ignores TERM, tells its pid, never ends; the first process lasts
as long, or exits at once."""

RELAY = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(sys.argv[1], "a") as pipe:
    print("up", file=pipe)
for _ in range(2000):
    if os.fork():
        os._exit(0)
    time.sleep(0.002)
"""
"""Hands itself on from process to process, every few milliseconds, for some seconds."""
