"""Quotas bound everything that users own: each refusal names the limit, its value and when to try
again, changes nothing, and ends with its cause."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from koala.client import AsyncClient, AsyncJobHandle, Submission
from koala.common.protocol.versions import PROTOCOL
from koala.common.runtime.token_bucket import RateLimits, TokenBucket
from koala.common.wire.status import PROTOCOL_KEY, RETRY_KEY
from koala.common.wire.v1 import koala_pb2 as pb
from koala.common.wire.v1 import link_pb2
from koala.common.wire.v1.koala_pb2_grpc import KoalaStub
from koala.core.model.job import Delayed, Job
from koala.core.model.values import JobId
from koala.daemon.config import LimitsTable
from koala.daemon.quotas import (
    CALLS_BYTES_MAX,
    MEASURED_AT_ONCE,
    ConcurrencyQuota,
    FairQueue,
    Quotas,
)
from koala.daemon.storage.records import Notice
from koala.errors import ExhaustedError, KoalaError, SpecError, UnknownJobError
from koala.job_descriptions.job_reader import description_bytes
from koala.views.records.jobs import JobPage
from tests.daemon.fake_agent import FakeAgent
from tests.daemon.running import FAST, config_of, running
from tests.harness.builders import a_spec
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


def test_seats_are_counted_for_all_and_for_each_user() -> None:
    seats = ConcurrencyQuota("watchers", most=3, most_of_user=2, keys=("limits.a", "limits.b"))
    with seats.slot("ann"), seats.slot("ann"):
        with (
            pytest.raises(
                ExhaustedError, match=r"2 watchers of ann are here already: .* 2 \(limits\.b"
            ),
            seats.slot("ann"),
        ):
            pass
        with (
            seats.slot("bob"),
            pytest.raises(ExhaustedError, match=r"allowed are 3 \(limits\.a\)"),
            seats.slot("eve"),
        ):
            pass
        assert seats.taken == 2
    with seats.slot("ann"):
        assert seats.taken == 1


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
            ExhaustedError, match=r"5 calls of ann wait .* 5 \(limits\.calls_per_user"
        ):
            await call("ann", 5)
        opened.set()
    assert order == ["ann0", "ann1", "bob0", "ann2", "ann3", "ann4"]
    await call("ann", 6)  # nothing is left of the flood


async def test_what_waits_of_one_user_says_so_much_and_no_more() -> None:
    queue = FairQueue(most=100, at_once=1)
    part = CALLS_BYTES_MAX // 4

    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        await stack.enter_async_context(queue.slot("ann", part))

        async def wait() -> None:
            async with queue.slot("ann", part):
                pass

        for _ in range(3):
            group.create_task(wait())
        await asyncio.sleep(0)
        with pytest.raises(ExhaustedError, match="of ann that are not answered would have 6400"):
            async with queue.slot("ann", 1):
                pass
        async with queue.slot("bob", part):
            pass
        await stack.aclose()
    async with queue.slot("ann", 4 * part):
        pass


def test_an_end_makes_room_once() -> None:
    quotas = Quotas(LimitsTable(jobs=2), ())
    for name in ("j1", "j2"):
        quotas.require_job_quota("", 100)
        quotas.accepted(JobId(name), "", 100)
    with pytest.raises(
        ExhaustedError, match=r"2 jobs are not over yet: allowed are 2 \(limits\.jobs\)"
    ):
        quotas.require_job_quota("", 100)
    told = [Notice(number=n, at=1.0, job="j1", phase="Failed") for n in (1, 2)]
    quotas.publish([*told, Notice(number=3, at=1.0, job="j2", phase="Running")])
    quotas.require_job_quota("", 100)
    quotas.accepted(JobId("j3"), "", 100)
    with pytest.raises(ExhaustedError) as full:
        quotas.require_job_quota("", 100)
    assert full.value.retry_after_s == 10.0


def test_the_jobs_found_at_a_start_count_for_their_owners() -> None:
    found = [
        Job(
            id=JobId(f"j{n}"),
            spec=a_spec(owner=owner),
            submitted_at=1.0,
            phase=Delayed(),
            claim_fraction=0.75,
        )
        for n, owner in enumerate(("ann", "ann", "bob"))
    ]
    quotas = Quotas(LimitsTable(jobs=4, jobs_per_user=2), found)
    with pytest.raises(ExhaustedError, match=r"2 jobs of ann .*limits\.jobs_per_user"):
        quotas.require_job_quota("ann", 100)
    quotas.require_job_quota("bob", 100)
    quotas.accepted(JobId("j3"), "bob", 100)
    with pytest.raises(ExhaustedError, match=r"4 jobs are not over yet"):
        quotas.require_job_quota("eve", 100)
    quotas.publish([Notice(number=1, at=1.0, job="j0", phase="Finished")])
    quotas.require_job_quota("ann", 100)


def quotas_after_a_start(jobs: int, mb: int) -> Quotas:
    """Quotas of a daemon that has found this many jobs, each of a fifth of a megabyte."""
    specs = [a_spec(name="n" * 200_000) for _ in range(jobs)]
    assert all(200_000 < description_bytes(spec) < 205_000 for spec in specs)
    found = [
        Job(id=JobId(f"j{n}"), spec=spec, submitted_at=1.0, phase=Delayed(), claim_fraction=0.75)
        for n, spec in enumerate(specs)
    ]
    return Quotas(LimitsTable(descriptions_mb=mb), found)


def test_the_first_check_after_a_start_counts_the_descriptions_of_all_jobs() -> None:
    quotas_after_a_start(5, mb=2).require_job_quota("", 100)
    with pytest.raises(ExhaustedError, match=r"would have 1\.0 MB.*limits\.descriptions_mb\)"):
        quotas_after_a_start(5, mb=1).require_job_quota("", 100)


async def test_descriptions_of_earlier_jobs_are_measured_between_other_tasks() -> None:
    quotas = quotas_after_a_start(2 * MEASURED_AT_ONCE, mb=1)
    quotas.publish([Notice(number=1, at=1.0, job="j0", phase="Cancelled")])
    async with asyncio.TaskGroup() as group:
        measuring = group.create_task(quotas.measure())
        await asyncio.sleep(0)
        assert not measuring.done()
        quotas.publish(
            [
                Notice(number=1 + n, at=1.0, job=f"j{n}", phase="Failed")
                for n in range(1, 2 * MEASURED_AT_ONCE)
            ]
        )
    quotas.require_job_quota("", 100)  # the ends have given back what was measured, and no more
    quotas.accepted(JobId("j999"), "", 900_000)
    with pytest.raises(ExhaustedError):
        quotas.require_job_quota("", 150_000)


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
            "2 jobs of ann are not over yet: allowed are 2 (limits.jobs_per_user);"
            " try again in 10 s"
        )
        assert results[1].retry_after_s == 10.0
        assert isinstance(results[2], SpecError)
        assert (await ann.submit(ONE, key="first")).job == first.job  # no other job
        await bob.submit(ONE)
        with pytest.raises(ExhaustedError, match=r"3 jobs are not over .* 3 \(limits\.jobs\)"):
            await bob.submit(ONE)
        with pytest.raises(ExhaustedError):
            await bob.submit(ONE, dry_run=True)
        await ann.cancel(first.job)
        assert (await bob.submit(ONE)).job == "j4"  # refusals take no number
        assert len(await ann.list_jobs()) == 4
    async with running(config) as daemon, AsyncClient(daemon.address, user="bob") as bob:
        with pytest.raises(ExhaustedError, match=r"3 jobs are not over"):  # as before the restart
            await bob.submit(ONE)


@live
async def test_large_descriptions_are_bounded_together(tmp_path: Path) -> None:
    config = config_of(tmp_path, limits(descriptions_mb=3, descriptions_mb_per_user=1))
    async with running(config) as daemon, AsyncClient(daemon.address, user="ann") as ann:
        job = (await ann.submit(LARGE)).job
        with pytest.raises(
            ExhaustedError, match=r"1\.8 MB: allowed are 1 \(limits\.descriptions_mb_per_user\)"
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
    assert "allowed are 1 (limits.jobs); try again in 10 s" in (refused.value.details() or "")


@live
async def test_who_is_patient_is_accepted_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("koala.daemon.quotas.QUEUE_RETRY_S", 0.1)
    async with (
        running(config_of(tmp_path, limits(jobs=2))) as daemon,
        AsyncClient(daemon.address) as client,
        asyncio.TaskGroup() as group,
        asyncio.timeout(90),
    ):
        jobs = [(await client.submit(ONE)).job for _ in range(2)]
        waiting = group.create_task(
            client.submit_many([Submission(rsl=ONE, key="a"), "&(cuont=4)"], patience_s=30.0)
        )
        with pytest.raises(ExhaustedError):
            await client.submit(ONE, patience_s=0.05)
        assert not waiting.done()
        await client.cancel(jobs[0])
        accepted, wrong = await waiting
        assert isinstance(accepted, AsyncJobHandle)
        assert isinstance(wrong, SpecError)


@live
async def test_submissions_have_a_rate_for_each_user(tmp_path: Path) -> None:
    async with (
        running(config_of(tmp_path, limits(submissions_per_s=0.01))) as daemon,
        AsyncClient(daemon.address, user="ann") as ann,
        AsyncClient(daemon.address, user="bob") as bob,
    ):
        await ann.submit(ONE)
        with pytest.raises(
            ExhaustedError, match=r"0\.01 a second \(limits\.submissions_per_s\); try again in"
        ) as refused:
            await ann.submit(ONE)
        assert 0 < (refused.value.retry_after_s or 0) <= 100
        await bob.submit(ONE)


@live
async def test_a_job_that_does_not_want_to_wait_outside_is_told_when_to_come_again(
    tmp_path: Path,
) -> None:
    config = config_of(tmp_path, parameters=f"{FAST}queue_jobs_max = 1\n")
    async with running(config) as daemon, AsyncClient(daemon.address) as client:
        await client.submit(ONE)
        await client.submit(ONE)
        with pytest.raises(
            ExhaustedError,
            match=r"full: they hold 1 jobs: allowed are 1 \(parameters\.queue_jobs_max",
        ) as refused:
            await client.submit(ONE, no_wait=True)
        assert refused.value.retry_after_s == 10.0


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
                ExhaustedError, match=r"1 watchers of ann .* 1 \(limits\.watchers_per_user\)"
            ):
                await anext(ann.watch(after=0))
            with pytest.raises(ExhaustedError, match=r"1 watchers of ann"):
                await anext(ann.logs(job, follow=True))
            for asked in (ann.watch(job="j999"), ann.logs("j999")):  # before anything is looked up
                with pytest.raises(ExhaustedError, match=r"1 watchers of ann"):
                    await anext(asked)
            async with aclosing(bob.watch(after=0)) as second:  # type: ignore[type-var]
                await anext(second)
                with pytest.raises(ExhaustedError, match=r"2 watchers .* 2 \(limits\.watchers\)"):
                    async with AsyncClient(daemon.address, user="eve") as eve:
                        await anext(eve.watch(after=0))
        async with asyncio.timeout(90):
            while (await ann.metrics())["watchers"]:
                await moment()
            async with aclosing(ann.watch(after=0)) as again:  # type: ignore[type-var]
                await anext(again)


@live
async def test_who_watches_or_reads_logs_takes_a_turn_for_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(*_: Any) -> None:
        asked.set()
        await go_on.wait()
        raise UnknownJobError("no job")

    monkeypatch.setattr("koala.daemon.clients.service.Service._query_job", slowly)
    config = config_of(tmp_path, limits(calls_per_user=1))
    async with running(config) as daemon, AsyncClient(daemon.address, user="ann") as ann:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(fails_of(ann.watch(job="j1")))
            await asked.wait()
            for again in (ann.watch(job="j1"), ann.logs("j1")):
                refusal = await fails_of(again)
                assert isinstance(refusal, ExhaustedError)
                assert "1 (limits.calls_per_user)" in str(refusal)
            go_on.set()
        assert isinstance(first.result(), UnknownJobError)


async def fails_of(stream: AsyncIterator[Any]) -> Exception:
    with pytest.raises(KoalaError) as raised:
        await anext(stream)
    return raised.value


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
        assert rejection.reject.reason == "1 sessions are open: allowed are no more (limits.sites)"
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
            assert "(limits.reports_per_s)" in rejection.reject.reason
            while (metrics := await client.metrics())["sites"]["connected"] == 2:
                await moment()
            assert metrics["floods"] == 1
            assert metrics["events_by_kind"]["SiteReported"] < 10_000
        staying.cancel()


@live
async def test_an_agent_that_answers_many_orders_is_no_flood(tmp_path: Path) -> None:
    """Several reports for each of a hundred claims, where ten are a flood."""
    config = config_of(tmp_path, limits(reports_per_s=1))
    async with running(config) as daemon, asyncio.TaskGroup() as group:
        agent = FakeAgent(daemon.address)
        staying = group.create_task(agent.stay())
        async with AsyncClient(daemon.address) as client, asyncio.timeout(60):
            await agent.until("wanted_end")
            results = await client.submit_many([ONE] * 100)
            jobs = [result.job for result in results if isinstance(result, AsyncJobHandle)]
            assert set((await client.wait_all(jobs)).values()) == {"Finished"}
            metrics = await client.metrics()
            assert metrics["floods"] == 0
            assert metrics["events_by_kind"]["ClaimGone"] == len(jobs)
        assert not agent.heard_of("reject")
        staying.cancel()


@live
async def test_log_parts_that_nobody_asked_for_are_a_flood_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("koala.daemon.agents.streams.FLOOD_S", 0.5)
    monkeypatch.setattr("koala.daemon.agents.streams.BURST_S", 0.2)
    config = config_of(tmp_path, limits(reports_per_s=100))
    async with running(config) as daemon, asyncio.timeout(60), asyncio.TaskGroup() as group:
        wild = FakeAgent(daemon.address)
        connecting = group.create_task(until_cut(wild))
        await wild.until("wanted_end")
        for number in range(20_000):
            wild.tell(log=link_pb2.LogChunk(request=number, data=b"x"))
        await connecting
        (rejection,) = wild.heard_of("reject")
        assert rejection.reject.reason.startswith("a flood: more than 100 reports a second")


FOLLOWED = 16
"""The sources of `follow`: both streams of eight processes."""


@asynccontextmanager
async def followed(agent: FakeAgent) -> AsyncIterator[AsyncClient]:
    """A job's logs are followed while the block runs."""
    agent.ends_at_once = False
    async with AsyncClient(agent.address, user="ann") as client, asyncio.TaskGroup() as group:
        staying = group.create_task(agent.stay())
        job = (await client.submit("&(executable=/bin/true)(count=8)")).job
        await agent.until("release")

        async def follow() -> None:
            async for _ in client.logs(job, follow=True):
                pass

        following = group.create_task(follow())
        yield client
        following.cancel()
        staying.cancel()


@live
async def test_the_logs_that_are_asked_for_are_no_flood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("koala.daemon.agents.streams.FLOOD_S", 0.5)
    monkeypatch.setattr("koala.daemon.agents.streams.BURST_S", 0.2)
    config = config_of(tmp_path, limits(reports_per_s=20))
    async with running(config) as daemon:
        agent = FakeAgent(daemon.address)
        async with followed(agent) as client:
            await agent.until("log_request", 10 * FOLLOWED)
            assert (await client.metrics())["floods"] == 0
            assert agent.heard_of("reject") == []


class DrippingAgent(FakeAgent):
    """Whenever it is asked, its programs have written another byte."""

    def hear(self, message: link_pb2.ToAgent) -> None:
        """See FakeAgent."""
        if message.HasField("log_request"):
            name = f"{message.log_request.stream}.{message.log_request.process}"
            self.logs[name] = self.logs.get(name, b"") + b"x"
        super().hear(message)


@live
@pytest.mark.parametrize("kind", [FakeAgent, DrippingAgent])
async def test_many_logs_are_looked_at_less_often_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[FakeAgent]
) -> None:
    monkeypatch.setattr("koala.daemon.clients.logs.POLLS_PER_S", 20.0)
    async with running(config_of(tmp_path)) as daemon:
        agent = kind(daemon.address)
        async with followed(agent):
            begun_at = asyncio.get_running_loop().time()
            await agent.until("log_request", 3 * FOLLOWED)
            assert asyncio.get_running_loop().time() - begun_at > 1.5  # at 20 a second: 2.4


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
        with pytest.raises(SpecError, match="after = 'x': allowed is a job's id"):
            await page("x", 3)
        with pytest.raises(SpecError, match="last = 3 with page = 2"):
            await page("", 2, last=3)
        assert [job.job for job in await client.list_jobs(last=2)] == names[-2:]
        assert [job.job for job in await client.list_jobs()] == names
        some = await client.list_jobs(jobs=[names[5], "j999", "x", names[2]])
        assert [job.job for job in some] == [names[2], names[5]]
