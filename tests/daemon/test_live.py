"""The daemon over real gRPC, with an agent of the tests: what clients see, and what survives."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from pathlib import Path

import grpc
import msgspec
import pytest

from koala.client import AsyncClient, Submission
from koala.client.records import LogPart, Notice
from koala.core.eviction import alone
from koala.core.model.charges import Charge
from koala.core.model.job import Job, Placing
from koala.core.model.values import JobId, SiteName, claim_id
from koala.daemon.clients.logs import Logs, LogsWanted
from koala.daemon.files.spool import AttemptComponent, Spool
from koala.errors import (
    JournalError,
    KoalaError,
    RejectedError,
    SpecError,
    UnknownJobError,
    UnknownSiteError,
    UnreachableError,
)
from koala.protocol.messages import LogChunk, LogRequest, ToAgent
from koala.wire.v1 import koala_pb2, koala_pb2_grpc, link_pb2
from tests.daemon.fake_agent import FakeAgent
from tests.daemon.running import config_of, running
from tests.files.stage import comes_true
from tests.harness.builders import a_spec
from tests.harness.moments import moment
from tests.harness.ports import free_port

pytestmark = pytest.mark.live

ONE = "&(executable=/bin/true)(count=4)"
TWO = """+(&(executable=/bin/true)(count=4)(resourceManagerContact=delft))
(&(executable=/bin/true)(count=2)(resourceManagerContact=leiden))"""


async def test_a_job_of_two_sites_runs_to_its_end(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as daemon, asyncio.TaskGroup() as group:
        agents = [FakeAgent(daemon.address, site=site) for site in ("delft", "leiden")]
        staying = [group.create_task(agent.stay()) for agent in agents]
        async with AsyncClient(daemon.address) as client, asyncio.timeout(90):
            for agent in agents:
                await agent.until("wanted_end")
            submitted = await client.submit(TWO)
            assert await client.wait(submitted.job) == "Finished"
            shown = await client.show(submitted.job)
            assert [part["site"] for part in shown["parts"]] == ["delft", "leiden"]
            assert shown["timeline"]["start_skew_s"] == 0.0
            assert [charge["batch_job"] for charge in shown["charges"]] == ["1001", "1001"]
            report = await client.report("site", since=shown["submitted_at"])
            assert [row["site"] for row in report["rows"]] == ["delft", "leiden"]
            assert report["total"]["jobs_finished"] == 1
            assert (await client.report(until=shown["submitted_at"]))["rows"] == []
            with pytest.raises(SpecError, match="by = 'week': allowed are user, site"):
                await client.report("week")
            with pytest.raises(UnknownSiteError, match="no site 'nowhere': known are "):
                await client.report(site="nowhere")
            assert (await client.report(user="nobody"))["rows"] == []
            with pytest.raises(SpecError, match="the first must be before the second"):
                await client.report(since=2.0, until=1.0)
            for agent in agents:
                await agent.until("acknowledge")
            (hold,) = agents[0].heard_of("hold")
            assert hold.hold.processors == 4
            assert hold.hold.program.executable == "/bin/true"
            (arm,) = agents[1].heard_of("arm")[-1:]
            assert [peer.site for peer in arm.arm.peers] == ["delft", "leiden"]
        for task in staying:
            task.cancel()


class Slow(FakeAgent):
    """Answers beats late as long as it is slow, but before the next beat."""

    is_slow = True

    def _take(self, message: link_pb2.ToAgent) -> None:
        if message.WhichOneof("kind") == "beat" and self.is_slow:
            asyncio.get_running_loop().call_later(0.15, super()._take, message)
        else:
            super()._take(message)


async def test_a_site_that_became_quick_is_known_as_quick_before_it_reports(tmp_path: Path) -> None:
    """An idle site reports nothing for as long as it is idle, and its first job needs a lead."""
    agent = Slow("")
    async with running(config_of(tmp_path)) as daemon, asyncio.TaskGroup() as group:
        agent.address = daemon.address
        staying = group.create_task(agent.stay())
        async with AsyncClient(daemon.address) as client, asyncio.timeout(90):
            await agent.until("beat", 2)
            agent.tell(site=link_pb2.SiteReport(idle=8, processors=8))
            for low_s, high_s in ((0.14, 90.0), (0.0, 0.07)):
                while not any(low_s < (s["rtt_s"] or 0) < high_s for s in await client.sites()):
                    await moment()
                agent.is_slow = False
        staying.cancel()


async def test_a_job_goes_on_over_a_restart_in_its_middle(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    agent = FakeAgent("", ends_at_once=False)
    async with running(config) as daemon, asyncio.TaskGroup() as group:
        agent.address = daemon.address
        staying = group.create_task(agent.stay())
        async with AsyncClient(daemon.address) as client:
            job = (await client.submit(ONE, key="once")).job
            await agent.until("release")
        staying.cancel()
    agent.heard.clear()
    async with running(config) as daemon, asyncio.TaskGroup() as group:
        agent.address = daemon.address
        staying = group.create_task(agent.stay())
        await agent.until("wanted_end")
        kinds = [message.WhichOneof("kind") for message in agent.heard]
        order = [kind for kind in kinds if kind != "beat"]
        assert order[:4] == ["welcome", "hold", "release", "wanted_end"]
        assert agent.heard_of("hold")[0].hold.is_granted
        async with AsyncClient(daemon.address) as client, asyncio.timeout(90):
            again = await client.submit(ONE, key="once")
            assert (again.job, again.is_known) == (job, True)
            (claim,) = agent.claims
            agent.end(claim)
            assert await client.wait(job) == "Finished"
            assert (await client.hello())["epoch"] == 2
            await agent.until("acknowledge")
        staying.cancel()


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


async def test_a_watch_goes_on_by_itself_when_the_daemon_comes_back(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    config = config_of(tmp_path)
    config = type(config)(**{**{f: getattr(config, f) for f in config.__struct_fields__},
                             "listen": address})  # fmt: skip
    async with AsyncClient(address) as client, asyncio.TaskGroup() as group, asyncio.timeout(90):
        async with running(config):
            await client.submit(ONE)
            seen = group.create_task(take(client, after=0, count=2))
            job = (await client.submit(ONE)).job
            assert len(await seen) == 2
            waiting = group.create_task(client.wait(job))
            async with aclosing(client.watch(after=0)) as watch:  # type: ignore[type-var]
                assert (await anext(watch))["number"] == 1
                while (await client.metrics())["watchers"] < 2:
                    pass
        async with running(config), AsyncClient(address) as other:
            await other.cancel(job)
            assert await waiting == "Cancelled"


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
            pass
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


async def test_a_watch_of_a_job_that_ended_while_the_daemon_was_away_ends(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    config = msgspec.structs.replace(config_of(tmp_path), listen=address)
    async with AsyncClient(address) as client, asyncio.TaskGroup() as group, asyncio.timeout(90):
        async with running(config):
            job = (await client.submit(ONE)).job
            new = group.create_task(whole(client, after=-1, job=job))
            every = group.create_task(whole(client, after=0, job=job))
            while (await client.metrics())["watchers"] < 2:
                pass
        async with running(config), AsyncClient(address) as other:
            await other.cancel(job)
            assert [notice["phase"] for notice in await new] == ["Cancelled"]
            assert [notice["phase"] for notice in await every] == ["Placing", "Cancelled"]
        async with running(config):
            assert await whole(client, after=0, job=job) == await every


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


async def test_errors_come_back_as_they_were_raised(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as daemon, AsyncClient(daemon.address) as client:
        with pytest.raises(SpecError, match="unknown attribute 'cuont'") as wrong:
            await client.submit("&(executable=/bin/true)\n(cuont=4)")
        assert wrong.value.position is not None
        assert (wrong.value.position.line, wrong.value.position.column) == (2, 2)
        with pytest.raises(UnknownJobError, match="j7"):
            await client.show("j7")
        with pytest.raises(UnknownSiteError, match=r"nowhere.*known are none"):
            await client.drain("nowhere")
        with pytest.raises(SpecError, match="drain, resume, lost"):
            await client.change_site("delft", "burn")
        with pytest.raises(UnknownJobError, match="j7"):
            await anext(aiter(client.logs("j7")))
        await client.submit(ONE, key="k")
        with pytest.raises(RejectedError, match="another text"):
            await client.submit("&(executable=/bin/false)", key="k")
        (cancelled, unknown) = await client.cancel(["j1", "j2"])
        assert cancelled.document == {"job": "j1", "phase": "Cancelled", "error": ""}
        assert unknown["error"] == "no job 'j2'"


async def test_each_submission_of_many_has_its_own_result(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as daemon, AsyncClient(daemon.address) as client:
        results = await client.submit_many([ONE, "&(", Submission(rsl=ONE, key="a"),
                                            Submission(rsl=ONE, key="a")])  # fmt: skip
        jobs = [result if isinstance(result, SpecError) else result.job for result in results]  # type: ignore[union-attr]
        assert jobs[0] == "j1"
        assert isinstance(jobs[1], SpecError)
        assert jobs[2:] == ["j2", "j2"]
        assert [job["job"] for job in await client.list_jobs()] == ["j1", "j2"]
        assert [job["job"] for job in await client.list_jobs(last=1)] == ["j2"]
        assert await client.list_jobs(phases=["Running"]) == []


async def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as daemon, AsyncClient(daemon.address) as client:
        assert (await client.submit(ONE, dry_run=True)).job == ""
        with pytest.raises(SpecError):
            await client.submit("&(count=1)", dry_run=True)
        assert await client.list_jobs() == []


async def test_a_full_queue_delays_or_refuses_as_the_client_wants(tmp_path: Path) -> None:
    config = config_of(tmp_path, parameters="queue_jobs_max = 1")
    async with running(config) as daemon, AsyncClient(daemon.address) as client:
        await client.submit(ONE)
        with pytest.raises(RejectedError, match="full"):
            await client.submit(ONE, no_wait=True)
        delayed = await client.submit(ONE)
        assert (await client.show(delayed.job))["phase"] == "Delayed"


async def test_a_job_waits_for_others(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as daemon, AsyncClient(daemon.address) as client:
        first = (await client.submit(ONE)).job
        second = (await client.submit(f"{ONE}(after={first})", after=[first], key="k")).job
        assert (await client.show(second))["phase"] == "Waiting"
        assert (await client.submit(f"{ONE}(after={first})", after=[first], key="k")).is_known
        for wrong, error in (("j99", "no such job"), ("x", "a job's id"), (f"{first}:any", "end")):
            with pytest.raises((RejectedError, SpecError), match=error):
                await client.submit(f"{ONE}(after={first})", after=[wrong])
        await client.cancel([first])
        assert "because j1 was cancelled" in str(await client.why(second))
        with pytest.raises(RejectedError, match="that job is Cancelled"):
            await client.submit(ONE, after=[second])
        anyhow = (await client.submit(ONE, after=[f"{second}:any"])).job
        assert (await client.show(anyhow))["phase"] == "Placing"


async def test_a_job_is_submitted_at_a_local_queue(tmp_path: Path) -> None:
    config = config_of(tmp_path, '[policies]\nqueueing = "LP-GF"')
    async with running(config) as daemon, AsyncClient(daemon.address) as client:
        local = await client.submit(ONE, queue="delft", key="k")
        assert (await client.submit(ONE, queue="delft", key="k")).is_known
        with pytest.raises(RejectedError, match="another text"):
            await client.submit(ONE, queue="leiden", key="k")
        for wrong in ("*", "a b", "-"):
            with pytest.raises(SpecError, match="queue"):
                await client.submit(ONE, queue=wrong)
        said = await client.why(local.job)
        assert "number 1 of 1 in the queue of delft (LP-GF)" in str(said)
        other = await client.submit(ONE)
        assert "number 1 of 1 in the global queue" in str(await client.why(other.job))


async def test_components_that_never_fit_together_are_refused_however_they_are_submitted(
    tmp_path: Path,
) -> None:
    wide = "+" + "(&(executable=/bin/true)(count=4))" * 3
    async with running(config_of(tmp_path)) as daemon, asyncio.TaskGroup() as group:
        agent = FakeAgent(daemon.address)
        staying = group.create_task(agent.stay())
        await agent.until("wanted_end")
        async with AsyncClient(daemon.address) as client:
            for is_dry in (True, False):
                with pytest.raises(RejectedError, match="do not fit into delft, which has 8"):
                    await client.submit(wide, dry_run=is_dry)
            refused, taken = await client.submit_many([wide, ONE])
            assert isinstance(refused, RejectedError)
            assert not isinstance(taken, KoalaError)
            assert taken.warnings == ()
            await client.change_site("delft", "drain")
            warned = await client.submit(ONE, dry_run=True)
            assert "sites that cannot be used now: delft (drained, 8" in str(warned.warnings)
            assert [job["job"] for job in await client.list_jobs()] == [taken.job]
        staying.cancel()


async def test_a_job_that_no_site_can_take_is_refused_at_once(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as daemon, asyncio.TaskGroup() as group:
        agent = FakeAgent(daemon.address)
        staying = group.create_task(agent.stay())
        await agent.until("wanted_end")
        async with AsyncClient(daemon.address) as client:
            with pytest.raises(
                RejectedError, match="wants 9 processors: the largest site is delft"
            ):
                await client.submit("&(executable=/bin/true)(count=9)")
            with pytest.raises(RejectedError, match="'utrecht': known sites are delft"):
                await client.submit(
                    "&(executable=/bin/true)(count=1)(resourceManagerContact=utrecht)"
                )
            with pytest.raises(RejectedError, match="'big' is not in the catalogue"):
                await client.submit("&(executable=/bin/true)(inputFile=big)")
        staying.cancel()


async def test_a_client_of_another_protocol_is_told_which_one_is_spoken(tmp_path: Path) -> None:
    async with (
        running(config_of(tmp_path)) as daemon,
        grpc.aio.insecure_channel(daemon.address) as channel,
    ):
        stub = koala_pb2_grpc.KoalaStub(channel)
        for metadata, said in (
            ((("koala-protocol", "2"),), "protocol 2"),
            ((), "no protocol version"),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.Hello(koala_pb2.HelloRequest(), metadata=metadata)
            assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
            assert said in (refused.value.details() or "")
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.Watch(koala_pb2.WatchRequest(), metadata=metadata).read()
            assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION


async def test_garbage_on_the_port_disturbs_nobody(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as daemon, AsyncClient(daemon.address) as client:
        host, _, port = daemon.address.rpartition(":")
        for garbage in (b"\0" * 4096, b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 64):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(garbage)
            async with asyncio.timeout(90):
                with suppress(ConnectionError):
                    await reader.read()
            writer.close()
        async with grpc.aio.insecure_channel(daemon.address) as raw:
            call: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = raw.stream_stream(
                "/koala.wire.v1.AgentLink/Connect"
            )
            (said,) = [answer async for answer in call(iter([b"\xff\xff\xff\xff"]))]
            assert "what came is no message" in link_pb2.ToAgent.FromString(said).reject.reason
        assert (await client.hello())["protocol"] == 1


async def test_nobody_there_is_told_soon() -> None:
    with socket.socket() as bound:  # and does not listen
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        async with AsyncClient(address) as client, asyncio.timeout(60):
            with pytest.raises(UnreachableError, match=address):
                await client.sites()
            with pytest.raises(UnreachableError, match=address):
                await anext(aiter(client.watch()))


async def test_a_second_daemon_on_the_same_state_is_refused(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    async with running(config) as daemon, AsyncClient(daemon.address) as client:
        with pytest.raises(ExceptionGroup) as refused:
            async with running(config):
                pass
        (error,) = refused.value.exceptions
        assert isinstance(error, JournalError)
        assert "another daemon runs" in str(error)
        assert (await client.hello())["epoch"] == 1
        assert (config.state_dir / "endpoint").read_text().strip() == daemon.address


async def test_the_newest_session_of_a_site_wins(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as daemon, asyncio.TaskGroup() as group:
        old, new = FakeAgent(daemon.address), FakeAgent(daemon.address, session="s2")
        group.create_task(old.connect())
        await old.until("wanted_end")
        staying = group.create_task(new.connect())
        await new.until("wanted_end")
        (rejected,) = await old.until("reject")
        assert "newer session" in rejected.reject.reason
        async with AsyncClient(daemon.address) as client:
            (site,) = await client.sites()
            assert site["state"] == "usable"
        staying.cancel()


@pytest.mark.parametrize(
    ("agent", "more", "said", "is_final"),
    [
        (FakeAgent("", protocol=7), "", "protocol 7 (version test), this daemon 1", True),
        (FakeAgent("", protocol=7, protocol_min=2), "", "protocol 2 to 7 (version", True),
        (FakeAgent("", site="leiden"), "[sites.delft]\n", "unknown site 'leiden'", True),
    ],
)
async def test_an_agent_that_cannot_be_served_is_told_why(
    tmp_path: Path, agent: FakeAgent, more: str, said: str, is_final: bool
) -> None:
    async with running(config_of(tmp_path, more)) as daemon, asyncio.timeout(90):
        agent.address = daemon.address
        agent.changed, agent.outbox = asyncio.Event(), asyncio.Queue()
        await agent.connect()
        (rejected,) = agent.heard_of("reject")
        assert said in rejected.reject.reason
        assert rejected.reject.is_final is is_final


async def test_the_newest_protocol_that_both_speak_is_used(tmp_path: Path) -> None:
    """An agent that was upgraded first speaks as its daemon does."""
    async with running(config_of(tmp_path)) as daemon, asyncio.TaskGroup() as group:
        agent = FakeAgent(daemon.address, protocol=7, protocol_min=1)
        staying = group.create_task(agent.connect())
        (welcome,) = await agent.until("welcome")
        assert welcome.welcome.protocol == 1
        staying.cancel()


async def test_logs_come_from_the_agent_while_the_program_runs(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as daemon, asyncio.TaskGroup() as group:
        agent = FakeAgent(daemon.address, ends_at_once=False)
        agent.logs = {"stdout.0": b"zero\n", "stdout.1": b"one\n" * 100_000, "stderr.1": b"oh\n"}
        staying = group.create_task(agent.stay())
        async with AsyncClient(daemon.address) as client, asyncio.timeout(90):
            job = (await client.submit("&(executable=/bin/true)(count=2)(label=left)")).job
            await agent.until("release")
            found: dict[tuple[int, str], bytes] = {}
            async for part in client.logs(job):
                assert part.label == "left"
                place = (part.process, part.stream)
                found[place] = found.get(place, b"") + part.data
            assert found == {
                (0, "stdout"): b"zero\n",
                (1, "stdout"): b"one\n" * 100_000,
                (1, "stderr"): b"oh\n",
            }
            with pytest.raises(SpecError, match="has 0 to 1"):
                await anext(aiter(client.logs(job, process=2)))
            with pytest.raises(SpecError, match=r"'right'.*has left"):
                await anext(aiter(client.logs(job, component="right")))
            following = client.logs(job, stream="stderr", process=1, follow=True)
            assert (await anext(aiter(following))).data == b"oh\n"
            agent.logs["stderr.1"] += b"more\n"
            assert (await anext(aiter(following))).data == b"more\n"
        staying.cancel()


async def test_logs_are_followed_over_a_restart_without_gap_or_double(tmp_path: Path) -> None:
    """Follow two sources; one has written nothing before the first daemon ends."""
    config = msgspec.structs.replace(config_of(tmp_path), listen=f"127.0.0.1:{free_port()}")
    agent = FakeAgent(config.listen, ends_at_once=False)
    agent.logs = {"stdout.0": b"first\n"}
    found = dict.fromkeys(("stdout", "stderr"), b"")
    changed = asyncio.Event()

    async def follow(client: AsyncClient, job: str) -> None:
        async for part in client.logs(job, follow=True):
            assert part.offset == len(found[part.stream])
            found[part.stream] += part.data
            changed.set()

    async def until(said: dict[str, bytes]) -> None:
        while found != said:
            changed.clear()
            await changed.wait()

    async with (
        AsyncClient(config.listen) as client,
        asyncio.TaskGroup() as group,
        asyncio.timeout(90),
    ):
        staying = group.create_task(agent.stay())
        async with running(config):
            job = (await client.submit("&(executable=/bin/true)")).job
            following = group.create_task(follow(client, job))
            await agent.until("release")
            await until({"stdout": b"first\n", "stderr": b""})
        agent.logs = {"stdout.0": b"first\nlast\n", "stderr.0": b"oh\n"}
        async with running(config):
            await until({"stdout": b"first\nlast\n", "stderr": b"oh\n"})
            (claim,) = agent.claims
            agent.logs = {}  # no more will come
            agent.end(claim)
            await following
            staying.cancel()
    assert found == {"stdout": b"first\nlast\n", "stderr": b"oh\n"}


def test_where_logs_are_to_go_on_has_bounds() -> None:
    far = koala_pb2.LogPlace(offset=2**62 + 1)
    with pytest.raises(SpecError, match=r"offset = .*allowed is at most"):
        LogsWanted.of(koala_pb2.LogsRequest(after=[far]), "ann")
    with pytest.raises(SpecError, match="513 places: allowed are 512"):
        LogsWanted.of(koala_pb2.LogsRequest(after=[koala_pb2.LogPlace()] * 513), "ann")


async def test_logs_that_are_not_there_yet_are_followed_all_the_same(tmp_path: Path) -> None:
    """An agent that has not begun with the claim knows of no logs; that is not their end."""
    async with running(config_of(tmp_path)) as daemon, asyncio.TaskGroup() as group:
        agent = FakeAgent(daemon.address, ends_at_once=False)
        staying = group.create_task(agent.stay())
        async with AsyncClient(daemon.address) as client, asyncio.timeout(90):
            job = (await client.submit("&(executable=/bin/true)")).job
            await agent.until("release")
            async with asyncio.TaskGroup() as reading:
                following = client.logs(job, stream="stdout", follow=True)
                first = reading.create_task(_first(following))
                await agent.until("log_request")
                agent.logs["stdout.0"] = b"late\n"
            assert first.result().data == b"late\n"
        staying.cancel()


def spooled_logs(
    folder: Path,
    texts: dict[tuple[int, str], bytes],
    *,
    attempts: int = 1,
    send: Callable[[SiteName, ToAgent], None] = lambda _site, _message: None,
    is_there: bool = False,
) -> tuple[Job, Logs]:
    """A job with two processes, and the daemon's logs of it: by attempt and name. What it
    asks of sites is sent by `send`, if they are there."""
    job = Job(
        id=JobId("j1"),
        spec=a_spec(2),
        submitted_at=0.0,
        phase=Placing(queued_at=1.0),
        claim_fraction=0.75,
        attempts=attempts,
    )
    spool = Spool(folder / "spool")
    for (attempt, name), text in texts.items():
        path = spool.log(AttemptComponent(job=job.id, attempt=attempt, component=0), name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)

    async def nothing(_: JobId) -> None:
        return None

    logs = Logs(
        alone(job),
        spool,
        send=send,
        is_live=lambda _: is_there,
        known=lambda _: job,
        past=nothing,
    )
    return job, logs


async def test_who_goes_on_reads_first_what_earlier_attempts_wrote_meanwhile(
    tmp_path: Path,
) -> None:
    """A client was cut off in the second attempt, and now the fourth is there. Of process 1, which
    was in the first, all of the second is missing; of the first no more than its end."""
    texts = {
        (attempt, f"stdout.{process}"): f"{attempt}-{process}\n".encode()
        for attempt in (1, 2, 3, 4)
        for process in (0, 1)
    }
    job, logs = spooled_logs(tmp_path, texts, attempts=4)
    wanted = LogsWanted(
        user="ann",
        job=job.id,
        component="",
        streams=("stdout", "stderr"),
        process=-1,
        is_followed=True,
        offsets={(2, 0, 0, "stdout"): 2, (1, 0, 1, "stdout"): 4, (3, 7, 0, "stdout"): 1},
    )
    found: list[tuple[int, int, int, bytes]] = []
    async with asyncio.timeout(90), aclosing(logs.read(wanted)) as parts:
        async for part in parts:
            found.append((part.attempt, part.process, part.offset, part.data))
            if len(found) == 6:
                break
    assert found[:4] == [
        (2, 0, 2, b"0\n"),
        (2, 1, 0, b"2-1\n"),
        (3, 0, 0, b"3-0\n"),
        (3, 1, 0, b"3-1\n"),
    ]
    assert sorted(found[4:]) == [(4, 0, 0, b"4-0\n"), (4, 1, 0, b"4-1\n")]


@pytest.mark.parametrize("is_there", [True, False])
async def test_what_an_earlier_attempt_wrote_is_read_at_the_site_where_it_was(
    tmp_path: Path, is_there: bool
) -> None:
    """Bring home nothing of an attempt that was set back: its site keeps it for a while. One
    that is away keeps nobody from the newest attempt."""
    asked: list[Logs] = []

    def answer(site: SiteName, request: ToAgent) -> None:
        assert isinstance(request, LogRequest)
        assert (site, request.claim) == ("delft", "j1/1/0/2")
        data = b"" if request.process else b"first\nmeanwhile\n"[request.offset :]
        number, offset = request.request, request.offset
        asked[0].deliver(
            site, LogChunk(request=number, offset=offset, data=data, is_over=False, error="")
        )

    job, logs = spooled_logs(
        tmp_path, {(2, "stdout.0"): b"again\n"}, attempts=2, send=answer, is_there=is_there
    )
    asked.append(logs)
    for n, site in ((1, "leiden"), (2, "delft")):
        job.charges.append(
            Charge(
                claim=claim_id(job.id, attempt=1, component=0, n=n),
                attempt=1,
                site=SiteName(site),
                processors=2,
                batch_job="",
                asked_at=0.0,
                granted_at=1.0,
                passed_at=1.0,
            )
        )
    wanted = LogsWanted(
        user="ann",
        job=job.id,
        component="",
        streams=("stdout",),
        process=-1,
        is_followed=True,
        offsets={(1, 0, 0, "stdout"): 6},
    )
    found: list[tuple[int, bytes]] = []
    async with asyncio.timeout(90), aclosing(logs.read(wanted)) as parts:
        async for part in parts:
            found.append((part.attempt, part.data))
            if part.attempt == 2:
                break
    assert found == [*([(1, b"meanwhile\n")] if is_there else []), (2, b"again\n")]


async def test_who_leaves_logs_that_are_followed_leaves_no_error(tmp_path: Path) -> None:
    """A client that goes away, or is believed no more, while a part is on its way to it."""
    job, logs = spooled_logs(tmp_path, {(1, "stdout.0"): b"text"})
    wanted = LogsWanted(
        user="ann", job=job.id, component="", streams=("stdout",), process=-1, is_followed=True
    )
    async with asyncio.timeout(90):
        async with aclosing(logs.read(wanted)) as parts:
            assert (await anext(parts)).data == b"text"
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as limit, aclosing(logs.read(wanted)) as parts:
                async for _ in parts:
                    limit.reschedule(asyncio.get_running_loop().time())
                    await asyncio.Event().wait()
        assert limit.expired()


@pytest.mark.parametrize("phase", ["Finished", "Cancelled"])
async def test_of_a_job_that_is_over_nothing_stays_that_nobody_sees(
    tmp_path: Path, phase: str
) -> None:
    """It goes when the job ends, or, if it came afterwards, when the daemon starts again."""
    config = config_of(tmp_path)
    left = config.spool / "jobs" / "j1" / "attempt-70" / "0" / "output" / "a"
    # Where the machine stalls, the first attempt may not be the last. What goes last is waited for.
    logs = [
        config.spool / "jobs" / "j1" / f"attempt-{attempt}" / "0" / "log" / "stdout.0"
        for attempt in range(1, 7)
    ]
    async with running(config) as daemon, asyncio.TaskGroup() as group:
        for path in (left, *logs):
            path.parent.mkdir(parents=True)
            path.write_bytes(b"this")
        agent = FakeAgent(daemon.address, ends_at_once=phase == "Finished")
        staying = group.create_task(agent.stay())
        async with AsyncClient(daemon.address) as client, asyncio.timeout(90):
            job = (await client.submit("&(executable=/bin/true)(outputFile=a)")).job
            assert job == "j1"
            if phase == "Cancelled":
                await agent.until("release")
                await client.cancel([job])
            assert await client.wait(job) == phase
            await comes_true(lambda: not left.exists())
            last = (await client.show(job))["attempts"]
        staying.cancel()
    assert [path for path in logs if path.exists()] == [logs[last - 1]]
    left.parent.mkdir(parents=True)
    left.write_bytes(b"late")
    async with running(config):
        await comes_true(lambda: not left.exists())


async def test_logs_of_a_job_that_is_over_come_from_the_spool_or_its_site(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    async with running(config) as daemon, asyncio.TaskGroup() as group:
        agent = FakeAgent(daemon.address)
        agent.logs = {"stdout.0": b"kept at the site\n", "stderr.0": b"not this\n"}
        staying = group.create_task(agent.stay())
        async with AsyncClient(daemon.address) as client, asyncio.timeout(90):
            job = (await client.submit("&(executable=/bin/true)")).job
            assert await client.wait(job) == "Finished"
            last = (await client.show(job))["attempts"]
            spooled = config.spool / "jobs" / job / f"attempt-{last}" / "0" / "log" / "stderr.0"
            spooled.parent.mkdir(parents=True)
            spooled.write_bytes(b"kept in the spool\n")
            found = {part.stream: part.data async for part in client.logs(job)}
            assert found == {"stdout": b"kept at the site\n", "stderr": b"kept in the spool\n"}
            staying.cancel()
            while (await client.sites())[0]["state"] != "disconnected":
                await moment()
            with pytest.raises(UnreachableError, match="delft is disconnected"):
                await anext(aiter(client.logs(job, stream="stdout")))
            spooled.with_name("stdout.0").write_bytes(b"came late\n")
            assert [part.data async for part in client.logs(job, stream="stdout", follow=True)] == [
                b"came late\n"
            ]


async def _first(parts: AsyncIterator[LogPart]) -> LogPart:
    return await anext(parts)
