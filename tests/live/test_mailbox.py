"""Sites whose starters dial nobody: their line to the agent goes through files in a folder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest

from koala.client import AsyncClient
from tests.live.conftest import client_of
from tests.live.grid import CALM, Grid, live_grid, until

pytestmark = [pytest.mark.live, pytest.mark.slow]

SKEW_MAX_S = 0.25
"""What is promised of a start whose messages take some tenths of a second."""


@pytest.fixture(scope="module")
def files_grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    """A site that dials, one by files, and one by files whose nodes see none of its folders."""
    folder = tmp_path_factory.mktemp("files")
    nodes = folder / "nodes"
    nodes.mkdir()
    by_files = '[starter]\nline = "files"\n'
    with live_grid(
        folder,
        sites={"delft": 4, "leiden": 4, "vu": 4},
        parameters={**CALM, "hold_lease_s": 20.0, "run_lease_s": 20.0},
        more={
            "leiden": by_files,
            "vu": f'{by_files}mailbox = "{nodes}"\nshared = false\n',
        },
    ) as grid:
        yield grid


@pytest.fixture
async def client(files_grid: Grid) -> AsyncIterator[AsyncClient]:
    async with client_of(files_grid) as client:
        yield client
    files_grid.check()


def mailbox(grid: Grid, site: str) -> Path:
    """The folder of a site's messages."""
    return grid.state / "leiden" / "mailbox" if site == "leiden" else grid.folder / "nodes" / site


def is_empty(mailbox: Path) -> bool:
    """True when nothing is left of any session."""
    return not [*mailbox.glob("down/*"), *mailbox.glob("up/*")]


async def test_components_start_together_whatever_their_line_is(
    files_grid: Grid, client: AsyncClient
) -> None:
    evidence = files_grid.evidence
    parts = [evidence.component(site=site, count=2) for site in files_grid.sites]
    job = (await client.submit(evidence.job(*parts))).job
    await client.wait(job)
    shown = await client.show(job)
    assert (shown["phase"], shown["attempts"]) == ("Finished", 1), shown
    assert shown["timeline"]["start_skew_s"] < SKEW_MAX_S
    started = [line.at for line in evidence.lines(job) if line.word == "start"]
    assert max(started) - min(started) < SKEW_MAX_S + 0.25  # interpreters start on a busy machine
    assert evidence.finished(job, processes=6) == 1
    for site in ("leiden", "vu"):
        await until(partial(is_empty, mailbox(files_grid, site)))
