"""Claims of a real agent process."""

from __future__ import annotations

from pathlib import Path

import pytest

from koala.client.connection import ADDRESS_VARIABLE
from koala.common.identity.credentials import (
    AUTHORITY_VARIABLE,
    FILE_VARIABLE,
    RUNTIME_VARIABLE,
    TOKEN_VARIABLE,
)
from tests.agent.live.agent_process import a_job, agent_process
from tests.agent.live.claim_steps import passed
from tests.agent.live.fake_daemon import GONE, GRANTED, fake_daemon, hold
from tests.harness.forked import serve_children

pytestmark = [pytest.mark.live, pytest.mark.slow]


async def test_programs_get_nothing_of_the_credentials_that_started_their_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Theirs may be other users; what else it has in its environment they have, too."""
    known = (FILE_VARIABLE, TOKEN_VARIABLE, AUTHORITY_VARIABLE, RUNTIME_VARIABLE, ADDRESS_VARIABLE)
    serve_children()  # while the folder of the test's own processes has its name
    for name in (*known, "KOALA_DEBUG", "TEST_MARK"):
        monkeypatch.setenv(name, "the agent's own")
    job = a_job()
    claim = f"{job}/1/0/1"
    said = tmp_path / "said"
    async with fake_daemon() as daemon, agent_process(tmp_path, daemon.target, job=job):
        session = await daemon.live(hold(claim, "-c", f"env > {said}"))
        await session.claim(claim, GRANTED)
        await passed(session, claim)
        await session.claim(claim, GONE)
    own = [line for line in said.read_text().splitlines() if line.endswith("=the agent's own")]
    assert own == ["TEST_MARK=the agent's own"]
    assert f"KOALA_CLAIM={claim}" in said.read_text().splitlines()


async def test_a_booking_begins_at_its_instant_by_the_clock_of_the_daemon(tmp_path: Path) -> None:
    """That of the site is decades ahead."""
    job = a_job()
    claim = f"{job}/1/0/1"
    async with fake_daemon() as daemon, agent_process(tmp_path, daemon.target, job=job):
        wanted = hold(claim, "-c", "true", wall_time_s=60.0)
        wanted.hold.begins_at = begins_at = daemon.now() + 4.0
        session = await daemon.live(wanted)
        await session.claim(claim, GRANTED)
        assert begins_at - 1.0 < daemon.now() < begins_at + 30.0
        await passed(session, claim)
        await session.claim(claim, GONE)
