"""Claims that run as accounts of the machine: an agent in site mode, which must be root here.

What an account does to its own folder must lead the agent nowhere.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from koala.wire.v1 import link_pb2
from tests.agent.accounts import ANN, BOB, as_account, homes, owners, python
from tests.agent.live.agent_process import AgentProcess, a_job, agent_process, until
from tests.agent.live.fake_daemon import (
    GONE,
    PASSED,
    FakeDaemon,
    FakeSession,
    fake_daemon,
    hold,
)

pytestmark = [pytest.mark.live]


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder for each of the accounts, where others may pass but not look."""
    with homes() as home:
        yield home


@asynccontextmanager
async def a_site(
    tmp_path: Path, daemon: FakeDaemon, home: Path, *, job: str, rest: str = ""
) -> AsyncIterator[AgentProcess]:
    """anna and bert have accounts; cora has none."""
    accounts = f"""mode = "site"
map = {{ anna = "{ANN}", bert = "{BOB}" }}
system = ["{ANN}"]
work = "{home}/{{account}}/{{site}}"
"""
    rest = f'{rest}\n[starter]\npython = "{python()}"\n'
    async with agent_process(
        tmp_path, daemon.target, job=job, accounts=accounts, rest=rest
    ) as agent:
        yield agent


async def log_of(session: FakeSession, claim: str, stream: str = "stdout") -> link_pb2.LogChunk:
    """What `koala logs` gets."""
    session.say(log_request=link_pb2.LogRequest(claim=claim, request=1, stream=stream))
    chunk = await session.next("log")
    assert isinstance(chunk, link_pb2.LogChunk)
    return chunk


async def test_each_claim_runs_as_its_user_s_account_in_a_folder_of_its_own(
    tmp_path: Path, home: Path
) -> None:
    job = a_job()
    first, second, third = (f"{job}/1/{i}/1" for i in range(3))
    script = "id -u; id -g; umask; echo $HOME $USER; echo made > made; exec sleep 1000"
    async with (
        fake_daemon() as daemon,
        a_site(tmp_path, daemon, home, job=job) as agent,
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
            folder = home / name / "delft" / claim.replace("/", "-")
            await until((folder / "made").exists)
            said = (folder / "stdout.0").read_text().split()
            assert said == [str(entry.pw_uid), str(entry.pw_gid), "0077", entry.pw_dir, name]
            assert owners(home / name) == {(entry.pw_uid, 0)}
            chunk = await log_of(session, claim)
            assert chunk.data.decode().split() == said
        assert as_account(BOB, "cat", str(home / ANN / "delft")).returncode != 0
        assert as_account(ANN, "ls", str(agent.state_dir)).returncode != 0
        uids = {os.stat(f"/proc/{pid}").st_uid for pid in agent.processes()}  # noqa: PTH116
        assert uids == {pwd.getpwnam(ANN).pw_uid, pwd.getpwnam(BOB).pw_uid}
        await agent.kill()
        await agent.start()
        session = await daemon.session()
        inventory = await session.inventory()
        assert {inventory[claim].state for claim in (first, second)} == {PASSED}
        session.welcome()
        session.want()
        for claim in (first, second):
            assert (await session.claim(claim, GONE)).end.kind == "stopped"
        assert not agent.processes()
