"""Agents whose certificates are not good (any more): cut, told why, taken back when they join."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from koala.client import AsyncClient
from koala.common.identity.tls import JoinToken, identity_path
from koala.daemon.auth.local_provisioning import provision
from koala_agent.link.enrolment import join
from tests.live.conftest import client_of
from tests.live.grid import PATIENCE_S, Grid, live_grid, until

pytestmark = [pytest.mark.live, pytest.mark.slow]


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    """Each test leaves both sites with good certificates."""
    with live_grid(tmp_path_factory.mktemp("grid"), sites={"delft": 4, "leiden": 4}) as grid:
        yield grid


@pytest.fixture
async def client(grid: Grid) -> AsyncIterator[AsyncClient]:
    async with client_of(grid) as client:
        yield client


async def joined(grid: Grid, client: AsyncClient, site: str) -> None:
    """Let a running agent have a new certificate."""
    token = JoinToken.parse((await client.add_site(site))["token"])
    await join(token, site, grid.state / site)
    await grid.site_state(client, site, "usable")


async def test_a_revoked_site_is_cut_and_comes_back_when_it_joins_again(
    client: AsyncClient, grid: Grid
) -> None:
    """Its agent goes on running: it says why it is refused, and finds the new certificate."""
    path = identity_path(grid.state / "leiden")
    copied = path.read_bytes()
    await client.revoke_site("leiden")
    await grid.site_state(client, "leiden", "disconnected")
    await until(lambda: "of site leiden was revoked" in grid.log("leiden"))
    rejected = grid.evidence.component(site="leiden", seconds=0.01)
    job = (await client.submit(rejected)).job
    await joined(grid, client, "leiden")
    assert await client.wait(job) == "Finished"
    grid.kill("leiden")
    good = path.read_bytes()
    path.write_bytes(copied)  # a copy of the old key
    grid.start("leiden")
    await until(lambda: "was replaced by a newer one" in grid.log("leiden"))
    assert "somebody has a copy of its key" in grid.log("daemon")
    enrolments = {row["site"]: row["state"] for row in await client.enrolments()}
    assert enrolments == {"delft": "enrolled", "leiden": "enrolled"}
    path.write_bytes(good)
    await grid.site_state(client, "leiden", "usable")


async def test_an_agent_of_another_authority_says_what_is_wrong(
    client: AsyncClient, grid: Grid, tmp_path: Path
) -> None:
    said = len(grid.log("delft"))
    grid.terminate("delft")
    path = identity_path(grid.state / "delft")
    good = path.read_bytes()
    provision(tmp_path / "daemon", {"delft": tmp_path / "delft"}, lifetime_s=3_600.0)
    path.write_bytes(identity_path(tmp_path / "delft").read_bytes())
    grid.start("delft")
    await until(lambda: "signed by another authority" in grid.log("delft")[said:])
    path.write_bytes(good)
    await grid.site_state(client, "delft", "usable")


async def test_a_running_job_outlives_the_replacement_of_the_authority(grid: Grid) -> None:
    """As the page has it: remove ca.pem, start the daemon, let each site join again."""
    said = len(grid.log("delft"))
    async with grid.client() as client:
        await grid.ready(client)
        description = grid.evidence.component(site="delft", seconds=PATIENCE_S, gate="end")
        job = (await client.submit(description)).job
        await grid.phase(client, job, "Running")
    starters = grid.starters()
    grid.terminate("daemon")
    (grid.state / "daemon" / "authority" / "ca.pem").unlink()
    grid.start("daemon")
    await until(lambda: "signed by another authority" in grid.log("delft")[said:])
    async with grid.client() as client:
        await grid.up(client)
        for site in grid.sites:
            await joined(grid, client, site)
        assert grid.starters() == starters
        grid.evidence.open_gate("end")
        assert await client.wait(job) == "Finished"
        assert len(grid.evidence.lines(job)) == 2  # one start, one end
        await grid.at_rest(client)
