"""One job over two Slurm clusters and a Grid Engine cell: what no batch system does alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from koala.client import AsyncClient
from koala.errors import RejectedError
from tests.batch.systems.grids import grid_over
from tests.batch.systems.jobs import check_one_start, finished, job, running
from tests.batch.systems.system import System
from tests.harness.moments import moment
from tests.live.grid import Grid

pytestmark = pytest.mark.lrm


@pytest.fixture
def systems(slurm: dict[str, System], cell: dict[str, System]) -> dict[str, System]:
    """alpha, beta and gamma."""
    return {**slurm, **cell}


@pytest.fixture
def grid(tmp_path: Path, systems: dict[str, System]) -> Iterator[Grid]:
    """Daemon and agents in front of them."""
    with grid_over(tmp_path, systems) as grid:
        yield grid


async def test_a_job_over_three_batch_systems_starts_everywhere_at_the_same_moment(
    client: AsyncClient,
) -> None:
    skews = []
    for _ in range(5):
        shown = await finished(client, job("exit 0", "alpha", "beta", "gamma"))
        skews.append(shown["timeline"]["start_skew_s"])
        check_one_start(shown)
    # Milliseconds where nobody else is; starts that wait for nobody are seconds apart.
    assert sorted(skews)[2] < 0.5, skews


async def test_a_component_that_the_sites_people_cancel_stops_the_others(
    grid: Grid, client: AsyncClient, systems: dict[str, System]
) -> None:
    name = await running(grid, client, job("sleep 1000", *systems))
    (number,) = systems["beta"].numbers("koala-")
    systems["beta"].cancel(number)
    await grid.phase(client, name, "Stopping", "Placing", "Claiming", "Starting")
    await client.cancel([name])
    assert await client.wait(name) == "Cancelled"


async def test_a_component_finds_the_reservation_that_was_just_made_and_starts_with_the_other(
    grid: Grid, client: AsyncClient, systems: dict[str, System]
) -> None:
    """It has twelve of sixteen processors, and the next figures leave the others no more."""
    when = ("starttime=now", "duration=30", "users=root", "tres=cpu=12")
    systems["alpha"].run("scontrol", "create", "reservation", "reservationname=course", *when)
    part = "(executable=/bin/true)(jobType=single)(maxWallTime=1)"
    text = f"+(&{part}(count=12)(reservation=course))(&{part}(count=4)(site=gamma))"
    submitted = await client.submit(text)
    assert await client.wait(submitted.job) == "Finished", await client.show(submitted.job)
    shown = await client.show(submitted.job)
    check_one_start(shown)
    assert "Claiming: placed on alpha, gamma" in [said for _, said in shown["story"]]
    async with asyncio.timeout(grid.patience_s):
        while {site.site: site.idle for site in await client.sites()}["alpha"] not in (0, 4):
            await moment()


async def test_components_find_the_sites_with_gpus_and_see_them(
    grid: Grid, client: AsyncClient
) -> None:
    """Each node of alpha has two: three are on two nodes, and each process sees its node's."""
    say = "echo $KOALA_NAME $KOALA_GPUS $CUDA_VISIBLE_DEVICES"
    part = f'(executable=/bin/sh)(arguments=-c "{say}")(count=1)(jobType=single)(maxWallTime=10)'
    two = part.replace("count=1", "count=2")
    text = (
        f"+(name=gpus)(&{part}(gpus=2)(gpuType=a100)(constraint=ib)(licenses=matlab:2)(site=alpha))"
        f"(&{part}(gpus=4)(site=gamma))(&{two}(gpus=3)(site=beta))"
    )
    async with asyncio.timeout(grid.patience_s):  # the first figures may follow a registration
        while not all(site.gpus for site in await client.sites()):
            await moment()
    submitted = await client.submit(text)
    assert await client.wait(submitted.job) == "Finished", await client.show(submitted.job)
    said = {p.component: p.data async for p in client.logs(submitted.job, stream="stdout")}
    assert said[0] == b"gpus 2 0,1\n"
    assert said[1].startswith(b"gpus 4")  # the cell counts them and gives no numbers
    assert said[2].startswith(b"gpus 3 0")
    sites = {site.site: site for site in await client.sites()}
    assert {name: site.gpus for name, site in sites.items()} == dict.fromkeys(sites, 4)
    assert sites["alpha"].resources["gpu_types"] == ["a100"]
    assert sites["alpha"].resources["licenses"] == {"matlab": 3}
    for wish, answer in (
        ("(gpus=5)(site=alpha)", "needs 5 GPUs; alpha has 4 GPUs"),
        ("(gpus=3)(site=alpha)", "alpha has 2 GPUs on a host, for each process"),
        ("(gpus=1)(gpuType=h100)", "beta has no GPUs of type h100"),
        ("(constraint=sse)(site=beta)", r"beta has no hosts with sse \(it has ib, rome\)"),
        ("(licenses=matlab:4)(site=alpha)", "alpha has 3 licences of matlab"),
        ("(queue=night)(site=alpha)", r"alpha has no queue night \(it has batch\)"),
    ):
        with pytest.raises(RejectedError, match=answer):
            await client.submit(f"&{part}{wish}")
