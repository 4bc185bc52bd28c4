"""Programs of malleable jobs learn of their members: from a real agent, by sockets and by files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from koala.common.wire.v1 import link_pb2
from koala_agent.starter.process_tree import is_alive
from tests.agent.live.agent_process import a_job, agent_process
from tests.agent.live.claim_steps import passed
from tests.agent.live.fake_daemon import GONE, GRANTED, FakeSession, fake_daemon, hold
from tests.agent.watching import Ear
from tests.harness.moments import until

pytestmark = [pytest.mark.live]

FOLLOWS = """
import sys, time
from koala import job

def say(world, *more):
    labels = "+".join(part.label for part in world.components)
    print(world.number, labels, world.own.first_rank, *more, file=open(sys.argv[1], "w"))

assert list(job.resizes(timeout_s=0.01)) == []
say(job.world(), job.__file__)
for world in job.resizes(after=0):
    say(world, world.is_leaving and round(world.leave_by - time.time()))
    if job.is_leaving():
        break
"""
HEEDLESS = """
trap 'echo "$(cat $KOALA_WORLD)" > $0' USR1
sleep 600 &
echo $! > $0
while :; do wait; done
"""
"""It has a child that a signal would end, and takes no notice of what it is asked."""

ASKS = """
import os, socket, sys
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(os.environ["KOALA_KV"])
    lines = connection.makefile("rw")
    for line in ('{"op": "world", "after": 0}', '{"op": "world"}', '{"op": "what"}'):
        print(line, file=lines, flush=True)
        print(lines.readline().strip(), file=open(sys.argv[1], "w"))
"""


def a_resize(
    claim: str, number: int, *others: str, leave_s: float | None = None
) -> link_pb2.ToAgent:
    """The components of the labels `others` run before the one of the claim."""
    names = {**{name: f"other/1/{at}/1" for at, name in enumerate(others, start=1)}, "c0": claim}
    peers = [
        link_pb2.Peer(
            component=int(member.split("/")[2]),
            label=label,
            site="delft",
            processors=2,
            processes=2,
            address="127.0.0.1",
            port=20_000,
            claim=member,
        )
        for label, member in names.items()
    ]
    resize = link_pb2.Resize(claim=claim, number=number, peers=peers, leave_s=leave_s)
    return link_pb2.ToAgent(resize=resize)


async def started(session: FakeSession, claim: str) -> None:
    await session.claim(claim, GRANTED)
    await passed(session, claim)


@pytest.mark.parametrize("line", ["tcp", "files"])
async def test_a_program_follows_its_job_over_a_killed_agent_and_gives_way(
    tmp_path: Path, ear: Ear, line: str
) -> None:
    """Koala is not installed for it. What is repeated, or comes late, is nothing new."""
    job = a_job()
    claim = f"{job}/1/0/1"
    nowhere = link_pb2.Variable(name="PYTHONPATH", value=str(tmp_path / "nowhere"))
    words = ("-S", "-c", FOLLOWS, str(ear.path))
    wanted = hold(
        claim, *words, executable=sys.executable, is_malleable=True, environment=[nowhere]
    )
    rest = f'[starter]\nline = "{line}"\n'
    async with (
        fake_daemon() as daemon,
        agent_process(tmp_path, daemon.target, job=job, rest=rest) as agent,
    ):
        session = await daemon.live(wanted)
        await started(session, claim)
        number, labels, rank, module = (await ear.line()).split()
        assert (number, labels, rank) == ("0", "c0", "0")
        assert module.endswith(".koala/python/koala/job.py")
        session.want_more(a_resize(claim, 2, "left"), a_resize(claim, 1), a_resize(claim, 2))
        assert await ear.line() == "2 left+c0 2 False"
        await agent.kill()
        await agent.start()
        session = await daemon.live(
            hold(claim, is_granted=True), a_resize(claim, 2), a_resize(claim, 3, "left", "right")
        )
        assert await ear.line() == "3 left+right+c0 4 False"
        session.want_more(a_resize(claim, 4, "right", leave_s=90.0))
        assert await ear.line() == "4 right+c0 2 90"
        assert (await session.claim(claim, GONE)).end.kind == "exited"
    assert len(ear.all_lines()) == 4


async def test_a_signal_comes_to_who_handles_it_and_who_stays_is_stopped(
    tmp_path: Path, ear: Ear
) -> None:
    job = a_job()
    claim = f"{job}/1/0/1"
    wanted = hold(claim, "-c", HEEDLESS, str(ear.path), is_malleable=True, resize_signal="USR1")
    async with fake_daemon() as daemon, agent_process(tmp_path, daemon.target, job=job) as agent:
        session = await daemon.live(wanted)
        await started(session, claim)
        child = int(await ear.line())
        session.want_more(a_resize(claim, 1, "left"), a_resize(claim, 1, "right"))
        world = json.loads(await ear.line())
        assert (world["number"], world["component"], world["world_size"]) == (1, 0, 4)
        assert [(part["label"], part["first_rank"]) for part in world["components"]] == [
            ("left", 0),
            ("c0", 2),
        ]
        assert world["leave_by"] is None
        session.want_more(a_resize(claim, 2, leave_s=0.0))
        assert json.loads(await ear.line())["leave_by"] is not None
        assert is_alive(child), "the signal ended a process that does not handle it"
        session.say(stop=link_pb2.Stop(claim=claim))
        assert (await session.claim(claim, GONE)).end.kind == "stopped"
        await until(lambda: not agent.processes())
    assert len(ear.all_lines()) == 3


async def test_a_program_of_another_job_is_told_that_its_members_stay(
    tmp_path: Path, ear: Ear
) -> None:
    job = a_job()
    claim = f"{job}/1/0/1"
    wanted = hold(claim, "-c", ASKS, str(ear.path), executable=sys.executable)
    async with fake_daemon() as daemon, agent_process(tmp_path, daemon.target, job=job):
        session = await daemon.live(wanted)
        await started(session, claim)
        assert "expected one with malleable=yes" in await ear.line()
        assert "after = " in await ear.line()
        assert "not a request" in await ear.line()
