"""Sites behind ssh: a Slurm cluster and a Grid Engine cell whose login nodes run no agent.

The ssh server is a real one on loopback. Its account is another one than that of the agents, which
have no batch system of their own. The third site has an agent beside it.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from koala.client import AsyncClient
from koala.client.records import JobDetails
from koala_agent.config import read_config
from koala_agent.site_access import ssh_settings
from koala_agent.transport.ssh_socket import SSHSettings
from tests.agent.transport.servers import a_server, close, kill_holder
from tests.batch.systems.gridengine import grid_engine_cells
from tests.batch.systems.grids import grid_over
from tests.batch.systems.slurm import slurm_clusters
from tests.batch.systems.system import System
from tests.batch.test_grid import job
from tests.harness.moments import moment
from tests.harness.ssh_server import HOST, SSHServer
from tests.live.grid import Grid

pytestmark = pytest.mark.lrm

FAR = ("eta", "theta")
"""A Slurm cluster and a Grid Engine cell, other ones than those of the other tests."""


@pytest.fixture(scope="module")
def server() -> Iterator[SSHServer]:
    with a_server(settings="MaxStartups 100") as server:
        yield server


@pytest.fixture(scope="module")
def systems(slurm: object, cell: object) -> Iterator[dict[str, System]]:
    """Two systems whose folders every account may enter, and alpha. (The fixtures that are not
    used know what there has to be installed.)"""
    assert isinstance(slurm, dict)
    with tempfile.TemporaryDirectory(prefix="koala-far-") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "slurm").mkdir(mode=0o755)
        (folder / "cell").mkdir(mode=0o755)
        clusters = stack.enter_context(slurm_clusters(folder / "slurm", "eta:3x2"))
        cells = stack.enter_context(
            grid_engine_cells(folder / "cell", "theta:1x6", first_group=71_000)
        )
        yield {**clusters, **cells, "alpha": slurm["alpha"]}


@pytest.fixture
def grid(
    tmp_path: Path, systems: dict[str, System], server: SSHServer
) -> Iterator[tuple[Grid, SSHServer]]:
    """Daemon and agents; those of the two sites reach them by ssh alone."""
    words = ", ".join(f'"{word}"' for word in server.options)
    far = (
        '[starter]\npython = "/usr/bin/python3"\nscratch = "/tmp"\n'
        f'[transport]\nkind = "ssh"\nhost = "{HOST}"\noptions = [{words}]\n'
        "commands_per_minute = 1200\n"
    )
    with grid_over(tmp_path, systems, more=dict.fromkeys(FAR, far)) as grid:
        try:
            yield grid, server
        finally:
            for site in FAR:
                if grid.is_alive(site):
                    grid.terminate(site)
                close(settings_of(grid, site))


def settings_of(grid: Grid, site: str) -> SSHSettings:
    return ssh_settings(read_config(grid.config(site)))


@pytest.fixture
async def client(grid: tuple[Grid, SSHServer]) -> AsyncIterator[AsyncClient]:
    live, _ = grid
    async with live.client() as client:
        await live.ready(client)
        yield client


async def test_a_job_over_sites_behind_ssh_starts_with_one_that_has_an_agent(
    grid: tuple[Grid, SSHServer], client: AsyncClient
) -> None:
    live, server = grid
    program = f"id -un; test ! -e {live.state} || echo sees"
    shown = await finished(client, job(program, "alpha", *FAR))
    held_from = max(part["claimed_at"] for part in shown["parts"])
    assert all(part["passed_at"] >= held_from for part in shown["parts"]), shown["parts"]
    users = [await log_of(client, shown["job"], component) for component in range(3)]
    assert (
        users[1:] == [f"{server.account}\n"] * 2
    )  # the other end's account, and none of our files
    await live.at_rest(client)


async def finished(client: AsyncClient, text: str) -> JobDetails:
    submitted = await client.submit(text)
    assert await client.wait(submitted.job) == "Finished", await client.show(submitted.job)
    return await client.show(submitted.job)


async def log_of(client: AsyncClient, job: str, component: int) -> str:
    parts = [chunk.data async for chunk in client.logs(job, component=component)]
    return b"".join(parts).decode()


async def test_connections_cut_in_the_middle_cost_no_claim(
    grid: tuple[Grid, SSHServer], client: AsyncClient, systems: dict[str, System], tmp_path: Path
) -> None:
    """The masters are killed, then the server with all its connections, then the agents."""
    live, server = grid
    end = server.home / "end"
    program = f"while ! test -e {end}; do sleep 0.1; done; echo done"
    submitted = await client.submit(job(program, "alpha", *FAR))
    await live.phase(client, submitted.job, "Running")
    before = {name: system.numbers("koala-") for name, system in systems.items()}
    for site in FAR:
        kill_holder(settings_of(live, site))
    server.cut()
    await told(live, client, "ssh to atlas")
    live.kill(*FAR)
    live.start()
    await told(live, client, "Connection refused")
    server.start()
    await live.ready(client)
    assert {name: system.numbers("koala-") for name, system in systems.items()} == before
    end.touch()
    assert await client.wait(submitted.job) == "Finished", await client.show(submitted.job)
    shown = await client.show(submitted.job)
    assert shown["attempts"] == 1
    charged = {charge["site"]: [charge["batch_job"]] for charge in shown["charges"]}
    assert charged == before
    assert await log_of(client, submitted.job, 1) == "done\n"
    await live.at_rest(client)
    end.unlink()


async def test_one_agent_process_serves_both_sites_over_one_connection(
    grid: tuple[Grid, SSHServer], client: AsyncClient, systems: dict[str, System]
) -> None:
    """They are killed together, and find their claims; the connection is opened once for both."""
    live, server = grid
    control = settings_of(live, FAR[0]).control_path()
    for site in FAR:
        live.terminate(site)
        close(settings_of(live, site))
    kind = '[transport]\nkind = "ssh"\n'
    config = live.config(FAR[1])
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace(kind, f'{kind}control = "{control}"\n'), encoding="utf-8")
    logins = server.log().count("Accepted publickey")
    end = server.home / "end-of-both"
    program = f"while ! test -e {end}; do sleep 0.1; done; echo done"
    with one_agent(live, signal.SIGKILL):
        await live.ready(client)
        submitted = await client.submit(job(program, "alpha", *FAR))
        await live.phase(client, submitted.job, "Running")
        before = {name: system.numbers("koala-") for name, system in systems.items()}
    kill_holder(settings_of(live, FAR[0]))
    with one_agent(live, signal.SIGTERM):
        await live.ready(client)
        assert {name: system.numbers("koala-") for name, system in systems.items()} == before
        end.touch()
        assert await client.wait(submitted.job) == "Finished", await client.show(submitted.job)
        shown = await client.show(submitted.job)
        assert shown["attempts"] == 1
        assert await log_of(client, submitted.job, 2) == "done\n"
        await live.at_rest(client)
    assert server.log().count("Accepted publickey") == logins + 2
    end.unlink()


@contextmanager
def one_agent(live: Grid, last: signal.Signals) -> Iterator[None]:
    """An agent process of both far sites, which gets this signal at last."""
    words = [sys.executable, "-m", "koala_agent.main", *(str(live.config(site)) for site in FAR)]
    path = live.folder / "both.log"
    with path.open("ab") as log:
        agent = subprocess.Popen(
            words, cwd=live.folder, env=live.environment(), stdout=log, stderr=log
        )
    try:
        yield
    finally:
        agent.send_signal(last)
        status = agent.wait(60)
    assert status == (0 if last == signal.SIGTERM else -last)
    assert "Traceback" not in path.read_text(encoding="utf-8")


async def told(live: Grid, client: AsyncClient, words: str) -> None:
    """Wait until `koala sites` says this of both sites behind ssh."""
    async with asyncio.timeout(live.patience_s):
        while True:
            said = {
                site["site"] for site in await client.sites() if words in (site["trouble"] or "")
            }
            if said.issuperset(FAR):
                return
            await moment()
