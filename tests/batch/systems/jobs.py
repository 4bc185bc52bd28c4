"""Jobs for grids over batch systems: a component at each site, its end and its output."""

from __future__ import annotations

from pathlib import Path

from koala.client import AsyncClient
from koala.client.records import JobDetails
from tests.live.grid import Grid

# Two forks from the shell that is waited for, in a session of its own, deaf to TERM.
ESCAPE = "(setsid sh -c 'trap : TERM; echo $$ >> {ear}; while :; do sleep 1; done' &) "
"""Part of a program that leaves a process behind, which writes its id to a file."""


def job(program: str, *sites: str, count: int = 2, more: str = "") -> str:
    """Return the text of a job that runs a shell's program at each of these sites. `more` are
    attributes of the whole job."""
    quoted = program.replace('"', '""')
    parts = (
        f'(&(executable=/bin/sh)(arguments="-c" "{quoted}")(count={count})(jobType=single)'
        f"(maxWallTime=10)(resourceManagerContact={site}))"
        for site in sites
    )
    return f"+{more}" + "".join(parts)


async def running(grid: Grid, client: AsyncClient, text: str) -> str:
    """Submit a job; return its name once it runs."""
    name = (await client.submit(text)).job
    await grid.phase(client, name, "Running")
    return name


async def ended_well(client: AsyncClient, name: str) -> JobDetails:
    """Wait for the end of a job, which must be a good one; return what is known of the job."""
    phase = await client.wait(name)
    shown = await client.show(name)
    assert phase == "Finished", shown
    return shown


async def finished(client: AsyncClient, text: str) -> JobDetails:
    """Submit a job and wait for its good end."""
    return await ended_well(client, (await client.submit(text)).job)


def check_one_start(shown: JobDetails) -> None:
    """Check that no component of a job ran before the last one was claimed."""
    held_from = max(part["claimed_at"] for part in shown["parts"])
    assert all(part["passed_at"] >= held_from for part in shown["parts"]), shown["parts"]


async def log_of(client: AsyncClient, name: str, component: int) -> str:
    """Return the output of a component."""
    parts = [chunk.data async for chunk in client.logs(name, component=component)]
    return b"".join(parts).decode()


def alive(ear: Path) -> list[int]:
    """List the processes that wrote their ids to a file and have not ended."""
    pids = [int(line) for line in ear.read_text().split()] if ear.exists() else []
    return [pid for pid in pids if (Path("/proc") / str(pid)).exists()]
