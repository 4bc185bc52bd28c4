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

import pytest

from koala.client import AsyncClient, AsyncJobHandle
from koala.common.identity.credentials import PLAIN
from koala.common.wire.v1.link_pb2 import CLAIM_STATE_PASSED
from koala.errors import ExhaustedError, UnreachableError
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
                    assert f"expected at most {most}: limits.jobs)" in str(result)
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
            results = await client.submit_many([ONE] * (2 * most), retry_for_s=120.0)
            assert all(isinstance(result, AsyncJobHandle) for result in results)
            metrics = await client.metrics()
            assert metrics["events_by_kind"]["SiteRegistered"] == 1
            assert sum(metrics["jobs"].values()) == outcomes["accepted"] + 2 * most
        staying.cancel()
