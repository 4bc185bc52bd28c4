"""Daemon and agents are exchanged for ones of other versions of Koala.

Another version is the code as it is with other numbers: of the software, of a format on disk, or of
the protocol. With the same formats and protocol jobs run on; otherwise it refuses to start, and
what it then says is done here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from koala.common.protocol.versions import PROTOCOL
from koala.common.runtime.disk_formats import JOURNAL, Format
from koala.daemon.state.recovery import LOST_JOBS_MAX
from tests.live.failures.test_faults import running_job
from tests.live.grid import live_grid

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.long]

SITES = {"delft": 4, "leiden": 4}
LATER = (
    "import koala.common.runtime.software as software; software.software_version = lambda: 'later'"
)
OTHER_PROTOCOL = "import koala.common.protocol.versions as versions; versions.PROTOCOL += 1"


def other(name: str, known: Format) -> str:
    """A version that reads another number of this format."""
    changed = f"formats.Format(formats.{name}.name, {known.number + 1}, formats.{name}.remedy)"
    return f"import koala.common.runtime.disk_formats as formats; formats.{name} = {changed}"


async def test_jobs_run_on_while_daemon_and_agents_are_exchanged(tmp_path: Path) -> None:
    with live_grid(tmp_path, sites=SITES) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            job = await running_job(grid, client, "delft", "leiden")
            waiting = (await client.submit(grid.evidence.component(site="delft", count=4))).job
            alive = grid.processes(f"{job}/")
            grid.releases = dict.fromkeys(("daemon", *SITES), LATER)
            grid.kill("daemon")
            grid.start("daemon")
            await grid.ready(client)
            for site in SITES:
                assert grid.terminate(site) == 0
                grid.start(site)
            await grid.ready(client)
            assert {site.version for site in await client.sites()} == {"later"}
            assert grid.processes(f"{job}/") == alive
            grid.evidence.open_gate("open")
            assert await client.wait_all([job, waiting]) == {job: "Finished", waiting: "Finished"}
            assert (await client.show(job))["attempts"] == 1
            await grid.at_rest(client)
        assert grid.evidence.finished(job, processes=4) == 1


async def test_an_agent_of_another_protocol_ends_and_the_right_one_finds_its_jobs(
    tmp_path: Path,
) -> None:
    with live_grid(tmp_path, sites=SITES) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            job = await running_job(grid, client, "delft", "leiden")
            alive = grid.processes(f"{job}/")
            assert grid.terminate("delft") == 0
            grid.releases["delft"] = OTHER_PROTOCOL
            grid.start("delft")
            assert grid.ended("delft") == 1
            told = f"the agent speaks protocol {PROTOCOL + 1} (version "
            assert told in grid.log("delft")
            assert told in grid.log("daemon")
            assert f"this daemon {PROTOCOL}: install the same version of Koala at both" in grid.log(
                "delft"
            )
            assert grid.processes(f"{job}/") == alive
            del grid.releases["delft"]
            grid.start("delft")
            await grid.ready(client)
            assert grid.processes(f"{job}/") == alive
            grid.evidence.open_gate("open")
            assert await client.wait(job) == "Finished"
            assert (await client.show(job))["attempts"] == 1
            await grid.at_rest(client)
        assert grid.evidence.finished(job, processes=4) == 1


async def test_a_daemon_with_another_format_keeps_its_sites(
    tmp_path: Path,
) -> None:
    """The agents keep their state, which rests on the journal that is moved away."""
    with live_grid(tmp_path, sites=SITES) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            job = (await client.submit(grid.evidence.component(site="delft", count=4))).job
            assert await client.wait(job) == "Finished"
        assert grid.terminate("daemon") == 0
        grid.releases["daemon"] = other("JOURNAL", JOURNAL)
        grid.start("daemon")
        assert grid.ended("daemon") == 1
        number = JOURNAL.number
        wrong = f"journal format {number}: this version of Koala reads {number + 1}."
        assert wrong in grid.log("daemon")
        assert JOURNAL.remedy in grid.log("daemon")
        (aside := tmp_path / "aside").mkdir()
        for path in grid.state.glob("daemon/journal.*"):
            path.rename(aside / path.name)
        begin = "import sys; sys.argv += ['--init', '--accept-loss']"
        grid.releases["daemon"] = f"{other('JOURNAL', JOURNAL)}; {begin}"
        grid.start("daemon")
        async with grid.client() as client:
            await grid.ready(client)
            job = (await client.submit(grid.evidence.component(site="delft", count=4))).job
            assert int(job[1:]) > LOST_JOBS_MAX
            assert await client.wait(job) == "Finished"
            await grid.at_rest(client)
