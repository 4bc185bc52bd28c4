"""Two real agents, a copy from one to the other, and a program that reads it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from koala.common.wire.v1 import link_pb2
from tests.agent.live.agent_process import a_job, until
from tests.agent.live.fake_daemon import (
    ARMED,
    GONE,
    GRANTED,
    FakeSession,
    hold,
)
from tests.agent.live.two_sites import CONTENT, copy, two_sites

pytestmark = [pytest.mark.live, pytest.mark.slow]


async def test_a_copy_goes_from_site_to_site_and_is_gone_with_the_claim_that_read_it(
    tmp_path: Path,
) -> None:
    job = a_job()
    claim, transfer = f"{job}/1/0/1", f"{job}/1/t1"
    # Others reach it by another name than what it is bound to.
    serves = 'address = "localhost"'
    async with two_sites(tmp_path, job, source=serves) as (daemon, source, target, agent):
        assert source.register.facts.serves.startswith("localhost:")
        assert target.register.facts.serves == ""
        found = await source.next("file")
        assert (found.file, found.size_bytes) == ("data", len(CONTENT))
        copy(source, target, transfer, offset=10, size_bytes=100_000)
        told = await target.next("transfer")
        assert (told.transfer, told.is_finished, told.size_bytes) == (transfer, True, 100_000)

        wanted = hold(claim, "-c", 'sha256sum < "$KOALA_INPUT"; echo "$KOALA_INPUT" >&2')
        wanted.hold.inputs.append(transfer)
        target.want_more(wanted)
        await target.claim(claim, GRANTED)
        release_at = target.arm(claim)
        await target.claim(claim, ARMED)
        target.release(claim, release_at=release_at)
        gone = await target.claim(claim, GONE)
        assert list(gone.end.statuses) == [0]

        # A session that names only the claim keeps what the claim reads.
        target.end()
        later = await daemon.session()
        await later.inventory()
        assert [told.transfer for told in later.waiting("transfer")] == [transfer]
        later.welcome()
        again = hold(claim, is_granted=True)
        again.hold.inputs.append(transfer)
        later.want(again)
        summed, path = await a_log(later, claim, "stdout"), await a_log(later, claim, "stderr")
        assert summed.split()[0] == hashlib.sha256(CONTENT[10:100_010]).hexdigest()
        spooled = Path(path.strip())
        assert spooled.parent == agent.state_dir / "transfers" / "incoming"
        await until(spooled.exists)
        later.say(acknowledge=link_pb2.Acknowledge(claim=claim))
        await until(lambda: not spooled.exists())


async def test_copies_that_are_cancelled_or_not_named_any_more_are_deleted(
    tmp_path: Path,
) -> None:
    """A finished one that a new session names is kept: its claim may be asked for yet."""
    job = a_job()
    finished, unfinished = f"{job}/1/t1", f"{job}/1/t2"
    slow = f"[files]\nrate = {len(CONTENT) / 120}"
    async with two_sites(tmp_path, job, target=slow) as (daemon, source, target, agent):
        spool = agent.state_dir / "transfers" / "incoming"
        copy(source, target, finished, offset=0, size_bytes=100)
        told = await target.next("transfer")
        assert (told.transfer, told.is_finished) == (finished, True)
        copy(source, target, unfinished, offset=0, size_bytes=len(CONTENT))
        await until(lambda: any(spool.glob("*%2Ft2.part")))
        target.end()
        later = await daemon.session()
        await later.inventory()
        later.welcome()
        address = source.register.facts.serves
        again = link_pb2.Fetch(transfer=finished, file="data", source="delft", address=address)
        again.token, again.size_bytes = "t", 100
        later.say(fetch=again)
        later.want()
        await until(lambda: not any(spool.glob("*%2Ft2*")))
        assert [path.stat().st_size for path in whole(spool)] == [100]
        later.say(cancel_transfer=link_pb2.CancelTransfer(transfer=finished))
        await until(lambda: not any(spool.iterdir()))


async def test_a_finished_copy_is_deleted_when_a_session_wants_it_no_more(tmp_path: Path) -> None:
    """Its attempt was over while the agent was away, and its claim was never asked for."""
    job = a_job()
    transfer = f"{job}/1/t1"
    async with two_sites(tmp_path, job) as (daemon, source, target, agent):
        spool = agent.state_dir / "transfers" / "incoming"
        copy(source, target, transfer, offset=0, size_bytes=100)
        assert (await target.next("transfer")).is_finished
        assert whole(spool)
        target.end()
        await daemon.live()
        await until(lambda: not any(spool.iterdir()))


def whole(spool: Path) -> list[Path]:
    """The finished copies in a spool folder."""
    return [path for path in spool.iterdir() if not path.suffix]


async def a_log(session: FakeSession, claim: str, stream: str) -> str:
    """The whole of a short log."""
    session.say(log_request=link_pb2.LogRequest(claim=claim, request=1, stream=stream))
    chunk = await session.next("log")
    assert chunk.is_over
    return str(chunk.data.decode())
