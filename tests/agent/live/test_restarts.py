"""Real claims while their agent is killed and started again, and while its daemon is away.

What is waited for are messages and processes, never time. Leases are of seconds where they must run
out, long elsewhere.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from koala.common.runtime import clock
from koala.common.wire.v1 import link_pb2
from tests.agent.live.agent_process import a_job, agent_process
from tests.agent.live.claim_steps import FOREVER, pinged
from tests.agent.live.fake_daemon import (
    ARMED,
    GONE,
    GRANTED,
    LATE_S,
    PASSED,
    FakeSession,
    a_release,
    fake_daemon,
    hold,
)
from tests.harness.moments import until

pytestmark = [pytest.mark.live, pytest.mark.slow]


async def test_a_claim_that_passes_while_the_agent_is_away_tells_it_afterwards(
    tmp_path: Path,
) -> None:
    """The starter needs neither agent nor daemon for the pass."""
    job = a_job()
    claim = f"{job}/1/0/1"
    mark = tmp_path / "passed"
    async with fake_daemon() as daemon, agent_process(tmp_path, daemon.target, job=job) as agent:
        program = hold(claim, "-c", f"echo > {mark}; exec sleep 600")
        session = await daemon.live(program, hold_lease_s=10.0)
        await session.claim(claim, GRANTED)
        await pinged(session, claim, is_fresh=True)
        release_at = session.arm(claim, release_in_s=2.0, late_s=8.0)
        await session.claim(claim, ARMED)
        session.release(claim, release_at=release_at)
        # A Release in the pipe of an agent that is killed may be lost; the next agent would tell it
        # again. A ping sent well after it shows that its starter has read on.
        told_at = clock.now()
        await session.next("ping", lambda ping: ping.sent_at > told_at + 0.3)
        await agent.kill()
        await until(mark.exists)
        await agent.start()
        session = await daemon.live(
            hold(claim, *FOREVER, is_granted=True), a_release(claim, epoch=1, release_at=release_at)
        )
        report = await session.claim(claim, PASSED)
        assert report.passed_at == pytest.approx(release_at, abs=LATE_S)


async def test_an_agent_killed_at_every_step_runs_the_program_exactly_once(tmp_path: Path) -> None:
    job = a_job()
    claim = f"{job}/1/0/1"
    count = tmp_path / "count"
    wanted = hold(claim, "-c", f"echo started >> {count}")
    known = hold(claim, is_granted=True)
    async with fake_daemon() as daemon, agent_process(tmp_path, daemon.target, job=job) as agent:

        async def again(*what: link_pb2.ToAgent) -> FakeSession:
            await agent.kill()
            await agent.start()
            return await daemon.live(*what)

        session = await daemon.live(wanted)
        await session.next("site", lambda report: report.through == 1)  # submitted
        session = await again(wanted)
        await session.claim(claim, GRANTED)
        session = await again(known)
        await pinged(session, claim)  # its starter has found the new agent; an Arm would be lost
        release_at = session.arm(claim, release_in_s=1.0)
        await session.claim(claim, ARMED)
        session = await again(known, a_release(claim, epoch=1, release_at=release_at))
        await session.claim(claim, PASSED)
        session = await again(known, a_release(claim, epoch=1, release_at=release_at))
        gone = await session.claim(claim, GONE)
        assert list(gone.end.statuses) == [0]
        session = await again(known)
        assert (await session.claim(claim, GONE)).end == gone.end
        await agent.nothing_left()
    assert lines(count) == ["started"]


def lines(path: Path) -> list[str]:
    """Return the lines of a text file."""
    return path.read_text(encoding="utf-8").splitlines()
