"""A Slurm cluster behind a login node that asks for a code, and one that has an agent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.transport.servers import kill_holder
from tests.batch.systems.grids import until_trouble
from tests.batch.systems.jobs import ended_well, finished, job, running
from tests.batch.systems.slurm import slurm_clusters
from tests.batch.systems.ssh_sites import grid_behind_ssh, open_folder, settings_of
from tests.batch.systems.system import System
from tests.cli.top.terminal import terminal
from tests.harness.second_factor import PROMPT, Codes, a_server_that_asks, attempts
from tests.harness.ssh_server import HOST, SSHServer
from tests.live.grid import Grid

pytestmark = [pytest.mark.lrm, pytest.mark.root]

FAR = "rho"
NEEDS = f"ssh to {HOST} needs you: koala site login {FAR} ("


@pytest.fixture(scope="module")
def systems(slurm: dict[str, System]) -> Iterator[dict[str, System]]:
    with open_folder() as folder, slurm_clusters(folder, f"{FAR}:2x2") as clusters:
        yield {**clusters, "alpha": slurm["alpha"]}


@pytest.fixture
def asking() -> Iterator[tuple[SSHServer, Codes]]:
    with a_server_that_asks() as asking:
        yield asking


@pytest.fixture
def grid(
    tmp_path: Path, systems: dict[str, System], asking: tuple[SSHServer, Codes]
) -> Iterator[Grid]:
    """Daemon and agents; nobody has logged in at the far site."""
    server, _ = asking
    with grid_behind_ssh(tmp_path, systems, server, {FAR: ""}) as grid:
        yield grid


async def test_a_lost_login_costs_no_claim_and_is_not_tried_again_and_again(
    grid: Grid, asking: tuple[SSHServer, Codes], systems: dict[str, System]
) -> None:
    """The site rests until somebody types a code, also over a restart of its agent. A job that runs
    there goes on."""
    server, codes = asking
    end = server.home / "end"
    program = f"while ! test -e {end}; do sleep 0.1; done; echo done"
    async with grid.client() as client:
        await grid.up(client)
        await until_trouble(grid, client, NEEDS, FAR)
        await asyncio.to_thread(log_in, grid, codes.next())
        await grid.ready(client)
        runs = await running(grid, client, job(program, "alpha", FAR))
        before = {name: system.numbers("koala-") for name, system in systems.items()}
        so_far = attempts(server)

        kill_holder(settings_of(grid, FAR))
        await until_trouble(grid, client, NEEDS, FAR)
        grid.kill(FAR)
        grid.start()
        await until_trouble(grid, client, NEEDS, FAR)
        assert attempts(server) <= so_far + 2  # of the agent, and of the one after it

        await asyncio.to_thread(log_in, grid, codes.next())
        await grid.ready(client)
        assert {name: system.numbers("koala-") for name, system in systems.items()} == before
        end.touch()
        assert (await ended_well(client, runs))["attempts"] == 1
        assert (await finished(client, job("true", "alpha", FAR)))["attempts"] == 1
        await grid.at_rest(client)


def log_in(grid: Grid, code: str) -> None:
    """Type the command that `koala sites` names, and a code."""
    with terminal("site", "login", str(grid.config(FAR))) as person:
        person.wait_for(PROMPT)
        person.press(f"{code}\n")
        assert person.end() == 0, person.text
