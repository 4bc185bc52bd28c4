"""Jobs over two imitated PBS servers: the whole agent with real starters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.batch.systems.grids import grid_over
from tests.batch.systems.jobs import check_one_start, finished, job
from tests.batch.systems.pbs import pbs_server
from tests.batch.systems.system import System
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
            check_one_start(await finished(client, job("exit 0", *servers)))
            notices = {site["notice"] for site in await client.sites()}
            assert len(notices) == 1
            assert "not tried against a live batch system" in notices.pop()
            await grid.at_rest(client)
        assert "not tried against a live batch system" in logs(tmp_path)


def logs(folder: Path) -> str:
    """All that agents and daemon have logged."""
    return "".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.log"))
