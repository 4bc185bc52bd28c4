"""An agent in site mode in front of real batch systems: claims are jobs of users' accounts."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from koala.common.wire.v1 import link_pb2
from tests.agent.accounts import ANN, BOB, a_scratch, need_root, owners, python
from tests.agent.live.agent_process import AgentProcess, a_job, agent_process
from tests.agent.live.fake_daemon import GONE, PASSED, FakeDaemon, FakeSession, fake_daemon, hold
from tests.batch.conftest import need
from tests.batch.systems.gridengine import grid_engine_cells
from tests.batch.systems.htcondor import condor_pools
from tests.batch.systems.slurm import slurm_clusters
from tests.batch.systems.system import System, open_folder
from tests.harness.moments import until

pytestmark = pytest.mark.lrm

BECOME = {
    "root itself": "",
    "runuser": 'become = ["runuser", "-u", "{account}", "--"]',
}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Make a folder in which every account can read the configuration of a batch system."""
    need_root()
    with open_folder() as folder:
        yield folder


@pytest.fixture(scope="module", params=["slurm", "gridengine", "htcondor"])
def site(request: pytest.FixtureRequest, folder: Path) -> Iterator[System]:
    """A cluster or cell of 4 processors that all accounts may use."""
    need(request.param)
    if request.param == "slurm":
        with slurm_clusters(folder / "slurm", "epsilon:1x4") as systems:
            yield systems["epsilon"]
    elif request.param == "htcondor":
        with condor_pools(folder / "pool", "mu:1x4", accounts=True) as systems:
            yield systems["mu"]
    else:
        with grid_engine_cells(folder / "cell", "zeta:1x4", first_group=67_000) as systems:
            yield systems["zeta"]


@asynccontextmanager
async def an_agent(
    tmp_path: Path, daemon: FakeDaemon, site: System, scratch: Path, *, job: str, become: str
) -> AsyncIterator[AgentProcess]:
    """anna and bert have accounts."""
    accounts = f"""mode = "site"
map = {{ anna = "{ANN}", bert = "{BOB}" }}
system = ["{ANN}"]
{become}
"""
    rest = f"""grace_s = 30
{site.lrm_table("KOALA_TEST=accounts")}
[starter]
python = "{python()}"
scratch = "{scratch}"
"""
    async with agent_process(
        tmp_path, daemon.target, job=job, accounts=accounts, rest=rest
    ) as agent:
        try:
            yield agent
        finally:
            site.clear()


def jobs(site: System) -> dict[str, tuple[str, str]]:
    """Number to account and name of all jobs that have not ended."""
    if site.kind == "slurm":
        rows = [line.split() for line in site.run("squeue", "-h", "-o", "%i %u %j").splitlines()]
        return {number: (user, name) for number, user, name in rows}
    if site.kind == "htcondor":
        columns = "ClusterId,Owner,KoalaClaim"
        ads = json.loads(site.run("condor_q", "-allusers", "-json", "-attributes", columns) or "[]")
        return {str(ad["ClusterId"]): (ad["Owner"], ad["KoalaClaim"]) for ad in ads}
    from xml.etree import ElementTree

    tree = ElementTree.fromstring(site.run("qstat", "-u", "*", "-xml"))
    found = {}
    for row in tree.iter("job_list"):
        number, owner, name = (
            row.findtext(tag) or "" for tag in ("JB_job_number", "JB_owner", "JB_name")
        )
        found[number] = (owner, name)
    return found


def submit_as(site: System, account: str, name: str) -> None:
    """A job of the account's own, under a name of its choice."""
    entry = pwd.getpwnam(account)
    script = "#!/bin/sh\nsleep 600\n"
    words = ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]
    if site.kind == "slurm":
        command = ["sbatch", "-n", "1", "-J", name, "-o", "/dev/null", "-D", "/"]
    elif site.kind == "htcondor":
        command = ["condor_submit", "-terse", "-append", f'+KoalaClaim = "{name}"', "-"]
        script = "executable = /bin/sleep\ntransfer_executable = False\narguments = 600\nqueue\n"
    else:
        command = ["qsub", "-N", name, "-pe", "grid", "1", "-j", "y", "-o", "/dev/null"]
        command += ["-S", "/bin/sh"]
    subprocess.run(
        [*words, "--", *command],
        input=script,
        text=True,
        env={**os.environ, **site.environment, "USER": account, "HOME": "/"},
        cwd="/",
        check=True,
        capture_output=True,
        timeout=60,
    )


async def said(session: FakeSession, claim: str) -> list[str]:
    """Return the program's output as soon as it has come to the agent."""
    while True:
        session.say(log_request=link_pb2.LogRequest(claim=claim, request=1, stream="stdout"))
        chunk = await session.next("log")
        assert not chunk.error, chunk.error
        if chunk.data:
            return str(bytes(chunk.data).decode()).split()


@pytest.mark.parametrize("become", BECOME.values(), ids=BECOME.keys())
async def test_claims_are_jobs_of_their_users_accounts_whatever_others_call_theirs(
    tmp_path: Path, site: System, become: str
) -> None:
    job = a_job()
    first, second = f"{job}/1/0/1", f"{job}/1/1/1"
    script = "id -un; echo made > made; exec sleep 1000"
    async with fake_daemon() as daemon:
        with a_scratch() as scratch:
            async with an_agent(tmp_path, daemon, site, scratch, job=job, become=become) as agent:
                session = await daemon.live(
                    hold(first, "-c", script, owner="anna", no_barrier=True),
                    hold(second, "-c", script, owner="bert", no_barrier=True, ask_number=2),
                )
                for claim, account in ((first, ANN), (second, BOB)):
                    await session.claim(claim, PASSED)
                    assert await said(session, claim) == [account]
                found = await asyncio.to_thread(jobs, site)
                names = dict(found.values())
                assert sorted(names) == sorted([ANN, BOB])
                for folder in await asyncio.to_thread(lambda: list(scratch.iterdir())):
                    uid = (await asyncio.to_thread(folder.stat)).st_uid
                    assert await asyncio.to_thread(owners, folder) == {(uid, 0)}

                # bert's account takes the name of anna's job for one of its own.
                await asyncio.to_thread(submit_as, site, BOB, names[ANN])
                await agent.kill()
                await agent.start()
                session = await daemon.session()
                inventory = await session.inventory()
                assert {inventory[claim].state for claim in (first, second)} == {PASSED}
                session.welcome()
                session.want()
                for claim in (first, second):
                    assert (await session.claim(claim, GONE)).end.kind == "stopped"
                # What is left is bert's own affair.
                await until(lambda: list(jobs(site).values()) == [(BOB, names[ANN])])
                await until(lambda: not any(scratch.iterdir()))
