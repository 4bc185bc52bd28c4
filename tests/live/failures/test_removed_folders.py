"""Somebody removes folders of an agent's state while it lives: it goes on, or ends and says why."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.live.grid import live_grid

pytestmark = [pytest.mark.live, pytest.mark.slow]

FOLDERS = ("claims", "claims/.starter", "transfers", "transfers/incoming", "files")
DATABASES = {"delft": "agent.db", "leiden": "lrm/jobs.sqlite3", "vu": "lrm"}


async def test_an_agent_makes_removed_folders_again_and_ends_for_a_removed_database(
    tmp_path: Path,
) -> None:
    """Claims failed for good, since their starters were gone; and nobody would ever read what is
    committed into a removed file."""
    replicas = {"data": (b"koala" * 1000, ("leiden",))}
    with live_grid(tmp_path, sites=dict.fromkeys(DATABASES, 4), replicas=replicas) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            component = grid.evidence.component(site="delft", more="(inputFile=data)")
            first = (await client.submit(component)).job
            assert await client.wait(first) == "Finished"
            for removed in FOLDERS:
                shutil.rmtree(grid.state / "delft" / removed, ignore_errors=True)  # it cleans up
                for _ in range(2):
                    again = (await client.submit(component)).job
                    assert await client.wait(again) == "Finished", removed
                    assert (await client.show(again))["failures"] == 0, removed
                await grid.at_rest(client)
            for site, removed in DATABASES.items():
                component = grid.evidence.component(site=site)
                first = (await client.submit(component)).job
                assert await client.wait(first) == "Finished"
                path = grid.state / site / removed
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()
                await client.submit(component)
                assert grid.ended(site) == 74, removed
                assert "was removed, or another file has taken its place" in grid.log(site)
