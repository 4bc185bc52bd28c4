"""Watermarks of agents reveal a journal that was rolled back, and only that."""

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from koala.client import AsyncClient
from koala.common.protocol.messages import Watermark
from koala.common.wire.v1 import link_pb2 as pb
from koala.core.model.values import SiteName
from koala.daemon.state.recovery import LOST_JOBS_MAX
from koala.daemon.storage.folder import FILE
from koala.daemon.storage.records import JournalPosition
from koala.daemon.storage.watermark import Watermarks, WatermarkVerdict
from koala.errors import JournalError
from tests.daemon.fake_agent import FakeAgent
from tests.daemon.running import a_daemon, config_of, running

DELFT = SiteName("delft")
ROWS = {seq: f"chain {seq}".encode() for seq in range(1, 11)}
ONE = "&(executable=/bin/true)(count=4)"


def watermarks(*, epoch: int = 3, loss_epoch: int = 0, secret: bytes = b"secret") -> Watermarks:
    return Watermarks(
        secret=secret,
        epoch=epoch,
        loss_epoch=loss_epoch,
        newest=lambda: JournalPosition(10, ROWS[10]),
        chain_at=ROWS.get,
    )


@pytest.mark.parametrize(
    ("seq", "chain", "verdict"),
    [
        (10, ROWS[10], WatermarkVerdict.SAME),
        (4, ROWS[4], WatermarkVerdict.SAME),
        (11, b"chain 11", WatermarkVerdict.BEHIND),
        (4, b"another chain", WatermarkVerdict.BEHIND),
        (0, b"", WatermarkVerdict.SAME),
    ],
)
def test_a_row_is_the_same_or_the_journal_is_behind(
    seq: int, chain: bytes, verdict: WatermarkVerdict
) -> None:
    shown = watermarks().sign(DELFT, JournalPosition(seq, chain))
    assert watermarks().verify(DELFT, shown) is verdict
    assert watermarks(epoch=9).verify(DELFT, shown) is verdict, "in a later life, too"


def test_a_row_that_is_not_kept_says_nothing() -> None:
    compacted = replace(watermarks(), chain_at=lambda _: None)
    shown = watermarks().sign(DELFT, JournalPosition(4, ROWS[4]))
    assert compacted.verify(DELFT, shown) is WatermarkVerdict.UNKNOWN


def test_rows_of_before_an_accepted_loss_count_no_more() -> None:
    shown = watermarks(epoch=3).sign(DELFT, JournalPosition(11, b"chain 11"))
    assert watermarks(epoch=1003, loss_epoch=1003).verify(DELFT, shown) is WatermarkVerdict.SAME
    shown = watermarks(epoch=1003).sign(DELFT, JournalPosition(11, b"chain 11"))
    assert watermarks(epoch=1004, loss_epoch=1003).verify(DELFT, shown) is WatermarkVerdict.BEHIND


def test_nobody_can_make_a_mark_up() -> None:
    far = JournalPosition(10**9, b"chain")
    true = watermarks().sign(DELFT, far)
    forged = [
        Watermark(epoch=3, seq=far.seq, chain=far.chain, seal=b""),
        replace(true, seq=true.seq + 1),
        replace(true, epoch=4),
        replace(true, chain=b"other"),
        watermarks(secret=b"another").sign(DELFT, far),
    ]
    assert watermarks().verify(DELFT, true) is WatermarkVerdict.BEHIND
    for shown in forged:
        assert watermarks().verify(DELFT, shown) is WatermarkVerdict.UNSIGNED
    assert watermarks().verify(SiteName("leiden"), true) is WatermarkVerdict.UNSIGNED


# --- daemons and agents ---------------------------------------------------------------------------


async def served(folder: Path, agent: FakeAgent, jobs: int, *, accept_loss: bool = False) -> str:
    """A life of the daemon in which so many jobs finish at the agent; the last one's id."""
    daemon, stop = a_daemon(config_of(folder), accept_loss=accept_loss), asyncio.Event()
    job = ""
    async with asyncio.TaskGroup() as group, asyncio.timeout(60):
        serving = group.create_task(daemon.serve(stop))
        starting = group.create_task(daemon.started.wait())
        await asyncio.wait({serving, starting}, return_when=asyncio.FIRST_COMPLETED)
        starting.cancel()
        agent.address = daemon.address
        staying = group.create_task(agent.stay())
        await agent.until("wanted_end", len(agent.heard_of("wanted_end")) + 1)
        async with AsyncClient(daemon.address) as client:
            for _ in range(jobs):
                job = (await client.submit(ONE)).job
                await client.wait(job)
        staying.cancel()
        stop.set()
    return job


async def refused(folder: Path, agent: FakeAgent) -> str:
    """Return why a daemon ends when this agent registers."""
    with pytest.raises(BaseExceptionGroup) as caught:
        await served(folder, agent, 0)
    errors = caught.value.subgroup(JournalError)
    assert errors is not None
    return str(errors.exceptions[0])


def copied(folder: Path, name: str) -> Path:
    copy = folder / name
    shutil.copytree(folder / "state", copy)
    return copy


def put_back(folder: Path, copy: Path) -> None:
    shutil.rmtree(folder / "state")
    shutil.copytree(copy, folder / "state")


@pytest.mark.live
async def test_an_older_copy_of_the_state_directory_is_refused(tmp_path: Path) -> None:
    """The copy is whole in itself: only the agent knows."""
    agent = FakeAgent("")
    await served(tmp_path, agent, 1)
    copy = copied(tmp_path, "older")
    await served(tmp_path, agent, 2)
    assert agent.mark is not None
    seq = agent.mark.seq
    put_back(tmp_path, copy)
    reason = await refused(tmp_path, agent)
    assert f"{tmp_path}/state/{FILE}: it ends with event" in reason
    assert f"the orders of site delft rest on event {seq}" in reason
    assert "koala restore BACKUP STATE_DIR" in reason
    assert "--accept-loss" in reason
    # What follows in the same life does not help: it is refused again.
    assert "rest on event" in await refused(tmp_path, agent)


@pytest.mark.live
async def test_after_an_accepted_loss_nothing_has_a_number_twice(tmp_path: Path) -> None:
    agent = FakeAgent("")
    await served(tmp_path, agent, 1)
    copy = copied(tmp_path, "older")
    await served(tmp_path, agent, 2)
    put_back(tmp_path, copy)
    job = await served(tmp_path, agent, 1, accept_loss=True)
    assert job == f"j{1 + LOST_JOBS_MAX + 1}"
    assert agent.mark is not None
    assert agent.mark.epoch > 1000
    audited = (tmp_path / "state" / "audit.jsonl").read_text()
    assert audited.count('"verb":"AcceptLoss"') == 1
    # The next life needs no word of an operator, and goes on with the numbers.
    assert await served(tmp_path, agent, 1) == f"j{1 + LOST_JOBS_MAX + 2}"


@pytest.mark.live
async def test_an_agent_that_lies_about_the_journal_ends_nothing(tmp_path: Path) -> None:
    agent = FakeAgent("", mark=pb.Mark(epoch=1, seq=10**9, chain=b"x" * 16, seal=b"y" * 16))
    await served(tmp_path, agent, 1)
    async with running(config_of(tmp_path)) as daemon, asyncio.timeout(90):
        agent.address, agent.mark = daemon.address, pb.Mark(epoch=1, seq=1, chain=b"x" * 65)
        await agent.connect()
        assert "chain has 65 bytes" in agent.heard_of("reject")[-1].reject.reason


@pytest.mark.live
async def test_a_daemon_with_a_copied_state_directory_is_fenced(tmp_path: Path) -> None:
    """Two daemons of one origin: whoever an agent has served later, the other one ends or is not
    obeyed."""
    agent = FakeAgent("")
    await served(tmp_path, agent, 1)
    (tmp_path / "other").mkdir()
    shutil.copytree(tmp_path / "state", tmp_path / "other" / "state")
    await served(tmp_path, agent, 1)
    reason = await refused(tmp_path / "other", agent)
    assert "another journal than this one" in reason


@pytest.mark.live
async def test_an_agent_of_a_later_epoch_is_not_served(tmp_path: Path) -> None:
    agent = FakeAgent("", epoch_seen=99)
    async with running(config_of(tmp_path)) as daemon, asyncio.timeout(90):
        agent.address = daemon.address
        await agent.connect()
        (rejected,) = agent.heard_of("reject")
        assert rejected.reject.reason == "the agent has served epoch 99, this is 1"
