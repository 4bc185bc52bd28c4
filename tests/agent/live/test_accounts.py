"""Claims that run as accounts of the machine: an agent in site mode, which must be root here.

What an account does to its own folder must lead the agent nowhere.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from koala.common.wire.v1 import link_pb2
from tests.agent.accounts import ANN, BOB, a_scratch, as_account, owners, python
from tests.agent.live.agent_process import AgentProcess, a_job, agent_process
from tests.agent.live.fake_daemon import (
    GONE,
    GRANTED,
    PASSED,
    FakeDaemon,
    FakeSession,
    fake_daemon,
    hold,
)
from tests.harness.moments import until

pytestmark = [pytest.mark.live]


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Make a folder in which every account may make folders and look into its own."""
    with a_scratch() as folder:
        yield folder


@asynccontextmanager
async def a_site(
    tmp_path: Path, daemon: FakeDaemon, scratch: Path, *, job: str, agent: str = "", rest: str = ""
) -> AsyncIterator[AgentProcess]:
    """anna and bert have accounts; cora has none."""
    accounts = f'''mode = "site"
map = {{ anna = "{ANN}", bert = "{BOB}" }}
system = ["{ANN}"]
'''
    rest = f'{rest}\n[starter]\npython = "{python()}"\nscratch = "{scratch}"\n'
    async with agent_process(
        tmp_path, daemon.target, job=job, agent=agent, accounts=accounts, rest=rest
    ) as process:
        yield process


async def log_of(
    session: FakeSession, claim: str, stream: str = "stdout", *, words: int = 1
) -> str:
    """Read a log as `koala logs` does, as soon as it has so many words."""
    while True:
        session.say(log_request=link_pb2.LogRequest(claim=claim, request=1, stream=stream))
        chunk = await session.next("log")
        assert not chunk.error, chunk.error
        text = bytes(chunk.data).decode()
        if chunk.is_over or len(text.split()) >= words:
            return text


def below(folder: Path) -> list[Path]:
    """List the content of a folder."""
    return sorted(folder.iterdir())


def uids(pids: list[int]) -> set[int]:
    """List the owners of those processes that are still alive."""
    found = set()
    for pid in pids:
        with suppress(FileNotFoundError):
            found.add(Path(f"/proc/{pid}").stat().st_uid)
    return found


async def test_each_claim_runs_as_its_user_s_account_where_no_other_can_look(
    tmp_path: Path, scratch: Path
) -> None:
    job = a_job()
    first, second, third = (f"{job}/1/{i}/1" for i in range(3))
    sealed = "mkdir -p sealed/more; echo made > sealed/more/made; chmod 0 sealed/more sealed"
    script = f"id -u; id -g; umask; echo $HOME $USER; {sealed}; exec sleep 1000"
    async with (
        fake_daemon() as daemon,
        a_site(tmp_path, daemon, scratch, job=job) as agent,
    ):
        session = await daemon.live(
            hold(first, "-c", script, owner="anna", no_barrier=True),
            hold(second, "-c", script, owner="bert", no_barrier=True, ask_number=2),
            hold(third, "-c", script, owner="cora", no_barrier=True, ask_number=3),
        )
        facts = session.register.facts
        assert (facts.owner, list(facts.users)) == ("", ["anna", "bert"])
        gone = await session.claim(third, GONE)
        assert gone.end.reason == "a claim of cora: accounts.map allows those of anna, bert here"
        for claim, name in ((first, ANN), (second, BOB)):
            await session.claim(claim, PASSED)
            entry = pwd.getpwnam(name)
            said = (await log_of(session, claim, words=5)).split()
            assert said == [str(entry.pw_uid), str(entry.pw_gid), "0077", entry.pw_dir, name]
        of_both = {pwd.getpwnam(ANN).pw_uid, pwd.getpwnam(BOB).pw_uid}
        assert uids(agent.processes()) == of_both
        folders = below(scratch)
        assert {folder.stat().st_uid for folder in folders} == of_both
        for folder in folders:
            assert owners(folder) == {(folder.stat().st_uid, 0)}, "nobody else sees anything of it"
            is_ann = folder.stat().st_uid == pwd.getpwnam(ANN).pw_uid
            assert as_account(BOB if is_ann else ANN, "ls", str(folder)).returncode != 0
        for name in (ANN, BOB):
            assert as_account(name, "ls", str(agent.state_dir)).returncode != 0
        found = agent.state_dir.stat()
        assert (found.st_uid, found.st_mode & 0o777) == (os.geteuid(), 0o700)
        await agent.kill()
        await agent.start()
        session = await daemon.session()
        inventory = await session.inventory()
        assert {inventory[claim].state for claim in (first, second)} == {PASSED}
        session.welcome()
        session.want()
        for claim in (first, second):
            assert (await session.claim(claim, GONE)).end.kind == "stopped"
        await agent.nothing_left()
        await until(lambda: not below(scratch))  # the batch script removes what was there


async def test_what_an_account_starts_and_hides_ends_with_its_claim(
    tmp_path: Path, scratch: Path
) -> None:
    job = a_job()
    claim = f"{job}/1/0/1"
    daemon_like = "setsid sh -c 'trap : TERM; while :; do sleep 1; done' & sleep 1000"
    async with (
        fake_daemon() as daemon,
        a_site(tmp_path, daemon, scratch, job=job) as agent,
    ):
        session = await daemon.live(hold(claim, "-c", daemon_like, owner="bert", no_barrier=True))
        await session.claim(claim, PASSED)
        assert uids(agent.processes()) == {pwd.getpwnam(BOB).pw_uid}
        session.say(stop=link_pb2.Stop(claim=claim))
        assert (await session.claim(claim, GONE)).end.kind == "stopped"
        await agent.nothing_left()
        await until(lambda: not below(scratch))  # the batch script removes what was there


async def test_a_user_who_lost_the_account_is_refused_and_never_becomes_the_agent(
    tmp_path: Path, scratch: Path
) -> None:
    """A claim was asked for, the agent ended, and the administrator took the user off the list."""
    job = a_job()
    first, second = f"{job}/1/0/1", f"{job}/1/1/1"
    async with (
        fake_daemon() as daemon,
        a_site(tmp_path, daemon, scratch, job=job, rest="grace_s = 600") as agent,
    ):
        waiting = hold(second, "-c", "id -u", owner="anna", processors=4, ask_number=2)
        running = hold(first, "-c", "sleep 1000", owner="bert", processors=4)
        session = await daemon.live(running)
        await session.claim(first, GRANTED)
        session.want_more(waiting)
        await session.next("site", lambda report: report.through == 2)
        await agent.kill()
        text = agent.config.read_text().replace(f'anna = "{ANN}", ', "")
        agent.config.write_text(text)
        await agent.start()
        session = await daemon.session()
        await session.inventory()
        session.welcome()
        session.want(waiting)  # and so the first is stopped
        assert (await session.claim(first, GONE)).end.kind == "stopped"
        gone = await session.claim(second, GONE)
        assert "accounts.map" in gone.end.reason
        await agent.nothing_left()
