"""Daemon and agents are exchanged for ones of other releases while jobs run.

A release is the code as it is with other numbers: the version of the core, which decides whether a
journal can be replayed, and the versions of the protocol. The journal's own format is the matter of
`tests/daemon/storage/test_formats.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from koala.runtime.disk_formats import CORE
from tests.live.failures.test_faults import running_job
from tests.live.grid import live_grid

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.long]

SITES = {"delft": 4, "leiden": 4}


def core(version: int) -> str:
    """A daemon whose core decides otherwise than that of other versions."""
    return f"import koala.runtime.disk_formats as formats; formats.CORE = {version}"


def speaks(newest: int, oldest: int) -> str:
    """A daemon or an agent that speaks these versions of the protocol."""
    return f"import koala.protocol.versions as v; v.PROTOCOL, v.PROTOCOL_MIN = {newest}, {oldest}"


async def test_a_daemon_with_another_core_takes_over_what_runs_and_what_waits(
    tmp_path: Path,
) -> None:
    """After a crash it replays what the other one had not saved, and compares; and it speaks a
    newer protocol, too, but the old one with agents that know no other. The earlier release does
    not go on with what the later one wrote."""
    with live_grid(tmp_path, sites=SITES) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            job = await running_job(grid, client, "delft", "leiden")
            waiting = (await client.submit(grid.evidence.component(site="delft", count=4))).job
            alive = grid.processes(f"{job}/")
            grid.kill("daemon")
            grid.releases["daemon"] = f"{core(CORE + 1)}; {speaks(2, 1)}"
            grid.start("daemon")
            await grid.ready(client)
            assert "journal.taken_over" in grid.log("daemon")
            assert grid.processes(f"{job}/") == alive
            assert (await client.show(job))["phase"] == "Running"
            grid.kill("daemon")
            del grid.releases["daemon"]
            grid.start("daemon")
            assert grid.ended("daemon") == 1
            assert f"core {CORE + 1}: this release has core {CORE}" in grid.log("daemon")
            grid.releases["daemon"] = core(CORE + 2)
            grid.start("daemon")
            await grid.ready(client)
            assert grid.processes(f"{job}/") == alive
            grid.evidence.open_gate("open")
            assert await client.wait_all([job, waiting]) == {job: "Finished", waiting: "Finished"}
            assert (await client.show(job))["attempts"] == 1
            await grid.at_rest(client)
        assert grid.evidence.finished(job, processes=4) == 1


async def test_an_agent_of_another_protocol_takes_part_where_the_ranges_meet(
    tmp_path: Path,
) -> None:
    """Otherwise it ends, both logs say why, jobs run on, and the right one finds them."""
    with live_grid(tmp_path, sites=SITES) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            job = await running_job(grid, client, "delft", "leiden")
            alive = grid.processes(f"{job}/")
            assert grid.terminate("delft") == 0
            grid.releases["delft"] = speaks(3, 2)
            grid.start("delft")
            assert grid.ended("delft") == 1
            told = "the agent speaks protocol 2 to 3 (version "
            assert told in grid.log("delft")
            assert told in grid.log("daemon")
            assert "this daemon 1" in grid.log("delft")
            assert grid.processes(f"{job}/") == alive
            grid.releases["delft"] = speaks(3, 1)
            grid.start("delft")
            await grid.ready(client)
            assert grid.processes(f"{job}/") == alive
            both = (await client.submit(grid.evidence.component(site="delft", count=2))).job
            assert await client.wait(both) == "Finished"
            grid.evidence.open_gate("open")
            assert await client.wait(job) == "Finished"
            assert (await client.show(job))["attempts"] == 1
            await grid.at_rest(client)
        assert grid.evidence.finished(job, processes=4) == 1
