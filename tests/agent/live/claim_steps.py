"""Take a claim of a real agent through its steps, as the daemon that the test plays."""

from __future__ import annotations

import pytest

from koala.common.wire.v1 import link_pb2
from tests.agent.live.fake_daemon import (
    ARMED,
    GRANTED,
    LATE_S,
    PASSED,
    FakeDaemon,
    FakeSession,
    hold,
)

FOREVER = ("-c", "exec sleep 600")


async def passed(
    session: FakeSession, claim: str, *, late_s: float = LATE_S
) -> link_pb2.ClaimReport:
    """Arms and releases a granted claim; answers its report of the pass."""
    await pinged(session, claim, is_fresh=late_s < LATE_S)
    release_at = session.arm(claim, late_s=late_s)
    armed = await session.claim(claim, ARMED)
    assert (armed.armed.epoch, armed.armed.counter) == (session.epoch, 1)
    session.release(claim, release_at=release_at)
    report = await session.claim(claim, PASSED)
    # The agent's clock and the fake daemon's differ by a million seconds; messages take little.
    assert report.passed_at == pytest.approx(release_at, abs=LATE_S)
    return report


async def pinged(session: FakeSession, claim: str, *, is_fresh: bool = False) -> None:
    """Waits until a ping of the starter was answered: then it knows the daemon's time. A starter
    arms only while its lease outlasts D, so a short one should have been renewed just now."""
    if is_fresh:
        session.drop("ping")
    await session.next("ping", is_about=lambda ping: ping.claim == claim)


async def running(daemon: FakeDaemon, claim: str, **leases: float) -> FakeSession:
    """A claim past the barrier that would run for ten minutes."""
    session = await daemon.live(hold(claim, *FOREVER), **leases)
    await session.claim(claim, GRANTED)
    await passed(session, claim, late_s=min(LATE_S, leases.get("hold_lease_s", 60.0) / 2))
    return session
