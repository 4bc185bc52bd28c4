"""Claims of a real agent process, against a small daemon that the test plays: life and leases.

What is waited for are messages and processes, never time. Leases are of seconds where they must run
out, long elsewhere.
"""

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
from tests.agent.live.claim_steps import FOREVER, passed, running
from tests.agent.live.fake_daemon import GONE, GRANTED, fake_daemon, hold
from tests.harness.forked import serve_children
from tests.harness.moments import until

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


async def test_nothing_outlives_its_lease_while_the_daemon_is_away(tmp_path: Path) -> None:
    job = a_job()
    held, runs = f"{job}/1/0/1", f"{job}/1/1/1"
    async with fake_daemon() as daemon, agent_process(tmp_path, daemon.target, job=job) as agent:
        session = await daemon.live(
            hold(held, *FOREVER),
            hold(runs, *FOREVER, ask_number=2),
            hold_lease_s=6.0,
            run_lease_s=6.0,
            kill_s=0.5,
        )
        await session.claim(held, GRANTED)
        await session.claim(runs, GRANTED)
        await passed(session, runs, late_s=3.0)
        await daemon.stop()
        await agent.nothing_left()
        await daemon.start()
        known = [hold(claim, is_granted=True) for claim in (held, runs)]
        session = await daemon.live(*known)
        for claim in (held, runs):
            gone = await session.claim(claim, GONE)
            assert gone.end.kind == "lease"


async def test_no_program_outlives_its_lease_when_the_agent_is_gone_as_well(
    tmp_path: Path,
) -> None:
    """The starter itself may stay a little, to tell its end to the next agent."""
    job = a_job()
    claim = f"{job}/1/0/1"
    async with fake_daemon() as daemon, agent_process(tmp_path, daemon.target, job=job) as agent:
        await running(daemon, claim, run_lease_s=4.0, kill_s=0.5)
        await agent.kill()
        await until(lambda: not agent.programs())
        await agent.start()
        session = await daemon.live(hold(claim, is_granted=True))
        gone = await session.claim(claim, GONE)
        assert gone.end.kind == "lease"
        await agent.nothing_left()
