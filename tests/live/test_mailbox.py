"""Sites whose starters dial nobody: their line to the agent goes through files in a folder."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest

from koala.client import AsyncClient
from tests.harness.moments import moment
from tests.live.conftest import client_of
from tests.live.grid import CALM, Grid, live_grid, until

pytestmark = [pytest.mark.live, pytest.mark.slow]

SKEW_MAX_S = 0.25
"""Bound of the start skew where messages take some tenths of a second."""
AHEAD_S = 300.0
"""So far ahead are the clocks of one site's nodes."""


@pytest.fixture(scope="module")
def files_grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    """A site that dials, one by files with clocks of its own, and one by files whose nodes see none
    of its folders."""
    folder = tmp_path_factory.mktemp("files")
    nodes = folder / "nodes"
    nodes.mkdir()
    by_files = '[starter]\nline = "files"\n'
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec faketime -f +{AHEAD_S:g}s {sys.executable} "$@"\n')
    python.chmod(0o755)
    with live_grid(
        folder,
        sites={"delft": 4, "leiden": 4, "vu": 4},
        parameters={**CALM, "hold_lease_s": 20.0, "run_lease_s": 20.0},
        more={
            "leiden": f'{by_files}python = "{python}"\n',
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
    started = [
        line.at - AHEAD_S * (files_grid.sites[line.component] == "leiden")
        for line in evidence.lines(job)
        if line.word == "start"
    ]
    assert max(started) - min(started) < SKEW_MAX_S + 0.25  # interpreters start on a busy machine
    assert evidence.finished(job, processes=6) == 1
    for site in ("leiden", "vu"):
        await until(partial(is_empty, mailbox(files_grid, site)))


async def test_an_agent_that_is_killed_finds_its_starters_again(
    files_grid: Grid, client: AsyncClient
) -> None:
    evidence = files_grid.evidence
    sites = ("leiden", "vu")
    parts = [evidence.component(site=site, seconds=600, gate="found") for site in sites]
    job = (await client.submit(evidence.job(*parts))).job
    await until(lambda: len(evidence.lines(job)) == len(parts))
    files_grid.kill(*sites)
    files_grid.start()
    await files_grid.ready(client)
    evidence.open_gate("found")
    await client.wait(job)
    shown = await client.show(job)
    assert (shown["phase"], shown["attempts"]) == ("Finished", 1), shown
    assert evidence.finished(job, processes=2) == 1


async def test_a_mailbox_that_others_may_write_is_told_until_it_is_mended(
    files_grid: Grid, client: AsyncClient
) -> None:
    evidence = files_grid.evidence
    folder = mailbox(files_grid, "leiden")
    files_grid.terminate("leiden")
    folder.chmod(0o777)
    files_grid.start()
    await until_told(files_grid, client, "mode 0777")
    folder.chmod(0o700)
    await until_told(files_grid, client, "")
    job = (await client.submit(evidence.job(evidence.component(site="leiden")))).job
    await client.wait(job)
    assert (await client.show(job))["phase"] == "Finished"


async def until_told(grid: Grid, client: AsyncClient, words: str) -> None:
    """Wait until `koala sites` says this of the site, or nothing."""
    async with asyncio.timeout(grid.patience_s):
        while True:
            said = {site["site"]: site["trouble"] or "" for site in await client.sites()}
            if (words in said["leiden"]) if words else not said["leiden"]:
                return
            await moment()
