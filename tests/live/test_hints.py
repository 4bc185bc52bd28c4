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


async def test_sites_tell_how_fast_they_are(client: AsyncClient) -> None:
    speeds = {site["site"]: site["mips"] for site in await client.sites()}
    assert speeds == {"delft": 2000.0, "home": 600.0}


async def test_a_hint_decides_where_a_job_runs(client: AsyncClient) -> None:
    """The slow site with the file is acceptable to who reads; who computes goes to the fast one."""
    reads = await finished(client, job("(hint=io)(length=3000)"))
    computes = await finished(client, job("(hint=cpu)(length=3000)"))
    strict = await finished(client, job("(hint=io 0.1)(length=3000)"))
    assert [part["site"] for part in reads["parts"]] == ["home"]
    assert [part["site"] for part in computes["parts"]] == ["delft"]
    assert [part["site"] for part in strict["parts"]] == ["delft"]
    assert reads["parts"][0]["mips"] == 600.0
    assert reads["timeline"]["transfer_bytes"] == 0


async def test_a_copy_goes_at_the_rate_that_was_booked(client: AsyncClient) -> None:
    """600 kB for 4000 MI at 2000 MIPS: 300 kB/s, two seconds; an eighth of a second's bytes may go
    at once, and a busy machine may be slower."""
    shown = await finished(client, job("(hint=cpu)(length=4000)"))
    timeline = shown["timeline"]
    assert timeline["transfer_bytes"] == SIZE_BYTES
    assert timeline["transfer_estimate_s"] == pytest.approx(2.0)
    assert timeline["transfer_s"] >= 1.7
    assert shown["parts"][0]["mips"] == 2000.0


async def test_who_finds_the_link_booked_waits_until_the_copy_is_done(
    grid: Grid, client: AsyncClient
) -> None:
    """The first has 100 of 400 kB/s for six seconds; the second accepts no less than the preferred
    rate, which takes 375 of them."""
    first = (await client.submit(job("(hint=cpu)(length=12000)"))).job
    second = (await client.submit(job("(hint=cpu 0)(length=1600)"))).job
    await grid.phase(client, first, "Claiming", "Starting", "Releasing", "Running")
    reasons = " ".join((await client.why(second))["why"])
    assert await client.wait(first) == "Finished"
    assert await client.wait(second) == "Finished"
    one, other = await client.show(first), await client.show(second)
    assert "1000 are preferred (hint cpu, deviation 0)" in reasons
    fetched_at = one["timeline"]["placed_at"] + one["timeline"]["transfer_s"]
    assert other["timeline"]["placed_at"] >= fetched_at - 0.05
    assert other["timeline"]["transfer_s"] >= 1.2


async def test_two_bookings_share_a_link_and_keep_their_rates(client: AsyncClient) -> None:
    """300 and 100 kB/s at the same time: two seconds and six."""
    jobs = [
        (await client.submit(job(f"(hint=cpu)(length={length})"))).job for length in (4000, 12000)
    ]
    assert [await client.wait(name) for name in jobs] == ["Finished"] * 2
    shown = [await client.show(name) for name in jobs]
    fast, slow = (one["timeline"]["transfer_s"] for one in shown)
    assert 1.7 <= fast < slow
    assert slow >= 5.5


async def test_a_booking_outlives_the_daemon(grid: Grid, client: AsyncClient) -> None:
    """Book 2 of 400 kB/s for five minutes; the daemon is killed meanwhile, and knows it: who
    needs all of them waits."""
    first = (await client.submit(job("(hint=cpu)(length=600000)"))).job
    await grid.phase(client, first, "Claiming", "Starting")
    before = (await client.show(first))["parts"][0]["booked_bps"]
    grid.kill("daemon")
    grid.start("daemon")
    await grid.ready(client)
    after = (await client.show(first))["parts"][0]["booked_bps"]
    second = (await client.submit(job("(hint=cpu 0)(length=1500)"))).job
    reasons = " ".join((await client.why(second))["why"])
    await client.cancel([first])
    assert await client.wait(second) == "Finished"
    assert before == after == pytest.approx(2_000)
    assert "the best rate now is 995 MIPS" in reasons


async def test_a_policy_that_heeds_no_length_says_so(tmp_path: Path) -> None:
    with live_grid(tmp_path, sites={"delft": 2}) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            told = await client.submit("&(executable=/bin/true)(hint=io)(mips=5)")
            assert await client.wait(told.job) == "Finished"
    text = "hint is ignored: the placement policy in force, CF, does not use it"
    assert text in told.warnings
