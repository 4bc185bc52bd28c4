"""Take a claim of a real agent through its steps, as the daemon that the test plays."""

from __future__ import annotations

import pytest

from koala.common.wire.v1 import link_pb2
from tests.agent.live.fake_daemon import (
    ARMED,
    LATE_S,
    PASSED,
    FakeSession,
)


async def passed(session: FakeSession, claim: str) -> link_pb2.ClaimReport:
    """Arms and releases a granted claim; answers its report of the pass."""
    await pinged(session, claim)
    release_at = session.arm(claim)
    armed = await session.claim(claim, ARMED)
    assert (armed.armed.epoch, armed.armed.counter) == (session.epoch, 1)
    session.release(claim, release_at=release_at)
    report = await session.claim(claim, PASSED)
    # The agent's clock and the fake daemon's differ by a million seconds; messages take little.
    assert report.passed_at == pytest.approx(release_at, abs=LATE_S)
    return report


async def pinged(session: FakeSession, claim: str) -> None:
    """Waits until a ping of the starter was answered: then it knows the daemon's time."""
    await session.next("ping", is_about=lambda ping: ping.claim == claim)
