"""Logs through a daemon over real gRPC: read, followed over restarts, and after the job."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from pathlib import Path

import msgspec
import pytest

from koala.client import AsyncClient
from koala.client.records import LogPart
from koala.common.protocol.messages import LogChunk, LogRequest, ToAgent
from koala.common.wire.v1 import koala_pb2
from koala.core.model.charges import Charge
from koala.core.model.job import Job, Placing
from koala.core.model.values import JobId, SiteName, claim_id
from koala.core.purge import state_of_jobs
from koala.daemon.clients.logs import Logs, LogsWanted
from koala.daemon.files.spool import AttemptComponent, Spool
from koala.errors import SpecError, UnreachableError
from tests.common.files.stage import comes_true
from tests.daemon.fake_agent import FakeAgent
from tests.daemon.running import config_of, running
from tests.harness.builders import a_spec
from tests.harness.moments import moment
from tests.harness.ports import free_port

pytestmark = pytest.mark.live


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
        state_of_jobs(job),
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
