"""Sites behind ssh: a Slurm cluster and a Grid Engine cell whose login nodes run no agent.

The ssh server is a real one on loopback. Its account is another one than that of the agents, which
have no batch system of their own. The third site has an agent beside it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from koala.client import AsyncClient
from tests.agent.transport.servers import close, kill_holder
from tests.batch.systems.gridengine import grid_engine_cells
from tests.batch.systems.grids import until_trouble
from tests.batch.systems.jobs import ended_well, job, log_of, running
from tests.batch.systems.slurm import slurm_clusters
from tests.batch.systems.ssh_sites import grid_behind_ssh, settings_of
from tests.batch.systems.system import System, open_folder
from tests.harness.ssh_server import SSHServer
from tests.live.grid import Grid

pytestmark = pytest.mark.lrm

FAR = ("eta", "theta")
"""A Slurm cluster and a Grid Engine cell, other ones than those of the other tests."""


@pytest.fixture(scope="module")
def systems(slurm: object, cell: object) -> Iterator[dict[str, System]]:
    """Two systems whose folders every account may enter, and alpha. (The fixtures that are not
    used know what there has to be installed.)"""
    assert isinstance(slurm, dict)
    with open_folder() as folder, ExitStack() as stack:
        (folder / "slurm").mkdir(mode=0o755)
        (folder / "cell").mkdir(mode=0o755)
        clusters = stack.enter_context(slurm_clusters(folder / "slurm", "eta:3x2"))
        cells = stack.enter_context(
            grid_engine_cells(folder / "cell", "theta:1x6", first_group=71_000)
        )
        yield {**clusters, **cells, "alpha": slurm["alpha"]}


@pytest.fixture
def grid(tmp_path: Path, systems: dict[str, System], server: SSHServer) -> Iterator[Grid]:
    """Daemon and agents; those of the two sites reach them by ssh alone."""
    with grid_behind_ssh(tmp_path, systems, server, dict.fromkeys(FAR, "")) as grid:
        yield grid


async def test_connections_cut_in_the_middle_cost_no_claim(
    grid: Grid, server: SSHServer, client: AsyncClient, systems: dict[str, System]
) -> None:
    """The masters are killed, then the server with all its connections, then the agents."""
    end = server.home / "end"
    program = f"while ! test -e {end}; do sleep 0.1; done; echo done"
    name = await running(grid, client, job(program, "alpha", *FAR))
    before = {name: system.numbers("koala-") for name, system in systems.items()}
    for site in FAR:
        kill_holder(settings_of(grid, site))
    server.cut()
    await until_trouble(grid, client, "ssh to atlas", *FAR)
    grid.kill(*FAR)
    grid.start()
    await until_trouble(grid, client, "Connection refused", *FAR)
    server.start()
    await grid.ready(client)
    assert {name: system.numbers("koala-") for name, system in systems.items()} == before
    end.touch()
    shown = await ended_well(client, name)
    assert shown["attempts"] == 1
    charged = {charge["site"]: [charge["batch_job"]] for charge in shown["charges"]}
    assert charged == before
    assert await log_of(client, name, 1) == "done\n"
    end.unlink()


async def test_one_agent_process_serves_both_sites_over_one_connection(
    grid: Grid, server: SSHServer, client: AsyncClient, systems: dict[str, System]
) -> None:
    """They are killed together, and find their claims; the connection is opened once for both."""
    control = settings_of(grid, FAR[0]).control_path()
    for site in FAR:
        grid.terminate(site)
        close(settings_of(grid, site))
    kind = '[transport]\nkind = "ssh"\n'
    config = grid.config(FAR[1])
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace(kind, f'{kind}control = "{control}"\n'), encoding="utf-8")
    logins = server.log().count("Accepted publickey")
    end = server.home / "end-of-both"
    program = f"while ! test -e {end}; do sleep 0.1; done; echo done"
    with one_agent(grid, signal.SIGKILL):
        await grid.ready(client)
        name = await running(grid, client, job(program, "alpha", *FAR))
        before = {name: system.numbers("koala-") for name, system in systems.items()}
    kill_holder(settings_of(grid, FAR[0]))
    with one_agent(grid, signal.SIGTERM):
        await grid.ready(client)
        assert {name: system.numbers("koala-") for name, system in systems.items()} == before
        end.touch()
        assert (await ended_well(client, name))["attempts"] == 1
        assert await log_of(client, name, 2) == "done\n"
        await grid.at_rest(client)
    assert server.log().count("Accepted publickey") == logins + 2
    end.unlink()


@contextmanager
def one_agent(live: Grid, last: signal.Signals) -> Iterator[None]:
    """An agent process of both far sites, which gets this signal at last."""
    words = [sys.executable, "-m", "koala_agent", *(str(live.config(site)) for site in FAR)]
    path = live.folder / "both.log"
    with path.open("ab") as log:
        agent = subprocess.Popen(
            words, cwd=live.folder, env=live.environment(), stdout=log, stderr=log
        )
    try:
        yield
    finally:
        agent.send_signal(last)
        try:
            status = agent.wait(60)
        finally:
            agent.kill()
    assert status == (0 if last == signal.SIGTERM else -last)
    assert "Traceback" not in path.read_text(encoding="utf-8")
