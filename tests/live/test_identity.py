"""Agents whose certificates are not good (any more): cut, told why, taken back when they join."""

from __future__ import annotations

from pathlib import Path

import pytest

from koala.daemon.auth.local_provisioning import provision
from koala.identity.tls import JoinToken
from koala_agent.link.enrolment import identity_path, join
from tests.live.grid import PATIENCE_S, live_grid, until

pytestmark = [pytest.mark.live, pytest.mark.slow]


async def test_a_revoked_site_is_cut_and_comes_back_when_it_joins_anew(tmp_path: Path) -> None:
    """Its agent goes on running: it says why it is refused, and finds the new certificate."""
    with live_grid(tmp_path, sites={"delft": 4, "leiden": 4}) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            copied = identity_path(grid.state / "leiden").read_bytes()
            await client.revoke_site("leiden")
            await grid.site_state(client, "leiden", "disconnected")
            await until(lambda: "of site leiden was revoked" in grid.log("leiden"))
            rejected = grid.evidence.component(site="leiden", seconds=0.01)
            job = (await client.submit(rejected)).job
            token = JoinToken.parse((await client.add_site("leiden"))["token"])
            await join(token, "leiden", grid.state / "leiden")
            await grid.site_state(client, "leiden", "usable")
            assert await client.wait(job) == "Finished"
            grid.kill("leiden")
            identity_path(grid.state / "leiden").write_bytes(copied)  # a copy of the old key
            grid.start("leiden")
            await until(lambda: "was replaced by a newer one" in grid.log("leiden"))
            assert "somebody has a copy of its key" in grid.log("daemon")
            enrolments = {row["site"]: row["state"] for row in await client.enrolments()}
            assert enrolments == {"delft": "enrolled", "leiden": "enrolled"}
            await grid.at_rest(client)


async def test_an_agent_of_another_authority_says_what_is_wrong(tmp_path: Path) -> None:
    with live_grid(tmp_path / "grid", sites={"delft": 4}) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            grid.terminate("delft")
            path = identity_path(grid.state / "delft")
            good = path.read_bytes()
            other = tmp_path / "other"
            provision(other / "daemon", {"delft": other / "delft"}, lifetime_s=3_600.0)
            path.write_bytes(identity_path(other / "delft").read_bytes())
            grid.start("delft")
            await until(lambda: "signed by another authority" in grid.log("delft"))
            path.write_bytes(good)
            await grid.site_state(client, "delft", "usable")


async def test_a_running_job_outlives_the_replacement_of_the_authority(tmp_path: Path) -> None:
    """As docs/operating.md has it: remove ca.pem, start the daemon, let each site join again."""
    with live_grid(tmp_path, sites={"delft": 4}) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            description = grid.evidence.component(site="delft", seconds=PATIENCE_S, gate="end")
            job = (await client.submit(description)).job
            await grid.phase(client, job, "Running")
        starters = grid.starters()
        grid.terminate("daemon")
        (grid.state / "daemon" / "authority" / "ca.pem").unlink()
        grid.start("daemon")
        await until(lambda: "signed by another authority" in grid.log("delft"))
        async with grid.client() as client:
            await grid.up(client)
            token = JoinToken.parse((await client.add_site("delft"))["token"])
            await join(token, "delft", grid.state / "delft")
            await grid.site_state(client, "delft", "usable")
            assert grid.starters() == starters
            grid.evidence.open_gate("end")
            assert await client.wait(job) == "Finished"
            assert len(grid.evidence.lines(job)) == 2  # one start, one end
            await grid.at_rest(client)
