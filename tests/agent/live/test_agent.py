"""A real agent process with real claims, against a small daemon that the test plays.

What is waited for are messages and processes, never time. Leases are of seconds where they must run
out, long elsewhere.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from koala.client.connection import ADDRESS_VARIABLE
from koala.identity.credentials import (
    AUTHORITY_VARIABLE,
    FILE_VARIABLE,
    RUNTIME_VARIABLE,
    TOKEN_VARIABLE,
)
from koala.runtime import clock
from koala.wire.v1 import link_pb2
from tests.agent.live.agent_process import (
    COMMAND,
    AgentProcess,
    a_job,
    agent_process,
    environment,
    until,
)
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
from tests.harness.pythons import interpreters

pytestmark = [pytest.mark.live, pytest.mark.slow]

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


async def both(agent: AgentProcess) -> list[int]:
    """Starter and program. While a process becomes its program it has no environment, and is not
    seen: so this is waited for, and may have to be again."""
    seen: list[int] = []

    def are_two() -> bool:
        seen[:] = agent.processes()
        return len(seen) == 2

    await until(are_two)
    return seen


async def test_a_claim_goes_through_its_whole_life_and_is_forgotten(tmp_path: Path) -> None:
    job = a_job()
    claim = f"{job}/1/0/1"
    async with fake_daemon() as daemon, agent_process(tmp_path, daemon.target, job=job) as agent:
        session = await daemon.live(hold(claim, "-c", "exit 3"))
        assert session.register.site == "delft"
        assert session.register.facts.processors == 4
        assert session.register.idle == 4
        granted = await session.claim(claim, GRANTED)
        assert granted.nonce
        site = await session.next("site", lambda report: report.through == 1)
        assert site.idle == 3
        told = await passed(session, claim)
        assert told.nonce == granted.nonce
        gone = await session.claim(claim, GONE)
        assert gone.nonce == granted.nonce
        assert gone.passed_at == told.passed_at
        assert (gone.end.kind, list(gone.end.statuses)) == ("exited", [3])
        await agent.nothing_left()
        await session.next("site", lambda report: report.idle == 4)
        session.say(acknowledge=link_pb2.Acknowledge(claim=claim))
        session.end()
        again = await daemon.session()
        assert claim not in await again.inventory()


async def test_programs_get_nothing_of_the_credentials_that_started_their_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Theirs may be other users; what else it has in its environment they have, too."""
    known = (FILE_VARIABLE, TOKEN_VARIABLE, AUTHORITY_VARIABLE, RUNTIME_VARIABLE, ADDRESS_VARIABLE)
    for name in (*known, "KOALA_DEBUG", "KOALA_TEST_MARK"):
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
    assert own == ["KOALA_TEST_MARK=the agent's own"]
    assert f"KOALA_CLAIM={claim}" in said.read_text().splitlines()


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
        session.welcome()
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


async def test_a_claim_that_nobody_wants_is_stopped_to_its_last_process(tmp_path: Path) -> None:
    """Its program leaves its session and ignores SIGTERM."""
    job = a_job()
    claim = f"{job}/1/0/1"
    program = "trap '' TERM; setsid sleep 600 & sleep 600"
    async with fake_daemon() as daemon, agent_process(tmp_path, daemon.target, job=job) as agent:
        session = await daemon.live(hold(claim, "-c", program))
        await session.claim(claim, GRANTED)
        await passed(session, claim)
        session.end()
        session = await daemon.live()
        gone = await session.claim(claim, GONE)
        assert gone.end.kind == "stopped"
        await agent.nothing_left()


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


async def test_components_exchange_values_through_the_daemon(tmp_path: Path) -> None:
    job = a_job()
    claim = f"{job}/1/0/1"
    script = tmp_path / "exchange.py"
    script.write_text("""
import json, os, socket
link = socket.socket(socket.AF_UNIX)
link.connect(os.environ["KOALA_KV"])
lines = link.makefile("rw")
for request in (
    {"op": "put", "name": "addr/0", "value": "127.0.0.1:4242"},
    {"op": "get", "name": "addr/1", "wait_s": 20},
):
    lines.write(json.dumps(request) + "\\n")
    lines.flush()
    print(lines.readline().strip(), flush=True)
""")
    async with fake_daemon() as daemon, agent_process(tmp_path, daemon.target, job=job):
        session = await daemon.live(hold(claim, str(script), executable=sys.executable))
        await session.claim(claim, GRANTED)
        await passed(session, claim)
        put = await session.next("kv_put")
        assert (put.claim, put.name, put.value) == (claim, "addr/0", "127.0.0.1:4242")
        session.say(kv_answer=link_pb2.KvAnswer(claim=claim, request=put.request, ok=True))
        get = await session.next("kv_get")
        assert (get.name, get.wait_s) == ("addr/1", 20)
        # The link is cut while the question is open: it is asked again, and the put is told again.
        session.end()
        session = await daemon.live(hold(claim, is_granted=True))
        assert [again.name for again in session.waiting("kv_put")] == ["addr/0"]
        get = await session.next("kv_get")
        session.say(
            kv_answer=link_pb2.KvAnswer(claim=claim, request=get.request, ok=True, value="b:1")
        )
        gone = await session.claim(claim, GONE)
        assert list(gone.end.statuses) == [0]
        log = await a_log(session, claim)
    first, second = (json.loads(line) for line in log.data.splitlines())
    assert first == {"ok": True}
    assert second == {"ok": True, "value": "b:1"}


async def a_log(session: FakeSession, claim: str, **wanted: object) -> link_pb2.LogChunk:
    """Part of a log of a claim."""
    request = link_pb2.LogRequest(claim=claim, request=1)
    for name, value in {"stream": "stdout", **wanted}.items():
        setattr(request, name, value)
    session.say(log_request=request)
    chunk = await session.next("log")
    assert isinstance(chunk, link_pb2.LogChunk)
    return chunk


async def test_logs_are_read_while_a_program_runs_and_after_it(tmp_path: Path) -> None:
    job = a_job()
    claim = f"{job}/1/0/1"
    mark = tmp_path / "written"
    program = f"echo out $KOALA_PROCESS; echo err >&2; echo > {mark}.$KOALA_PROCESS; exec sleep 600"
    async with fake_daemon() as daemon, agent_process(tmp_path, daemon.target, job=job):
        session = await daemon.live(hold(claim, "-c", program, processors=2, processes=2))
        await session.claim(claim, GRANTED)
        await passed(session, claim)
        await until(lambda: all(Path(f"{mark}.{n}").exists() for n in (0, 1)))
        chunk = await a_log(session, claim, process=1)
        assert (chunk.data, chunk.is_over, chunk.error) == (b"out 1\n", False, "")
        chunk = await a_log(session, claim, stream="stderr", offset=1, size_max=2)
        assert (chunk.data, chunk.offset) == (b"rr", 1)
        session.say(stop=link_pb2.Stop(claim=claim))
        await session.claim(claim, GONE)
        chunk = await a_log(session, claim)
        assert (chunk.data, chunk.is_over) == (b"out 0\n", True)
        chunk = await a_log(session, f"{job}/9/0/1")
        assert chunk.is_over
        assert chunk.error


async def test_the_site_s_own_limits_win_over_what_the_daemon_asks(tmp_path: Path) -> None:
    job = a_job()
    large, long = f"{job}/1/0/1", f"{job}/1/1/1"
    limits = "largest_claim = 2\nlongest_hold_s = 30"
    async with (
        fake_daemon() as daemon,
        agent_process(tmp_path, daemon.target, job=job, rest=limits),
    ):
        session = await daemon.live(
            hold(large, *FOREVER, processors=3),
            hold(long, *FOREVER, hold_s=31.0, ask_number=2),
        )
        gone = await session.claim(large, GONE)
        assert gone.end.kind == "refused"
        assert gone.end.reason == "3 processors: site.largest_claim allows 2 here"
        gone = await session.claim(long, GONE)
        assert gone.end.reason == "a hold of 31 s: site.longest_hold_s allows 30 s here"
        await session.next("site", lambda report: report.through == 2 and report.idle == 4)


async def test_another_user_s_claim_is_refused_whatever_the_daemon_asks(tmp_path: Path) -> None:
    job = a_job()
    claim = f"{job}/1/0/1"
    async with fake_daemon() as daemon, agent_process(tmp_path, daemon.target, job=job):
        session = await daemon.live(hold(claim, *FOREVER, owner="bob"))
        facts = session.register.facts
        assert (facts.owner, list(facts.users)) == ("anna", [])
        gone = await session.claim(claim, GONE)
        reason = "a claim of bob: accounts.user allows those of anna here"
        assert (gone.end.kind, gone.end.reason) == ("refused", reason)


async def test_a_program_that_the_site_does_not_list_is_refused_and_costs_nothing(
    tmp_path: Path,
) -> None:
    job = a_job()
    listed, other, outside, naming = (f"{job}/1/{number}/1" for number in range(4))
    folder = tmp_path / "apps"
    folder.mkdir()
    (folder / "program").write_text("#!/bin/bash\ntest $SEED = 4\n")
    (folder / "program").chmod(0o755)
    rest = f'executables = ["{folder}"]\nvariables = ["SEED"]'
    program = str(folder / "program")
    async with (
        fake_daemon() as daemon,
        agent_process(tmp_path, daemon.target, job=job, rest=rest) as agent,
    ):
        session = await daemon.live(
            hold(other, *FOREVER),
            hold(
                listed,
                executable=program,
                no_barrier=True,
                ask_number=2,
                environment=[link_pb2.Variable(name="SEED", value="4")],
            ),
            hold(outside, executable=program, stdout=str(tmp_path / "x")),
            hold(
                naming,
                executable=program,
                environment=[link_pb2.Variable(name="BASH_ENV", value=f"$(touch {tmp_path}/x)")],
            ),
        )
        gone = await session.claim(other, GONE)
        assert gone.end.kind == "refused"
        assert f"site.executables allows programs below {folder}" in gone.end.reason
        gone = await session.claim(outside, GONE)
        assert gone.end.kind == "refused"
        assert f"stdout '{tmp_path / 'x'}': allowed with site.executables" in gone.end.reason
        gone = await session.claim(naming, GONE)
        assert gone.end.kind == "refused"
        assert "environment variable 'BASH_ENV': allowed with" in gone.end.reason
        gone = await session.claim(listed, GONE)
        assert (gone.end.kind, list(gone.end.statuses)) == ("exited", [0])
        assert not (tmp_path / "x").exists()
        assert not (agent.state_dir / "claims" / other.replace("/", "-") / ".koala").exists()


async def test_what_does_not_start_within_the_grace_time_is_refused(tmp_path: Path) -> None:
    job = a_job()
    first, second = f"{job}/1/0/1", f"{job}/1/1/1"
    async with (
        fake_daemon() as daemon,
        agent_process(tmp_path, daemon.target, job=job, rest="grace_s = 60") as agent,
    ):
        session = await daemon.live(hold(first, *FOREVER, processors=4))
        await session.claim(first, GRANTED)
        await agent.kill()
        text = agent.config.read_text().replace("grace_s = 60", "grace_s = 0.3")
        agent.config.write_text(text)
        await agent.start()
        session = await daemon.live(hold(first, *FOREVER, processors=4, is_granted=True))
        session.want_more(hold(second, *FOREVER, processors=1, ask_number=2))
        gone = await session.claim(second, GONE)
        assert gone.end.kind == "refused"
        assert agent.processes(), "the first is left alone"


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


async def test_an_agent_without_a_daemon_ends_in_order_as_well(tmp_path: Path) -> None:
    async with fake_daemon() as daemon:
        target = daemon.target
    job = a_job()
    async with agent_process(tmp_path, target, job=job) as agent:
        await until(lambda: "is not reached" in str(agent))
        assert await agent.terminate() == 0


async def test_an_agent_that_is_started_without_standard_streams_serves(tmp_path: Path) -> None:
    closing = ("/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh")
    async with (
        fake_daemon() as daemon,
        agent_process(tmp_path, daemon.target, job=a_job(), prefix=closing) as agent,
    ):
        await daemon.session()
        assert await agent.terminate() == 0


async def run(*arguments: str) -> tuple[int, str, str]:
    """The command, to its end: status, standard output and error."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(),
    )
    out, err = await patiently(process.communicate())
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_a_second_agent_on_the_same_state_directory_is_refused(tmp_path: Path) -> None:
    async with (
        fake_daemon() as daemon,
        agent_process(tmp_path, daemon.target, job=a_job()) as agent,
    ):
        await daemon.session()
        pid = agent.state_dir.joinpath("agent.pid").read_text().strip()
        status, _, error = await run(str(agent.config))
        assert status == 2
        assert error == (
            f"koala-agent: {agent.state_dir}: another agent runs with this state directory"
            f" (pid {pid})\n"
        )


async def test_wrong_usage_and_configuration_end_with_status_2(tmp_path: Path) -> None:
    status, _, error = await run()
    assert status == 2
    assert "CONFIG.toml" in error
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[agent]\nsite = 3\n")
    status, out, error = await run(str(wrong))
    assert (status, out) == (2, "")
    assert error == f"koala-agent: {wrong}: agent.site = 3: allowed is str, got int\n"
    status, out, _ = await run("--version")
    assert status == 0
    assert out.startswith("koala-agent ")


async def test_a_final_refusal_ends_the_agent_with_the_daemon_s_reason(tmp_path: Path) -> None:
    async with (
        fake_daemon() as daemon,
        agent_process(tmp_path, daemon.target, job=a_job()) as agent,
    ):
        session = await daemon.session()
        session.say(reject=link_pb2.Reject(reason="unknown site 'delft'", is_final=True))
        assert await ended(agent) == 1
        assert "refuses site delft: unknown site 'delft'" in str(agent)


async def ended(agent: AgentProcess) -> int:
    """The exit status of an agent that ends by itself."""
    assert agent.process is not None
    return await patiently(agent.process.ended())


async def test_work_folders_go_after_their_time_and_not_before(tmp_path: Path) -> None:
    job = a_job()
    claim = f"{job}/1/0/1"
    async with (
        fake_daemon() as daemon,
        agent_process(tmp_path, daemon.target, job=job, agent="keep_s = 0") as agent,
    ):
        session = await daemon.live(hold(claim, "-c", "pwd > where; pwd"))
        await session.claim(claim, GRANTED)
        await passed(session, claim)
        await session.claim(claim, GONE)
        log = await a_log(session, claim)
        folder = Path(log.data.decode().strip())
        assert folder.joinpath("where").exists()
        session.say(acknowledge=link_pb2.Acknowledge(claim=claim))
        await until(lambda: not folder.exists())
        assert agent.state_dir in folder.parents


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


async def test_an_agent_runs_its_starters_with_the_interpreter_of_its_configuration(
    tmp_path: Path,
) -> None:
    """Here the oldest one that there is."""
    name, path = min(interpreters().items(), key=lambda item: int(item[0].rpartition(".")[2]))
    job = a_job()
    claim = f"{job}/1/0/1"
    python = f'[starter]\npython = "{path}"'
    script = "tr '\\0' ' ' < /proc/$PPID/cmdline"
    async with (
        fake_daemon() as daemon,
        agent_process(tmp_path, daemon.target, job=job, rest=python) as agent,
    ):
        session = await daemon.live(hold(claim, "-c", script, executable="/bin/sh"))
        await session.claim(claim, GRANTED)
        await passed(session, claim)
        gone = await session.claim(claim, GONE)
        assert list(gone.end.statuses) == [0], (name, str(agent))
    (said,) = [stdout.read_text() for stdout in everything_named(tmp_path, "stdout.0")]
    assert said.startswith(f"{path} -I -S ")


def everything_named(folder: Path, name: str) -> list[Path]:
    return list(folder.rglob(name))
