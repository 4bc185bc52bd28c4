"""Quotas bound everything that users own: each refusal names the limit, its value and when to try
again, changes nothing, and ends with its cause."""

import asyncio
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from koala.client import AsyncClient, AsyncJobHandle
from koala.common.protocol.versions import PROTOCOL
from koala.common.runtime.token_bucket import RateLimits, TokenBucket
from koala.common.wire.status import PROTOCOL_KEY, RETRY_KEY
from koala.common.wire.v1 import koala_pb2 as pb
from koala.common.wire.v1 import link_pb2
from koala.common.wire.v1.koala_pb2_grpc import KoalaStub
from koala.daemon.quotas import (
    FairQueue,
)
from koala.errors import ExhaustedError, SpecError
from koala.views.records.jobs import JobPage
from tests.daemon.fake_agent import FakeAgent
from tests.daemon.running import config_of, running
from tests.harness.moments import moment

live = pytest.mark.live

ONE = "&(executable=/bin/true)(count=4)"
LARGE = "+" + f"(&(executable=/bin/true)(arguments={'x' * 130_000}))" * 7


def limits(**values: float) -> str:
    lines = "".join(f"{name} = {value}\n" for name, value in values.items())
    return f"[limits]\n{lines}"


# --- the parts ------------------------------------------------------------------------------------


def test_a_bucket_gives_its_rate_in_the_long_run() -> None:
    bucket = TokenBucket(10.0, burst=20.0, now=100.0)
    assert bucket.wait_s(100.0) == 0
    bucket.consume(50)  # in one piece
    assert bucket.wait_s(100.0) == pytest.approx(3.1)
    assert bucket.wait_s(103.0) == pytest.approx(0.1)
    assert bucket.wait_s(103.2) == 0
    bucket.consume(2)
    assert bucket.remaining(104.0) < 1.0
    assert bucket.remaining(200.0) == 1.0
    bucket.consume(20)  # what was left over in the rest is not kept
    assert bucket.wait_s(200.0) == pytest.approx(0.1)


def test_a_bucket_of_somebody_stays_until_it_says_nothing_any_more() -> None:
    buckets = RateLimits[str](1.0, burst=10.0)
    one = buckets.of("delft", 0.0)
    one.consume(10)
    assert buckets.of("leiden", 5.0) is not one
    assert buckets.of("delft", 9.0) is one
    buckets.of("utrecht", 20.0)  # looks who has rested
    assert buckets.of("delft", 20.0) is not one
    assert buckets.of("delft", 20.0).remaining(20.0) == 1.0


async def test_a_user_who_floods_waits_for_himself_and_another_one_does_not() -> None:
    queue, order = FairQueue(most=5, at_once=2), list[str]()
    opened = asyncio.Event()

    async def call(user: str, number: int) -> None:
        async with queue.slot(user):
            order.append(f"{user}{number}")
            if user == "ann":
                await opened.wait()

    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(call("ann", number))
        await asyncio.sleep(0)
        await group.create_task(call("bob", 0))
        assert order == ["ann0", "ann1", "bob0"]
        with pytest.raises(
            ExhaustedError, match=r"5 calls of ann wait .* 5: limits\.calls_per_user"
        ):
            await call("ann", 5)
        opened.set()
    assert order == ["ann0", "ann1", "bob0", "ann2", "ann3", "ann4"]
    await call("ann", 6)  # nothing is left of the flood


# --- the daemon -----------------------------------------------------------------------------------


@live
async def test_jobs_are_refused_when_there_are_too_many_and_accepted_when_one_is_over(
    tmp_path: Path,
) -> None:
    config = config_of(tmp_path, limits(jobs=3, jobs_per_user=2))
    async with (
        running(config) as daemon,
        AsyncClient(daemon.address, user="ann") as ann,
        AsyncClient(daemon.address, user="bob") as bob,
    ):
        first = await ann.submit(ONE, key="first")
        results = await ann.submit_many([ONE, ONE, "&(cuont=4)"])
        assert isinstance(results[0], AsyncJobHandle)
        assert isinstance(results[1], ExhaustedError)
        assert str(results[1]) == (
            "2 jobs of ann have not ended (expected at most 2: limits.jobs_per_user);"
            " try again in 10 s"
        )
        assert results[1].retry_after_s == 10.0
        assert isinstance(results[2], SpecError)
        assert (await ann.submit(ONE, key="first")).job == first.job  # no other job
        await bob.submit(ONE)
        with pytest.raises(ExhaustedError, match=r"3 jobs have not ended .* 3: limits\.jobs\)"):
            await bob.submit(ONE)
        with pytest.raises(ExhaustedError):
            await bob.submit(ONE, dry_run=True)
        await ann.cancel(first.job)
        assert (await bob.submit(ONE)).job == "j4"  # refusals take no number
        assert len(await ann.list_jobs()) == 4
    async with running(config) as daemon, AsyncClient(daemon.address, user="bob") as bob:
        with pytest.raises(ExhaustedError, match=r"3 jobs have not ended"):  # as before the restart
            await bob.submit(ONE)


@live
async def test_large_descriptions_are_bounded_together(tmp_path: Path) -> None:
    config = config_of(tmp_path, limits(descriptions_mb=3, descriptions_mb_per_user=1))
    async with running(config) as daemon, AsyncClient(daemon.address, user="ann") as ann:
        job = (await ann.submit(LARGE)).job
        with pytest.raises(
            ExhaustedError,
            match=r"1\.8 MB \(expected at most 1: limits\.descriptions_mb_per_user\)",
        ):
            await ann.submit(LARGE)
        async with AsyncClient(daemon.address, user="bob") as bob:
            await bob.submit(LARGE)
        await ann.cancel(job)
        await ann.submit(LARGE)


@live
async def test_a_refused_call_is_resource_exhausted_with_the_time_to_try_again(
    tmp_path: Path,
) -> None:
    """For clients that are not ours: the status, and `retry-after-ms` beside it."""
    async with (
        running(config_of(tmp_path, limits(jobs=1))) as daemon,
        grpc.aio.insecure_channel(daemon.address) as channel,
    ):
        stub = KoalaStub(channel)
        request = pb.SubmitRequest(submissions=[pb.Submission(rsl=ONE)])
        shown = ((PROTOCOL_KEY, str(PROTOCOL)),)
        await stub.Submit(request, metadata=shown)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.Submit(request, metadata=shown)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert dict(refused.value.trailing_metadata() or ())[RETRY_KEY] == "10000"
    assert "expected at most 1: limits.jobs); try again in 10 s" in (refused.value.details() or "")


@live
async def test_submissions_have_a_rate_for_each_user(tmp_path: Path) -> None:
    async with (
        running(config_of(tmp_path, limits(submissions_per_s=0.01))) as daemon,
        AsyncClient(daemon.address, user="ann") as ann,
        AsyncClient(daemon.address, user="bob") as bob,
    ):
        await ann.submit(ONE)
        with pytest.raises(
            ExhaustedError, match=r"0\.01 a second: limits\.submissions_per_s\); try again in"
        ) as refused:
            await ann.submit(ONE)
        assert 0 < (refused.value.retry_after_s or 0) <= 100
        await bob.submit(ONE)


@live
async def test_watchers_have_a_number_of_seats(tmp_path: Path) -> None:
    config = config_of(tmp_path, limits(watchers=2, watchers_per_user=1))
    async with (
        running(config) as daemon,
        AsyncClient(daemon.address, user="ann") as ann,
        AsyncClient(daemon.address, user="bob") as bob,
    ):
        job = (await ann.submit(ONE)).job
        async with aclosing(ann.watch(after=0)) as first:  # type: ignore[type-var]
            await anext(first)
            with pytest.raises(
                ExhaustedError, match=r"1 watchers of ann .* 1: limits\.watchers_per_user\)"
            ):
                await anext(ann.watch(after=0))
            with pytest.raises(ExhaustedError, match=r"1 watchers of ann"):
                await anext(ann.logs(job, follow=True))
            for asked in (ann.watch(job="j999"), ann.logs("j999")):  # before anything is looked up
                with pytest.raises(ExhaustedError, match=r"1 watchers of ann"):
                    await anext(asked)
            async with aclosing(bob.watch(after=0)) as second:  # type: ignore[type-var]
                await anext(second)
                with pytest.raises(ExhaustedError, match=r"2 watchers .* 2: limits\.watchers\)"):
                    async with AsyncClient(daemon.address, user="eve") as eve:
                        await anext(eve.watch(after=0))
        async with asyncio.timeout(90):
            while (await ann.metrics())["watchers"]:
                await moment()
            async with aclosing(ann.watch(after=0)) as again:  # type: ignore[type-var]
                await anext(again)


@live
async def test_there_is_a_number_of_sites_that_may_be_connected(tmp_path: Path) -> None:
    config = config_of(tmp_path, limits(sites=1))
    async with running(config) as daemon, asyncio.TaskGroup() as group:
        first = FakeAgent(daemon.address)
        staying = group.create_task(first.stay())
        await first.until("wanted_end")
        second = FakeAgent(daemon.address, site="leiden")
        await second.connect()
        (rejection,) = second.heard_of("reject")
        assert rejection.reject.reason == "too many sessions (expected at most 1: limits.sites)"
        assert not rejection.reject.is_final
        staying.cancel()


@live
async def test_an_agent_that_floods_is_slowed_down_then_cut_and_others_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("koala.daemon.agents.streams.FLOOD_S", 2.0)
    monkeypatch.setattr("koala.daemon.agents.streams.BURST_S", 0.2)
    config = config_of(tmp_path, limits(reports_per_s=100))
    async with running(config) as daemon, asyncio.TaskGroup() as group:
        calm, wild = FakeAgent(daemon.address), FakeAgent(daemon.address, site="leiden")
        staying = group.create_task(calm.stay())
        async with AsyncClient(daemon.address) as client, asyncio.timeout(60):
            await calm.until("wanted_end")
            connecting = group.create_task(until_cut(wild))
            await wild.until("wanted_end")
            for number in range(20_000):
                wild.tell(site=link_pb2.SiteReport(idle=number % 8, processors=8))
            assert await client.wait((await client.submit(ONE)).job) == "Finished"
            await connecting
            (rejection,) = wild.heard_of("reject")
            assert rejection.reject.reason.startswith("a flood: more than 100 reports a second")
            assert "limits.reports_per_s" in rejection.reject.reason
            while (metrics := await client.metrics())["sites"]["connected"] == 2:
                await moment()
            assert metrics["floods"] == 1
            assert metrics["events_by_kind"]["SiteReported"] < 10_000
        staying.cancel()


async def until_cut(agent: FakeAgent) -> None:
    with suppress(grpc.aio.AioRpcError):  # what it still had to say finds no stream
        await agent.connect()


# --- lists ----------------------------------------------------------------------------------------


@live
async def test_a_list_comes_in_pages_and_is_whole(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as daemon, AsyncClient(daemon.address) as client:
        names = [(await client.submit(ONE)).job for _ in range(7)]
        await client.cancel(names[3])

        async def page(after: str, size: int, **more: Any) -> JobPage:
            request = pb.ListRequest(after=after, page=size, **more)
            return await client._daemon.record(JobPage, "List", request)

        first = await page("", 3)
        assert [job.job for job in first.jobs] == names[:3]
        assert first.next == names[2]
        second = await page(names[2], 3)
        assert [job.job for job in second.jobs] == names[3:6]
        last = await page(names[5], 3)
        assert ([job.job for job in last.jobs], last.next) == (names[6:], None)
        assert [j.job for j in (await page("j2", 9, phases=["Cancelled"])).jobs] == [names[3]]
        with pytest.raises(SpecError, match=r"after = 'x' \(expected a job's id"):
            await page("x", 3)
        with pytest.raises(SpecError, match="last = 3 with page = 2"):
            await page("", 2, last=3)
        assert [job.job for job in await client.list_jobs(last=2)] == names[-2:]
        assert [job.job for job in await client.list_jobs()] == names
        some = await client.list_jobs(jobs=[names[5], "j999", "x", names[2]])
        assert [job.job for job in some] == [names[2], names[5]]
