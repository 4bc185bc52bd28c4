"""Input files on a real grid whose estimates are wrong: who is held up by them, and who is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from koala.client import AsyncClient
from koala.client.records import JobDetails
from tests.harness.moments import moment
from tests.live.conftest import client_of
from tests.live.grid import CALM, Grid, live_grid

pytestmark = pytest.mark.live

QUICK, SLOW = "quick.dat", "slow.dat"
QUICK_BYTES = 20_000_000
SLOW_BYTES = 6_000_000
RATE_BPS = 1_500_000.0
GUESS_BPS = 100_000.0
"""Estimate for an unobserved link: 200 s for the quick file, a minute for the slow one."""


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    """The files are at two sites, one of which sends slowly."""
    with live_grid(
        Path(tmp_path_factory.mktemp("grid")),
        sites={"fast": 1, "slow": 1, "delft": 4, "vu": 4},
        parameters={
            **CALM,
            "hold_s": 60.0,
            "bandwidth_default_bps": GUESS_BPS,
            "transfer_report_s": 0.3,
        },
        replicas={QUICK: (b"\1" * QUICK_BYTES, ("fast",)), SLOW: (b"\0" * SLOW_BYTES, ("slow",))},
        grace_s=6.0,
        more={"slow": f"rate = {RATE_BPS}\n"},
    ) as grid:
        yield grid


@pytest.fixture
async def client(grid: Grid) -> AsyncIterator[AsyncClient]:
    """A client of it."""
    async with client_of(grid) as client:
        yield client


def job(file: str) -> str:
    """Two components of two processors."""
    parts = "".join(
        f"(&(executable=/bin/true)(count=2)(resourceManagerContact={site}))"
        for site in ("delft", "vu")
    )
    return f"+(inputFile={file}){parts}"


async def test_a_copy_that_is_faster_than_its_estimate_holds_nobody_up(client: AsyncClient) -> None:
    """200 s by the estimate, and the start comes within seconds after the file."""
    name = (await client.submit(job(QUICK))).job
    assert await client.wait(name) == "Finished", await client.show(name)
    shown = await client.show(name)
    timeline = shown["timeline"]
    assert timeline["transfer_estimate_s"] == pytest.approx(QUICK_BYTES / GUESS_BPS)
    took_s = timeline["transfer_s"]
    assert timeline["started_at"] - timeline["placed_at"] < took_s + 15.0
    assert timeline["start_at"] <= timeline["started_at"]
    assert timeline["start_delay_s"] < -100.0
    assert [one["share"] for one in shown["transfers"]] == [1.0, 1.0]
    assert {one["target"] for one in shown["transfers"]} == {"delft", "vu"}


async def test_claims_are_made_while_the_copy_travels_and_everybody_is_told_how_far_it_is(
    client: AsyncClient,
) -> None:
    name = (await client.submit(job(SLOW))).job
    shown = await _until(client, name, lambda doc: any(0 < share < 1 for share in _shares(doc)))
    (copy, *_) = [one for one in shown["transfers"] if 0 < one["share"] < 1]
    assert copy["size_bytes"] == SLOW_BYTES
    assert copy["moved_bytes"] == pytest.approx(copy["share"] * SLOW_BYTES)
    assert 0 < copy["rate_bps"] < 10 * RATE_BPS
    assert "B of 6.0 MB (" in "\n".join((await client.why(name))["why"])
    assert (await client.timeline(name))["transfers"]
    assert await client.wait(name) == "Finished", await client.show(name)
    shown = await client.show(name)
    timeline = shown["timeline"]
    fetched_at = timeline["placed_at"] + timeline["transfer_s"]
    assert timeline["transfer_s"] > SLOW_BYTES / RATE_BPS / 2, "the copy was as slow as it should"
    assert min(part["claimed_at"] for part in shown["parts"]) < fetched_at, "not only then"
    assert timeline["started_at"] - fetched_at < 10.0


async def test_what_is_held_now_is_counted(client: AsyncClient, grid: Grid) -> None:
    """One job runs until it may end; another is claimed, and waits for its file."""
    evidence = grid.evidence
    runs = (await client.submit(evidence.component(site="fast", count=1, gate="held"))).job
    waits = (await client.submit(job(SLOW))).job
    shown = await _until(client, waits, lambda doc: _held(doc) > 0)
    assert shown["timeline"]["processor_wasted_s"] == pytest.approx(_held(shown), abs=1e-6)
    await grid.phase(client, runs, "Running")
    assert (await client.show(runs))["timeline"]["processor_run_s"] > 0
    evidence.open_gate("held")
    assert await client.wait(runs) == "Finished"
    assert await client.wait(waits) == "Finished", await client.show(waits)


def _shares(document: dict[str, Any]) -> list[float]:
    return [one["share"] for one in document["transfers"]]


def _held(document: JobDetails) -> float:
    return float(sum(row["held_s"] for row in document["charges"]))


async def _until(client: AsyncClient, name: str, is_so: Any) -> JobDetails:
    """The job's document as soon as it says so."""
    async with asyncio.timeout(60.0):
        while not is_so(document := await client.show(name)):
            assert document["phase"] not in ("Finished", "Failed", "Cancelled"), document
            await moment()
    return document
