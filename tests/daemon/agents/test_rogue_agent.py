"""An agent that lies: about claims, files and logs of others, about instants, and by the megabyte.
What it says is about its own site and its own claims, or nothing comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from koala.client import AsyncClient
from koala.common.protocol import messages
from koala.common.protocol.codec import FROM_AGENT
from koala.common.protocol.limits import REQUEST_BYTES_MAX
from koala.common.protocol.messages import (
    FileFound,
    FileRemoved,
    KvPut,
    ReportState,
    TransferFailed,
    TransferFinished,
    TransferProgress,
)
from koala.common.protocol.versions import PROTOCOL
from koala.common.wire.v1 import link_pb2 as pb
from koala.core.model import events as ev
from koala.core.model.claim import Grant, Released
from koala.core.model.job import ClaimEnd, EndKind
from koala.core.model.values import ClaimId, FileName, Instant, SiteName, TransferId
from koala.daemon.agents import reports
from koala.daemon.agents.replica_reports import ReplicaReports
from koala.daemon.agents.session import (
    INVENTORY_BYTES_MAX,
    Allowlist,
    EndSession,
    Output,
    Session,
    Timing,
)
from koala.views.accounting import By, Period, ReportBuilder
from tests.daemon.agents.test_links import round_trip
from tests.daemon.fake_agent import FakeAgent
from tests.daemon.running import config_of, running
from tests.fuzz.links import a_grid
from tests.harness.builders import a_component, a_job, a_site
from tests.harness.script import Script

PAIR = (
    "+(&(executable=/bin/a)(count=4)(resourceManagerContact=delft))"
    "(&(executable=/bin/b)(count=4)(resourceManagerContact=leiden))"
)
DELFT, LEIDEN, UTRECHT = SiteName("delft"), SiteName("leiden"), SiteName("utrecht")
DATA = FileName("data")

ENDS = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.OK)

live = pytest.mark.live


@asynccontextmanager
async def two_sites(folder: Path) -> AsyncIterator[tuple[FakeAgent, FakeAgent, AsyncClient]]:
    """A rogue at delft, an honest agent at leiden that does not arm by itself, and a client."""
    async with running(config_of(folder)) as daemon, asyncio.TaskGroup() as group:
        rogue = FakeAgent(daemon.address, site="delft")
        honest = FakeAgent(daemon.address, site="leiden", session="s2")
        agents = [group.create_task(agent.stay()) for agent in (rogue, honest)]
        async with AsyncClient(daemon.address) as client, asyncio.timeout(60):
            for agent in (rogue, honest):
                await agent.until("wanted_end")
            yield rogue, honest, client
        for task in agents:
            task.cancel()


def mute(agent: FakeAgent, *kinds: str) -> None:
    """It does nothing about such messages."""
    real = agent._take

    def take(message: pb.ToAgent) -> None:
        if message.WhichOneof("kind") not in kinds:
            real(message)

    agent._take = take  # type: ignore[method-assign]


@live
async def test_nothing_that_it_says_of_anothers_claim_counts(tmp_path: Path) -> None:
    async with two_sites(tmp_path) as (rogue, honest, client):
        mute(rogue, "arm")
        mute(honest, "arm")
        job = (await client.submit(PAIR)).job
        await honest.until("arm")
        before = await client.show(job)
        (claim,) = honest.claims
        number = honest.heard_of("arm")[0].arm.number
        nonce = honest.claims[claim].nonce
        for state in range(1, 6):
            rogue.tell(
                claim=pb.ClaimReport(
                    claim=claim,
                    state=state,
                    nonce=nonce,
                    armed=number,
                    passed_at=1e9,
                    end=pb.End(kind="exited", statuses=[0]),
                )
            )
        rogue.tell(ping=pb.Ping(claim=claim, nonce=nonce, sent_at=1.0))
        rogue.tell(kv_put=pb.KvPut(claim=claim, request=7, name="a", value="b"))
        rogue.tell(paths=pb.PathsReport(claim=claim, problem="blocked"))
        rogue.tell(progress=pb.ProgressReport(claim=claim, cycle=1, work=1.0))
        await round_trip(rogue)
        after = await client.show(job)
        assert after["parts"] == before["parts"]
        assert after["phase"] == "Starting"
        assert rogue.heard_of("pong") == []
        assert "not of a live attempt" in rogue.heard_of("kv_answer")[0].kv_answer.error


@live
async def test_it_can_say_armed_and_passed_but_nobody_is_released_by_that(tmp_path: Path) -> None:
    """All or none is the word of each of them."""
    async with two_sites(tmp_path) as (rogue, honest, client):
        mute(rogue, "arm")
        mute(honest, "arm")
        job = (await client.submit(PAIR)).job
        await honest.until("arm")
        arm = (await rogue.until("arm"))[-1]  # said again with another number until all have armed
        (claim,) = rogue.claims
        for armed in (
            pb.ArmNumber(epoch=2**62, counter=2**62),
            arm.arm.number,
            pb.ArmNumber(epoch=0, counter=0),
        ):
            rogue.tell(claim=pb.ClaimReport(claim=claim, state=pb.CLAIM_STATE_ARMED, armed=armed))
        rogue.tell(claim=pb.ClaimReport(claim=claim, state=pb.CLAIM_STATE_PASSED, passed_at=1e9))
        await round_trip(rogue)
        assert (await client.show(job))["phase"] == "Starting"
        assert honest.heard_of("release") == rogue.heard_of("release") == []


@live
async def test_it_does_not_answer_for_others_when_logs_are_read(tmp_path: Path) -> None:
    """Requests are numbered one by one: numbers are guessed easily."""
    async with two_sites(tmp_path) as (rogue, honest, client):
        honest.ends_at_once = False
        honest.logs["stdout.0"] = b"the truth\n"
        mute(honest, "log_request")
        alone = "&(executable=/bin/b)(count=1)(resourceManagerContact=leiden)"
        job = (await client.submit(alone)).job
        await honest.until("release")
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(read_all(client, job))
            while not (asked := honest.heard_of("log_request")):
                await round_trip(honest)
            for number in range(asked[0].log_request.request + 5):
                rogue.tell(log=pb.LogChunk(request=number, data=b"a lie\n", is_over=True))
            await round_trip(rogue)
            wanted = asked[0].log_request
            honest.tell(log=pb.LogChunk(request=wanted.request, data=b"the truth\n"))
            while len(honest.heard_of("log_request")) < 2:
                await round_trip(honest)
            again = honest.heard_of("log_request")[1].log_request
            honest.tell(log=pb.LogChunk(request=again.request, offset=10, is_over=True))
        assert reading.result() == b"the truth\n"


async def read_all(client: AsyncClient, job: str) -> bytes:
    return b"".join([part.data async for part in client.logs(job, stream="stdout")])


@live
async def test_a_message_that_is_too_large_or_too_deep_ends_its_session_only(
    tmp_path: Path,
) -> None:
    async with two_sites(tmp_path) as (rogue, honest, client):
        for data in (
            pb.FromAgent(log=pb.LogChunk(data=bytes(REQUEST_BYTES_MAX))).SerializeToString(),
            b"\x0a\x02" * 200 + b"\xff",  # no message
        ):
            async with grpc.aio.insecure_channel(rogue.address) as channel:
                call: grpc.aio.StreamStreamCall[bytes, pb.ToAgent] = channel.stream_stream(
                    "/koala.wire.v1.AgentLink/Connect", response_deserializer=pb.ToAgent.FromString
                )()
                await call.write(data)
                with suppress(grpc.aio.AioRpcError):
                    said = await call.read()
                    assert isinstance(said, pb.ToAgent)
                    assert "not a message" in said.reject.reason
                    await call.read()
                assert await call.code() in ENDS
        states = {site["site"]: site["state"] for site in await client.sites()}
        assert states == {"delft": "usable", "leiden": "usable"}
        assert honest.heard_of("reject") == []


# Without sockets ----------------------------------------------------------------------------------


def told(
    report: Any, site: SiteName, script: Script, replicas: ReplicaReports | None = None
) -> list[Any]:
    """The events that come of a report, handled one by one."""
    if isinstance(report, FileFound | FileRemoved):
        events = (replicas or ReplicaReports()).events_of(report, site, script.scheduler)
    else:
        events = reports.report_events(report, site, script.scheduler, rtt_s=0.0, now=script.now)
    found = []
    for event in events:
        script.scheduler.handle(event, script.now)
        found.append(event)
    return found


def a_copy(content: str, size_bytes: int = 5) -> FileFound:
    return FileFound(file=DATA, size_bytes=size_bytes, checksum=content)


def holders(script: Script) -> tuple[str, tuple[SiteName, ...]]:
    replica = script.scheduler.replicas[DATA]
    return replica.checksum, replica.sites


def test_it_does_not_replace_what_others_hold() -> None:
    """Or any site could give everybody's jobs another input."""
    script, replicas = Script(), ReplicaReports()
    script.tell(a_site(LEIDEN), a_site(UTRECHT), a_site(DELFT))
    for site in (LEIDEN, UTRECHT):
        told(a_copy("good"), site, script, replicas)
    assert "held by leiden, utrecht" in replicas.objection(a_copy("bad"), DELFT, script.scheduler)
    assert told(a_copy("bad"), DELFT, script, replicas) == []
    assert holders(script) == ("good", (LEIDEN, UTRECHT))
    # A holder whose copy is another one now is no holder any more.
    told(a_copy("new"), LEIDEN, script, replicas)
    assert holders(script) == ("good", (UTRECHT,))
    # What nobody else holds may be replaced, and what others said then counts.
    told(a_copy("newer"), UTRECHT, script, replicas)
    assert holders(script) == ("newer", (UTRECHT,))
    told(FileRemoved(file=DATA), UTRECHT, script, replicas)
    assert holders(script) == ("bad", (DELFT,)), "the first by name of those that said something"
    told(FileRemoved(file=DATA), DELFT, script, replicas)
    assert holders(script) == ("new", (LEIDEN,))


def test_it_has_so_many_files_and_no_more() -> None:
    script, replicas = Script(), ReplicaReports(files_max=3)
    script.tell(a_site(DELFT))
    for number in range(5):
        report = FileFound(file=f"f{number}", size_bytes=1, checksum="")
        told(report, DELFT, script, replicas)
    assert sorted(script.scheduler.replicas) == ["f0", "f1", "f2"]
    gone = FileRemoved(file="f1")
    told(gone, DELFT, script, replicas)
    late = FileFound(file="f4", size_bytes=1, checksum="")
    told(late, DELFT, script, replicas)
    assert sorted(script.scheduler.replicas) == ["f0", "f2", "f4"]


@pytest.mark.parametrize(
    ("said", "blamed"), [(DELFT, DELFT), (LEIDEN, LEIDEN), (UTRECHT, None), (None, None)]
)
def test_a_copy_that_failed_is_the_fault_of_one_of_its_ends(
    said: SiteName | None, blamed: SiteName | None
) -> None:
    """A site that has nothing to do with it must not rest for it."""
    script = Script()
    script.tell(a_site(DELFT), a_site(LEIDEN), a_site(UTRECHT))
    script.ignore(object)
    script.tell(ev.ReplicaAdded(file=DATA, site=LEIDEN, size_bytes=10, checksum="c"))
    script.tell(a_fetching_job())
    (transfer,) = script.scheduler.files.transfers.values()
    assert (transfer.source, transfer.target) == (LEIDEN, DELFT)
    report = TransferFailed(transfer=transfer.id, reason="r", at=said or "")
    (event,) = told(report, DELFT, script)
    assert event.at == blamed


def a_fetching_job() -> ev.JobSubmitted:
    return a_job("j1", a_component(8, site="delft"), file="data")


@pytest.mark.parametrize("took_s", [0.0, 5e-324, 1e-9, 1e300])
def test_a_link_is_no_faster_and_no_slower_than_can_be(took_s: float) -> None:
    script = Script()
    script.ignore(object)
    script.tell(a_site(DELFT), a_site(LEIDEN))
    size = 2**40
    script.tell(ev.ReplicaAdded(file=DATA, site=LEIDEN, size_bytes=size, checksum="c"))
    script.tell(a_fetching_job())
    (transfer,) = script.scheduler.files.transfers.values()
    script.now += 10.0
    report = TransferFinished(transfer=transfer.id, size_bytes=2**62, took_s=took_s)
    told(report, DELFT, script)
    bandwidth = script.scheduler.files.bandwidth[LEIDEN, DELFT]
    assert 0.99 * size / 10.0 <= bandwidth <= size / reports.TOOK_S_MIN


def test_how_far_a_copy_is_only_its_target_tells_and_no_more_than_can_be() -> None:
    script = Script()
    script.ignore(object)
    script.tell(a_site(DELFT), a_site(LEIDEN))
    script.tell(ev.ReplicaAdded(file=DATA, site=LEIDEN, size_bytes=1000, checksum="c"))
    script.tell(a_fetching_job())
    (transfer,) = script.scheduler.files.transfers
    script.now += 10.0
    said = TransferProgress(transfer=transfer, size_bytes=2**62, took_s=1e300)
    assert told(said, LEIDEN, script) == []
    expected = ev.TransferProgressed(transfer=transfer, size_bytes=1000, took_s=10.0)
    assert told(said, DELFT, script) == [expected]
    assert told(said, DELFT, script) == [], "a repetition is no event"
    gone = TransferProgress(transfer=TransferId("j1/9/t1"), size_bytes=1, took_s=1.0)
    assert told(gone, DELFT, script) == []


@pytest.mark.parametrize("lie", [1e-9, -2e11, 2e11])
def test_nobody_is_charged_for_instants_that_a_site_makes_up(lie: Instant) -> None:
    """Budgets and reports are counted from them."""
    scheduler = a_grid()
    claim = next(claim for claim in scheduler.ledger.values() if claim.site == DELFT)
    claim.phase = Released(grant=Grant(at=1.0, nonce="n"))
    report = messages.Report(
        claim=ClaimId(claim.id), state=ReportState.PASSED, nonce="n", passed_at=lie
    )
    end = ClaimEnd(kind=EndKind.EXITED, statuses=(0,), ended_at=2e11)
    over = messages.Report(
        claim=ClaimId(claim.id), state=ReportState.GONE, nonce="n", passed_at=lie, end=end
    )
    now = 10.0
    for said in (report, over):
        for event in reports.report_events(said, DELFT, scheduler, rtt_s=0.0, now=now):
            scheduler.handle(event, now)
    rows = ReportBuilder(scheduler, By.CLAIM, Period(), now).report()["rows"]
    (row,) = [row for row in rows if row["claim"] == claim.id]
    longest_s = now + 2 * reports.CLOCK_ERROR_S
    assert row["run_s"] + row["held_s"] + row["wasted_s"] <= claim.processors * longest_s


def test_a_site_tells_the_starts_of_its_own_claims_alone() -> None:
    scheduler = a_grid()
    own = next(claim for claim in scheduler.ledger.values() if claim.site == DELFT)
    waits = (*scheduler.ledger, ClaimId("j9/1/0/1"))
    figures = messages.SiteFigures(
        idle=8,
        through=0,
        processors=8,
        local_processors=0,
        queued_jobs=0,
        waits=tuple(messages.Wait(claim=claim, start_in_s=5.0) for claim in waits),
    )
    (event,) = reports.report_events(figures, DELFT, scheduler, rtt_s=0.0, now=1.0)
    assert isinstance(event, ev.SiteReported)
    assert event.starts == ((own.id, 5.0),)


def test_an_inventory_is_kept_up_to_so_many_bytes() -> None:
    """It is kept until its end comes, which may be never."""
    session = Session(Allowlist(epoch=1, sites={}, is_open=True), Timing(), now=0.0)
    register = pb.FromAgent(register=pb.Register(protocol=PROTOCOL, site="delft"))
    opened = FROM_AGENT.decode(register)
    assert opened is not None
    assert session.receive(opened, 0.0, register.ByteSize()) == []
    value = KvPut(claim=ClaimId("j1/1/0/1"), request=0, name="a", value="x")
    kept = 0
    outputs: list[Output] = []
    while not outputs:
        outputs = session.receive(value, 0.0, 4 * 2**20)
        kept += 4 * 2**20
    assert kept <= INVENTORY_BYTES_MAX + 4 * 2**20
    assert isinstance(outputs[-1], EndSession)
    assert "an inventory of more than" in outputs[-1].reason
