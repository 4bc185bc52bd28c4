"""Claims of a real agent process, against a small daemon that the test plays: life and leases.

What is waited for are messages and processes, never time. Leases are of seconds where they must run
out, long elsewhere.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from koala.client.connection import ADDRESS_VARIABLE
from koala.common.identity.credentials import (
    AUTHORITY_VARIABLE,
    FILE_VARIABLE,
    RUNTIME_VARIABLE,
    TOKEN_VARIABLE,
)
from koala.common.wire.v1 import link_pb2
from tests.agent.live.agent_process import a_job, agent_process, until
from tests.agent.live.claim_steps import FOREVER, passed, running
from tests.agent.live.fake_daemon import GONE, GRANTED, FakeSession, fake_daemon, hold
from tests.harness.programs import interpreters

pytestmark = [pytest.mark.live, pytest.mark.slow]


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
