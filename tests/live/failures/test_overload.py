"""Too many of everything at once, over sockets: nothing is lost, doubled, or refused in silence.

Smaller than what `make bench-load` runs, and without figures: a busy machine is slow, and no less
right for that.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

import grpc
import pytest

from koala.client import AsyncClient, AsyncJobHandle
from koala.common.identity.credentials import PLAIN
from koala.common.protocol.versions import PROTOCOL
from koala.common.wire.status import PROTOCOL_KEY
from koala.common.wire.v1 import koala_pb2 as pb
from koala.common.wire.v1.koala_pb2_grpc import KoalaStub
from koala.common.wire.v1.link_pb2 import CLAIM_STATE_PASSED
from koala.daemon.clients.rsl_parsing import DescriptionParser
from koala.daemon.quotas import CALLS_AT_ONCE
from koala.errors import ExhaustedError, UnreachableError
from koala.job_descriptions.job_reader import JobReading
from tests.daemon.fake_agent import FakeAgent
from tests.daemon.running import config_of, running
from tests.harness.moments import moment
from tests.live.proxy import Proxy

pytestmark = pytest.mark.live

ONE = "&(executable=/bin/true)(count=1)"
CLIENTS = 64
SHARE = int(os.environ.get("KOALA_TEST_SHARE", "3"))
"""Submissions of each client; a campaign has more."""
CUT_EVERY = 20
"""After so many answers some connections are cut."""
NARROW = (
    ("grpc.http2.lookahead_bytes", 65_536),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.use_local_subchannel_pool", 1),
)
"""A client that takes little in advance: else it has read megabytes before anybody asks for it."""


async def test_each_key_gives_one_job_whatever_becomes_of_connections(tmp_path: Path) -> None:
    """One submission of ten has a key that another client uses, too. Connections are cut, some at a
    time, and what was not answered is submitted again."""
    random = Random(14)
    keys = [f"k{number}" for number in range(CLIENTS * SHARE)]
    for number in random.sample(range(len(keys)), len(keys) // 10):
        keys[number] = random.choice(keys)
    jobs: dict[str, set[str]] = {key: set() for key in keys}
    answers = cuts = 0

    async def share(client: AsyncClient, mine: list[str]) -> None:
        nonlocal answers, cuts
        async with client:
            for key in mine:
                job = ""
                while not job:
                    with suppress(UnreachableError):
                        job = (await client.submit(ONE, key=key)).job
                jobs[key].add(job)
                answers += 1
                if answers % CUT_EVERY == 0:
                    proxy.cut(random.choice(hosts))
                    cuts += 1

    async with asyncio.TaskGroup() as group, running(config_of(tmp_path)) as daemon:
        host, _, port = daemon.address.rpartition(":")
        proxy = Proxy(group)
        hosts = [f"127.0.0.{2 + number}" for number in range(8)]
        for one in hosts:
            await proxy.listen(one, (one, int(port)), to=(host, int(port)))
        async with asyncio.TaskGroup() as submitting:
            for n in range(CLIENTS):
                client = AsyncClient(f"{hosts[n % len(hosts)]}:{port}", credentials=PLAIN)
                submitting.create_task(share(client, keys[n * SHARE : (n + 1) * SHARE]))
        async with AsyncClient(daemon.address) as counter:
            listed = await counter.list_jobs()
        proxy.close()
    assert cuts > 5
    assert {key: len(found) for key, found in jobs.items()} == dict.fromkeys(keys, 1)
    assert len({job for found in jobs.values() for job in found}) == len(set(keys))
    assert len(listed) == len(set(keys))


async def test_what_is_accepted_under_overload_finishes_and_the_rest_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No job ends before one was refused. Then those who are patient are accepted, too, and no site
    was lost meanwhile."""
    monkeypatch.setattr("koala.daemon.quotas.QUEUE_RETRY_S", 0.2)
    most, each = 30, 3
    outcomes: Counter[str] = Counter()
    is_full = asyncio.Event()

    async def share(address: str, user: str) -> None:
        async with AsyncClient(address, user=user) as client:
            for _ in range(each):
                (result,) = await client.submit_many([ONE])
                if isinstance(result, ExhaustedError):
                    assert f"allowed are {most} (limits.jobs)" in str(result)
                    assert result.retry_after_s
                    is_full.set()
                outcomes["refused" if isinstance(result, ExhaustedError) else "accepted"] += 1

    async def end_jobs(agent: FakeAgent) -> None:
        await is_full.wait()
        agent.ends_at_once = True
        for claim, report in list(agent.claims.items()):
            if report.state == CLAIM_STATE_PASSED:
                agent.end(claim)

    config = config_of(tmp_path, f"[limits]\njobs = {most}\n")
    async with running(config) as daemon, asyncio.TaskGroup() as group:
        agent = FakeAgent(daemon.address, processors=8, ends_at_once=False)
        staying = group.create_task(agent.stay())
        async with AsyncClient(daemon.address) as client, asyncio.timeout(150):
            await agent.until("wanted_end")
            async with asyncio.TaskGroup() as submitting:
                submitting.create_task(end_jobs(agent))
                for number in range(CLIENTS):
                    submitting.create_task(share(daemon.address, f"u{number}"))
            assert outcomes["refused"] > 0
            assert outcomes["accepted"] >= most
            assert outcomes.total() == CLIENTS * each
            while (await client.metrics())["jobs"].get("Finished", 0) < outcomes["accepted"]:
                agent.heard.clear()
                await moment()
            results = await client.submit_many([ONE] * (2 * most), patience_s=120.0)
            assert all(isinstance(result, AsyncJobHandle) for result in results)
            metrics = await client.metrics()
            assert metrics["events_by_kind"]["SiteRegistered"] == 1
            assert sum(metrics["jobs"].values()) == outcomes["accepted"] + 2 * most
        staying.cancel()


async def test_watchers_that_stop_reading_are_cut_and_resume_without_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty of them, beside three that read: these miss nothing, and wait for nobody."""
    monkeypatch.setattr("koala.daemon.clients.event_feed.RECENT_MAX", 250)
    events = 1_000
    every, go_on = list(range(1, events + 1)), asyncio.Event()
    async with (
        running(config_of(tmp_path)) as daemon,
        AsyncClient(daemon.address) as client,
        asyncio.TaskGroup() as group,
        asyncio.timeout(150),
    ):
        reading = [group.create_task(watched(client, 0, events)) for _ in range(3)]
        stalled = [group.create_task(Stalled(daemon.address, go_on).run()) for _ in range(20)]
        while (await client.metrics())["watchers"] < 23:
            await moment()
        for _ in range(0, events, 100):
            results = await client.submit_many([ONE] * 100)
            assert all(isinstance(result, AsyncJobHandle) for result in results)
        for task in reading:
            assert await task == every
        go_on.set()
        for seen in [await task for task in stalled]:
            assert 0 < len(seen) < events
            assert seen + await watched(client, seen[-1], events) == every


async def watched(client: AsyncClient, after: int, last: int) -> list[int]:
    """Numbers of notices up to this one."""
    numbers: list[int] = []
    async for notice in client.watch(after=after):
        numbers.append(notice["number"])
        if notice["number"] == last:
            break
    return numbers


class Stalled:
    """A watcher that does not take what comes before `go_on`, and is then told to resume."""

    def __init__(self, address: str, go_on: asyncio.Event) -> None:
        self._address = address
        self._go_on = go_on

    async def run(self) -> list[int]:
        """Return what it got."""
        numbers: list[int] = []
        async with grpc.aio.insecure_channel(self._address, options=NARROW) as channel:
            request = pb.WatchRequest(after=0)
            call = KoalaStub(channel).Watch(request, metadata=((PROTOCOL_KEY, str(PROTOCOL)),))
            await call.initial_metadata()
            await self._go_on.wait()
            try:
                while isinstance(notice := await call.read(), pb.Notice):
                    numbers.append(notice.number)
            except grpc.aio.AioRpcError:
                pass
            code, details = await call.code(), await call.details()
        assert (code, details) == (
            grpc.StatusCode.ABORTED,
            f"too slow; resume after {numbers[-1]}",
        )
        return numbers


async def test_a_flood_of_one_user_keeps_no_other_one_from_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many of the flood's calls are in work as may be of one user, and the others wait behind
    them, until ann has her answer."""
    calls, lot = 120, 25
    reading, answered, in_work = DescriptionParser.read, asyncio.Event(), asyncio.Semaphore(0)

    async def read(texts: DescriptionParser, submission: pb.Submission, owner: str) -> JobReading:
        if owner == "flood":
            in_work.release()
            await answered.wait()
        return await reading(texts, submission, owner)

    monkeypatch.setattr(DescriptionParser, "read", read)
    async with (
        running(config_of(tmp_path)) as daemon,
        AsyncClient(daemon.address, user="flood") as flood,
        AsyncClient(daemon.address, user="ann") as client,
        asyncio.timeout(150),
        asyncio.TaskGroup() as group,
    ):
        flooding = [group.create_task(flood.submit_many([ONE] * lot)) for _ in range(calls)]
        for _ in range(CALLS_AT_ONCE):
            await in_work.acquire()
        assert (await client.submit(ONE)).job == "j1"
        answered.set()
        results = [result for task in flooding for result in await task]
        assert all(isinstance(result, AsyncJobHandle) for result in results)
        assert len(results) == calls * lot
