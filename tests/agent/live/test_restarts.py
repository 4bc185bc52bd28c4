"""Real claims while their agent is killed and started again, and while its daemon is away.

What is waited for are messages and processes, never time. Leases are of seconds where they must run
out, long elsewhere.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from koala.common.runtime import clock
from koala.common.wire.v1 import link_pb2
from tests.agent.live.agent_process import a_job, agent_process, until
from tests.agent.live.claim_steps import FOREVER, both, passed, pinged, running
from tests.agent.live.fake_daemon import (
    ARMED,
    ASKED,
    GONE,
    GRANTED,
    LATE_S,
    PASSED,
    FakeDaemon,
    FakeSession,
    a_release,
    fake_daemon,
    hold,
    patiently,
)

pytestmark = [pytest.mark.live, pytest.mark.slow]


async def test_an_agent_that_was_killed_finds_its_running_claim_again(tmp_path: Path) -> None:
    job = a_job()
    claim = f"{job}/1/0/1"
    async with fake_daemon() as daemon, agent_process(tmp_path, daemon.target, job=job) as agent:
        session = await daemon.live(hold(claim, *FOREVER))
        granted = await session.claim(claim, GRANTED)
        told = await passed(session, claim)
        alive = await both(agent)
        await agent.kill()
        await patiently(session.is_over.wait())
        await until(lambda: agent.processes() == alive)
        await agent.start()
        session = await daemon.session()
        found = await session.inventory()
        assert found[claim].state == PASSED
        assert found[claim].nonce == granted.nonce
        assert found[claim].passed_at == told.passed_at
        session.welcome()  # first: the starter's pings are answered
        session.want(hold(claim, *FOREVER, is_granted=True))
        session.say(stop=link_pb2.Stop(claim=claim))
        gone = await session.claim(claim, GONE)
        assert gone.end.kind == "stopped"
        await agent.nothing_left()


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


async def test_a_restarted_daemon_finds_everything_as_it_was(tmp_path: Path) -> None:
    job = a_job()
    first, second = f"{job}/1/0/1", f"{job}/1/1/1"
    async with fake_daemon() as daemon, agent_process(tmp_path, daemon.target, job=job) as agent:
        # Pings of a calm second lease would be seconds apart, and the Arm waits for one.
        session = await running(daemon, first, hold_lease_s=10.0)
        session.want_more(hold(second, *FOREVER, ask_number=2))
        granted = await session.claim(second, GRANTED)
        alive = set(agent.processes())
        await daemon.stop()
        daemon.epoch = 2
        await daemon.start()
        session = await daemon.session()
        assert session.register.epoch_seen == 1
        found = await session.inventory()
        assert found[first].state == PASSED
        assert (found[second].state, found[second].nonce) == (GRANTED, granted.nonce)
        session.welcome(hold_lease_s=10.0)
        session.want(
            hold(first, *FOREVER, is_granted=True),
            hold(second, *FOREVER, ask_number=2, is_granted=True),
        )
        await passed(session, second, late_s=5.0)
        assert alive <= set(agent.processes())


async def test_a_daemon_of_an_older_epoch_stops_nothing(tmp_path: Path) -> None:
    job = a_job()
    claim = f"{job}/1/0/1"
    async with (
        fake_daemon(epoch=5) as daemon,
        agent_process(tmp_path, daemon.target, job=job) as agent,
    ):
        session = await running(daemon, claim)
        alive = await both(agent)
        daemon.epoch = 4
        session.end()
        assert await turned_away(daemon) == "the daemon has epoch 4, a later one of 5 was here"
        await agent.kill()  # the epoch outlives the process
        await agent.start()
        assert await turned_away(daemon) == "the daemon has epoch 4, a later one of 5 was here"
        daemon.epoch = 5
        session = await daemon.session()
        assert session.register.epoch_seen == 5
        assert (await session.inventory())[claim].state == PASSED
        await until(lambda: agent.processes() == alive)


async def turned_away(daemon: FakeDaemon) -> str:
    """Wants nothing of an agent that says why it leaves; sessions that a kill cut do not count."""
    while True:
        session = await daemon.session()
        session.welcome()
        session.want()
        await patiently(session.is_over.wait())
        if session.goodbye:
            return session.goodbye


async def test_an_orderly_end_says_goodbye_and_leaves_jobs_running(tmp_path: Path) -> None:
    job = a_job()
    claim = f"{job}/1/0/1"
    async with fake_daemon() as daemon, agent_process(tmp_path, daemon.target, job=job) as agent:
        session = await running(daemon, claim)
        alive = await both(agent)
        assert await agent.terminate() == 0
        await patiently(session.is_over.wait())
        assert session.goodbye == "the agent got SIGTERM"
        await until(lambda: agent.processes() == alive)
        await agent.start()
        session = await daemon.session()
        assert (await session.inventory())[claim].state == PASSED


async def test_an_asked_claim_is_in_the_inventory_as_asked(tmp_path: Path) -> None:
    job = a_job()
    first, second = f"{job}/1/0/1", f"{job}/1/1/1"
    async with (
        fake_daemon() as daemon,
        agent_process(tmp_path, daemon.target, job=job, rest="grace_s = 60"),
    ):
        wanted = (
            hold(first, *FOREVER, processors=4),
            hold(second, *FOREVER, processors=1, ask_number=2),
        )
        session = await daemon.live(wanted[0])
        await session.claim(first, GRANTED)
        session.want_more(wanted[1])  # asked together, either of them may come first
        await session.next("site", lambda report: report.through == 2)
        session.end()
        session = await daemon.session()
        found = await session.inventory()
        assert (found[first].state, found[second].state) == (GRANTED, ASKED)
        session.welcome()
        session.want(*wanted)
        report = await session.next("site", lambda report: report.through == 2)
        assert report.idle == 0
