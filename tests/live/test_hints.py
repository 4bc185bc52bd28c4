"""Placement by speed, booked links and hints on a live grid: what is booked is what copies get."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from koala.client import AsyncClient
from koala.client.records import JobDetails
from tests.live.conftest import client_of
from tests.live.grid import CALM, Grid, live_grid

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.long]

SIZE_BYTES = 600_000
BOOKABLE_BPS = 400_000.0
CONFIG = f"""
[policies]
placement = "Service"

[links.bookable.home]
delft = {BOOKABLE_BPS}
"""


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    """The file is at a slow site; a fast one gets it over a link of which 400 kB/s can be booked.
    An owner's limit leaves copies without booking 50 kB/s more."""
    with live_grid(
        Path(tmp_path_factory.mktemp("grid")),
        sites={"delft": 4, "home": 4},
        parameters={**CALM, "preferred_mips": 1000.0, "bandwidth_default_bps": 1e6},
        replicas={"data": (b"\0" * SIZE_BYTES, ("home",))},
        grace_s=6.0,
        speeds={"delft": 2000.0, "home": 600.0},
        more={"daemon": CONFIG, "delft": "rate = 450000.0\n"},
    ) as grid:
        yield grid


@pytest.fixture
async def client(grid: Grid) -> AsyncIterator[AsyncClient]:
    """A client of it."""
    async with client_of(grid) as client:
        yield client


async def finished(client: AsyncClient, rsl: str) -> JobDetails:
    job = (await client.submit(rsl)).job
    assert await client.wait(job) == "Finished", await client.show(job)
    return await client.show(job)


def job(more: str) -> str:
    return f"&(executable=/bin/true)(inputFile=data){more}"


async def test_a_copy_goes_at_the_rate_that_was_booked(client: AsyncClient) -> None:
    """600 kB for 4000 MI at 2000 MIPS: 300 kB/s, two seconds; an eighth of a second's bytes may go
    at once, and a busy machine may be slower."""
    shown = await finished(client, job("(hint=cpu)(length=4000)"))
    timeline = shown["timeline"]
    assert timeline["transfer_bytes"] == SIZE_BYTES
    assert timeline["transfer_estimate_s"] == pytest.approx(2.0)
    assert timeline["transfer_s"] >= 1.7
    assert shown["parts"][0]["mips"] == 2000.0
