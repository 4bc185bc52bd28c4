"""Logs through a daemon over real gRPC: read, followed over restarts, and after the job."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import msgspec
import pytest

from koala.client import AsyncClient
from koala.common.protocol.messages import LogChunk, LogRequest, ToAgent
from koala.core.model.charges import Charge
from koala.core.model.job import Job, Placing
from koala.core.model.values import JobId, SiteName, claim_id
from koala.core.purge import state_of_jobs
from koala.daemon.clients.logs import Logs, LogsWanted
from koala.daemon.files.spool import AttemptComponent, Spool
from koala.errors import SpecError, UnreachableError
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
    address = f"127.0.0.1:{free_port()}"
    config = config_of(tmp_path)
    daemon = msgspec.structs.replace(config.daemon, listen=address)
    config = msgspec.structs.replace(config, daemon=daemon)
    agent = FakeAgent(address, ends_at_once=False)
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
        AsyncClient(address) as client,
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
