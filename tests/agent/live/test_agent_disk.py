"""A site whose disk is full, or fails: what runs comes to its end, nothing new is taken, and what
was told is kept."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from koala.common.wire.v1 import link_pb2
from tests.agent.live.agent_process import AgentProcess, a_job, agent_process
from tests.agent.live.claim_steps import passed, pinged
from tests.agent.live.fake_daemon import (
    ARMED,
    GONE,
    GRANTED,
    PASSED,
    FakeSession,
    fake_daemon,
    hold,
    patiently,
)
from tests.harness.moments import until
from tests.harness.small_disk import fill, small_disk

pytestmark = [pytest.mark.live, pytest.mark.slow]

LIMITS = "low_disk_mb = 2\nballast_mb = 2"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """The state directory of the agent, on a disk of 12 MB."""
    with small_disk(tmp_path / "state", megabytes=12) as folder:
        yield folder


def gate(path: Path) -> tuple[str, str]:
    """A program that ends with status 3 when the file is there."""
    return "-c", f"until [ -e {path} ]; do sleep 0.05; done; exit 3"


async def begun(session: FakeSession, claim: str, program: tuple[str, str]) -> None:
    """A claim past the barrier."""
    session.want_more(hold(claim, *program))
    await session.claim(claim, GRANTED)
    await passed(session, claim)


@pytest.mark.root
async def test_what_runs_ends_on_a_full_disk_and_new_claims_come_when_there_is_room_again(
    tmp_path: Path, small: Path
) -> None:
    job = a_job()
    runs, holds, waits, refused, later = (f"{job}/1/{component}/1" for component in range(5))
    mark = tmp_path / "gate"
    async with (
        fake_daemon() as daemon,
        agent_process(tmp_path, daemon.target, job=job, agent=LIMITS) as agent,
    ):
        session = await daemon.live()
        assert session.register.idle == 4
        await begun(session, runs, gate(mark))
        session.want_more(hold(holds, *gate(mark), ask_number=2))
        await session.claim(holds, GRANTED)
        session.want_more(hold(waits, *gate(mark), ask_number=3))
        await session.claim(waits, GRANTED)
        pid = agent.process and agent.process.pid

        filler = fill(small, 1_000_000)
        told = await session.next("site", lambda report: report.idle == 0)
        assert "MB are needed for new claims" in told.trouble
        session.want_more(hold(refused, *gate(mark), ask_number=4))
        told = (await session.claim(refused, GONE)).end
        assert told.kind == "refused"
        assert told.reason.startswith("the agent's disk is nearly full: 1.0 MB are free at /")
        assert told.reason.endswith("2.0 MB are needed for new claims")

        await passed(session, holds)  # one that was taken before goes on

        fill(small, 0)
        session.arm(waits)
        gone = await session.claim(waits, GONE)
        assert gone.end.kind == "vanished"
        assert "cannot prepare its processes: [Errno 28]" in gone.end.reason
        session.say(acknowledge=link_pb2.Acknowledge(claim=waits))
        mark.touch()
        for claim in (runs, holds):
            gone = await session.claim(claim, GONE)
            assert (gone.end.kind, list(gone.end.statuses)) == ("exited", [3])
            assert gone.passed_at > 0
            session.say(acknowledge=link_pb2.Acknowledge(claim=claim))

        filler.unlink()
        told = await session.next("site", lambda report: report.idle == 4)
        assert told.trouble == ""
        await begun(session, later, gate(mark))
        assert (await session.claim(later, GONE)).end.kind == "exited"
        assert agent.process is not None
        assert agent.process.pid == pid
        assert agent.process.returncode is None, "it was never restarted"


@pytest.mark.root
async def test_an_agent_starts_on_a_full_disk_where_its_ballast_was(
    tmp_path: Path, small: Path
) -> None:
    async with (
        fake_daemon() as daemon,
        agent_process(tmp_path, daemon.target, job=a_job(), agent=LIMITS) as agent,
    ):
        session = await daemon.live()
        await until((small / "ballast").exists)
        await agent.terminate()
        fill(small, 0)
        await agent.start()
        session = await daemon.live()
        assert session.register.idle == 0
        assert not (small / "ballast").exists()


async def test_a_write_that_fails_ends_the_agent_before_anything_is_told(tmp_path: Path) -> None:
    """The kernel refuses to let any file of the process grow: a write fails, and not for room. What
    the agent had decided and not written is found out by the next one."""
    job = a_job()
    runs, lost = f"{job}/1/0/1", f"{job}/1/1/1"
    mark = tmp_path / "gate"
    async with (
        fake_daemon() as daemon,
        agent_process(tmp_path, daemon.target, job=job) as agent,
    ):
        session = await daemon.live()
        await begun(session, runs, gate(mark))
        forbid_growth(agent)
        session.want_more(hold(lost, *gate(mark), ask_number=2))
        assert agent.process is not None
        assert await patiently(agent.process.ended()) == 74
        await patiently(session.is_over.wait())
        assert not [r for r in session.waiting("claim") if r.claim == lost]
        assert "cannot be written: disk I/O error" in str(agent)
        assert "Traceback" not in str(agent)

        await agent.start()
        session = await daemon.session()
        found = await session.inventory()
        assert {claim: report.state for claim, report in found.items()} == {runs: PASSED}
        session.welcome()
        session.want(
            hold(runs, *gate(mark), is_granted=True), hold(lost, *gate(mark), ask_number=2)
        )
        await session.claim(lost, GRANTED)
        mark.touch()
        assert list((await session.claim(runs, GONE)).end.statuses) == [3]
        await pinged(session, lost)
        release_at = session.arm(lost)
        await session.claim(lost, ARMED)
        session.release(lost, release_at=release_at)
        assert list((await session.claim(lost, GONE)).end.statuses) == [3]


def forbid_growth(agent: AgentProcess) -> None:
    """From now on no file of the agent's may grow beyond what its records have."""
    assert agent.process is not None
    size = (agent.state_dir / "agent.db-wal").stat().st_size
    resource.prlimit(agent.process.pid, resource.RLIMIT_FSIZE, (size, size))
