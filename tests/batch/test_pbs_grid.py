"""Jobs over two imitated PBS servers: the whole agent with real starters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.batch.systems.grids import grid_over
from tests.batch.systems.pbs import pbs_server
from tests.batch.systems.system import System
from tests.batch.test_faults import shell
from tests.live.grid import Grid

pytestmark = pytest.mark.long


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[dict[str, System]]:
    """sigma and tau."""
    folders = {name: tmp_path / name for name in ("sigma", "tau")}
    for folder in folders.values():
        folder.mkdir()
    with (
        pbs_server(folders["sigma"], "sigma", 4) as sigma,
        pbs_server(folders["tau"], "tau", 4) as tau,
    ):
        yield {**sigma, **tau}


async def test_a_job_over_both_starts_at_one_moment(
    tmp_path: Path, servers: dict[str, System]
) -> None:
    grid: Grid
    with grid_over(tmp_path, servers) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            name = (await client.submit(shell("exit 0", *servers))).job
            assert await client.wait(name) == "Finished", await client.show(name)
            shown = await client.show(name)
            held_from = max(part["claimed_at"] for part in shown["parts"])
            assert all(part["passed_at"] >= held_from for part in shown["parts"]), shown["parts"]
            notices = {site["notice"] for site in await client.sites()}
            assert len(notices) == 1
            assert "not against a live server" in notices.pop()
            await grid.at_rest(client)
        assert "not against a live server" in logs(tmp_path)


def logs(folder: Path) -> str:
    """All that agents and daemon have logged."""
    return "".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.log"))
