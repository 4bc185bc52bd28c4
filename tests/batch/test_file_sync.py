"""Nodes that share no file system with their agent, in front of real batch systems.

Their batch systems run in a mount namespace of their own, in which an empty folder lies over all
that agents and daemon have.
"""

from __future__ import annotations

import asyncio
import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import SkipTest

import pytest

from koala.client import AsyncClient
from tests.agent.watching import Ear
from tests.batch.systems.gridengine import grid_engine_cells
from tests.batch.systems.grids import grid_over
from tests.batch.systems.jobs import finished
from tests.batch.systems.slurm import slurm_clusters
from tests.batch.systems.system import System
from tests.batch.test_runners import mpi_program
from tests.harness.moments import until
from tests.live.grid import Grid

pytestmark = pytest.mark.lrm

__all__ = ["mpi_program"]  # a fixture


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """List the folders that nodes do not see."""
    if os.geteuid() != 0:
        raise SkipTest("mount namespaces need root here")
    return tmp_path_factory.mktemp("hidden")


@pytest.fixture(scope="module")
def far(
    tmp_path_factory: pytest.TempPathFactory, hidden: Path, slurm: object, cell: object
) -> Iterator[dict[str, System]]:
    """epsilon, a Slurm cluster, and zeta, a cell, two machines of 4 each. (The fixtures that are
    not used know what there has to be installed.)"""
    folder = tmp_path_factory.mktemp("far")
    with (
        slurm_clusters(folder / "slurm", "epsilon:2x4", hidden=hidden) as clusters,
        grid_engine_cells(folder / "cell", "zeta:2x4", first_group=68_000, hidden=hidden) as cells,
    ):
        yield {**clusters, **cells}


@pytest.fixture
def grid(tmp_path: Path, hidden: Path, far: dict[str, System]) -> Iterator[tuple[Grid, Path]]:
    """Daemon and agents, hidden from the nodes, and where these make their folders; in the end
    nothing is left there."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    starter = f'[starter]\nshared = false\nscratch = "{scratch}"\n'
    more = dict.fromkeys(far, starter)
    stored = {"numbers": numbers()}
    with grid_over(hidden / tmp_path.name, far, more=more, stored=stored) as grid:
        yield grid, scratch
    assert list(scratch.iterdir()) == []


@functools.cache
def numbers() -> bytes:
    """Make the lines of an input."""
    return b"".join(b"%d\n" % number for number in range(200_000))


def job(program: str, *, sites: tuple[str, ...] = ("epsilon", "zeta"), more: str = "") -> str:
    """Six processes on two machines at each site."""
    parts = (
        f'(&(executable=/bin/bash)(arguments=-c "{program}")(count=6)(maxWallTime=5)'
        f"(label={site})(resourceManagerContact={site}){more})"
        for site in sites
    )
    return "+" + "".join(parts)


GREET = """import os, socket
host, port = os.environ['KOALA_LISTEN_HELLO'].rsplit(':', 1)
listener = socket.create_server((host, int(port)))
for _ in range(6):
    caller, _ = listener.accept()
    caller.sendall(b'hello')
    caller.close()
"""
HEAR = """import os, socket
host, port = os.environ['KOALA_ADDRESS_HELLO'].rsplit(':', 1)
own = socket.create_connection((host, int(port)))
print(own.makefile().read())
"""


async def test_all_machines_reach_a_port_through_the_grid(grid: tuple[Grid, Path]) -> None:
    live, _scratch = grid
    for site in live.sites:  # whose addresses are nobody's from now on (RFC 5737)
        live.terminate(site)
        config = live.config(site)
        text = config.read_text(encoding="utf-8")
        config.write_text(text.replace("[site]\n", '[site]\naddress = "192.0.2.1"\n'))
        live.start(site)
    parts = (
        f'+(&(executable={sys.executable})(arguments=-c "{GREET}")(count=1)(maxWallTime=5)'
        "(label=zeta)(resourceManagerContact=zeta)(ports=HELLO:9107))"
        f'(&(executable={sys.executable})(arguments=-c "{HEAR}")(count=6)(maxWallTime=5)'
        "(label=epsilon)(resourceManagerContact=epsilon))"
    )
    async with live.client() as client:
        await live.ready(client)
        shown = await finished(client, parts)
        said = await log_of(client, shown["job"], component="epsilon", stream="stdout")
        assert said.split() == ["hello"] * 6
        (way,) = [way for way in shown["ports"] if way["component"] == "epsilon"]
        assert (way["is_forwarded"], way["connections"] <= 6) == (True, True)
        moved = {charge["site"]: charge["forwarded_bytes"] for charge in shown["charges"]}
        assert moved == {"epsilon": 6 * len("hello"), "zeta": 0}


async def log_of(client: AsyncClient, job: str, **chosen: Any) -> str:
    """Return a log as far as it is there."""
    return b"".join([chunk.data async for chunk in client.logs(job, **chosen)]).decode()


async def test_inputs_outputs_and_logs_of_several_machines(grid: tuple[Grid, Path]) -> None:
    """The last process, on the second machine, writes the output; each has the whole input."""
    live, scratch = grid
    program = (
        f"test ! -e {live.state} || exit 3; case $PWD in {scratch}/*) ;; *) exit 4;; esac; "
        "if test $KOALA_PROCESS = 5; then sort -rn $KOALA_INPUT > result; fi; "
        "sha256sum < $KOALA_INPUT"
    )
    more = "(inputFile=numbers)(outputFile=result)"
    async with live.client() as client:
        await live.ready(client)
        shown = await finished(client, job(program, more=more))
        claimed_at = max(part["claimed_at"] for part in shown["parts"])
        assert claimed_at <= min(part["passed_at"] for part in shown["parts"])
        folder = live.spool / shown["job"] / "output"
        for site in ("epsilon", "zeta"):
            await until((folder / site / "result").exists)
            lines = (folder / site / "result").read_bytes().splitlines(keepends=True)
            assert sorted(lines) == sorted(numbers().splitlines(keepends=True))
        said = {
            await log_of(client, shown["job"], component=component, process=process)
            for component in range(2)
            for process in range(6)
        }
        assert len(said) == 1, said
        await live.at_rest(client)


async def test_logs_are_followed_while_agents_are_killed_and_started_again(
    grid: tuple[Grid, Path], tmp_path: Path, ear: Ear
) -> None:
    live, _ = grid
    program = (
        f"echo before; echo $RANK > {ear.path}; "
        f"until test -e {tmp_path}/end; do sleep 0.1; done; echo after"
    )
    async with live.client() as client:
        await live.ready(client)
        submitted = await client.submit(job(program))
        assert sorted([int(await ear.line()) for _ in range(12)]) == list(range(12))

        async def first_line() -> str:
            async for chunk in client.logs(submitted.job, component=1, process=5, follow=True):
                if chunk.data:
                    return chunk.data.decode()
            return ""

        assert await asyncio.wait_for(first_line(), 90.0) == "before\n"
        live.kill("epsilon", "zeta")
        (tmp_path / "end").touch()
        live.start()
        assert await client.wait(submitted.job) == "Finished", await client.show(submitted.job)
        for process in (0, 5):
            said = await log_of(client, submitted.job, component=1, process=process)
            assert said == "before\nafter\n"
        assert (await client.show(submitted.job))["attempts"] == 1
        await live.at_rest(client)
