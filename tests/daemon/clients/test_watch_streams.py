"""Watches of a daemon over real gRPC: they resume without gap or double, and end with their job."""

import asyncio
from pathlib import Path

import pytest

from koala.client import AsyncClient
from koala.client.records import Notice
from koala.errors import SpecError, UnknownJobError
from tests.daemon.running import ONE, config_of, running
from tests.harness.moments import moment

pytestmark = pytest.mark.live


async def test_a_watch_resumes_over_a_restart_without_gap_or_double(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    async with running(config) as daemon, AsyncClient(daemon.address) as client:
        for _ in range(3):
            await client.submit(ONE)
        first = await take(client, after=0, count=2)
    async with running(config) as daemon, AsyncClient(daemon.address) as client:
        await client.submit(ONE)
        rest = await take(client, after=first[-1]["number"], count=2)
    assert [notice["number"] for notice in [*first, *rest]] == [1, 2, 3, 4]
    assert [notice["job"] for notice in [*first, *rest]] == ["j1", "j2", "j3", "j4"]


async def test_a_watch_of_a_job_ends_with_the_job(tmp_path: Path) -> None:
    async with (
        running(config_of(tmp_path)) as daemon,
        AsyncClient(daemon.address) as client,
        asyncio.TaskGroup() as group,
        asyncio.timeout(90),
    ):
        job, other = [(await client.submit(ONE)).job for _ in range(2)]
        live = [
            group.create_task(whole(client, after=0, job=job)),
            group.create_task(whole(client, after=0, job=job, site="nowhere")),
        ]
        while (await client.metrics())["watchers"] < len(live):
            await moment()
        await client.cancel([other, job])
        told, told_of_site = [await one for one in live]
        assert [notice["phase"] for notice in told] == ["Placing", "Cancelled"]
        assert told[-1]["text"].startswith("by "), "the end is said once"
        assert told_of_site == []

        assert await whole(client, after=0, job=job) == told
        assert await whole(client, after=told[0]["number"], job=job) == told[1:]
        assert await whole(client, after=told[1]["number"], job=job) == []
        assert await whole(client, after=-1, job=job) == []
        with pytest.raises(UnknownJobError, match="no job 'j999'"):
            await whole(client, after=0, job="j999")
        with pytest.raises(SpecError, match="the last notice is 4"):
            await whole(client, after=5, job=job)


async def whole(client: AsyncClient, *, after: int, job: str, site: str = "") -> list[Notice]:
    """All notices of a watch that ends by itself."""
    return [notice async for notice in client.watch(after=after, job=job, site=site)]


async def take(client: AsyncClient, *, after: int, count: int) -> list[Notice]:
    notices = []
    async for notice in client.watch(after=after):
        notices.append(notice)
        if len(notices) == count:
            break
    return notices
