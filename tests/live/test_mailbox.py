"""Sites whose starters dial nobody: their line to the agent goes through files in a folder."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from koala.client import AsyncClient
from tests.harness.moments import moment, until
from tests.harness.programs import needed_program
from tests.harness.small_disk import fill, small_disk
from tests.live.conftest import client_of
from tests.live.grid import CALM, Grid, live_grid

pytestmark = [pytest.mark.live, pytest.mark.slow]

SKEW_MAX_S = 0.25
"""Bound of the start skew where messages take some tenths of a second."""
AHEAD_S = {"delft": 0.0, "leiden": 300.0, "vu": -300.0}
"""So far ahead are the clocks of each site's nodes."""


@pytest.fixture(scope="module")
def files_grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    """A site that dials, one by files with clocks of its own, and one by files whose nodes see none
    of its folders; where root runs the tests, that one has a small disk."""
    folder = tmp_path_factory.mktemp("files")
    nodes = folder / "nodes"
    by_files = '[starter]\nline = "files"\n'
    pythons = {site: write_python(folder / f"python-{site}", AHEAD_S[site]) for site in AHEAD_S}
    with small_disk(nodes, megabytes=8) if os.geteuid() == 0 else nullcontext():
        nodes.mkdir(exist_ok=True)
        with live_grid(
            folder,
            sites=dict.fromkeys(AHEAD_S, 4),
            parameters={**CALM, "hold_lease_s": 20.0, "run_lease_s": 20.0},
            more={
                "leiden": f'{by_files}python = "{pythons["leiden"]}"\n',
                "vu": f'{by_files}mailbox = "{nodes}"\nshared = false\n'
                f'python = "{pythons["vu"]}"\n',
            },
        ) as grid:
            yield grid


def write_python(path: Path, ahead_s: float) -> Path:
    """Write an interpreter whose clock is ahead."""
    faketime = needed_program("faketime", package="faketime")
    path.write_text(f'#!/bin/sh\nexec {faketime} -f {ahead_s:+g}s {sys.executable} "$@"\n')
    path.chmod(0o755)
    return path


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
    assert (shown["phase"], shown["attempts"]) == ("Finished", 1), f"{shown}"
    assert shown["timeline"]["start_skew_s"] < SKEW_MAX_S
    started = [
        line.at - AHEAD_S[files_grid.sites[line.component]]
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
    assert (shown["phase"], shown["attempts"]) == ("Finished", 1), f"{shown}"
    assert evidence.finished(job, processes=2) == 1


@pytest.mark.root
async def test_a_full_folder_is_told_and_costs_no_claim(
    files_grid: Grid, client: AsyncClient
) -> None:
    """As with a full quota: what is to be said waits, and the program goes on for its lease."""
    evidence = files_grid.evidence
    job = (
        await client.submit(evidence.job(evidence.component(site="vu", seconds=600, gate="full")))
    ).job
    await until(lambda: len(evidence.lines(job)) == 1)
    async with asyncio.timeout(files_grid.patience_s):
        while "No space left" not in await trouble_of(client, "vu"):
            fill(files_grid.folder / "nodes", 0)  # removed messages have left room
            await moment()
    evidence.open_gate("full")
    (files_grid.folder / "nodes" / "filler").unlink()
    await until_told(files_grid, client, "", "vu")
    await client.wait(job)
    shown = await client.show(job)
    assert (shown["phase"], shown["attempts"]) == ("Finished", 1), f"{shown}"
    assert evidence.finished(job, processes=1) == 1


async def until_told(grid: Grid, client: AsyncClient, words: str, site: str = "leiden") -> None:
    """Wait until `koala sites` says this of the site, or nothing."""
    async with asyncio.timeout(grid.patience_s):
        while True:
            said = await trouble_of(client, site)
            if (words in said) if words else not said:
                return
            await moment()


async def trouble_of(client: AsyncClient, site: str) -> str:
    """Return what `koala sites` says of the site."""
    return {each["site"]: each["trouble"] or "" for each in await client.sites()}[site]
