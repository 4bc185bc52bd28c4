"""Starters that are forks of a resident parent: like executed ones, and none lost or doubled."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from koala.common.protocol.messages import EndKind, ReportState
from koala_agent.claims.settings import LeaseTimes
from koala_agent.lrm.claim_processes import ProcessIdentity, identify, scan
from koala_agent.lrm.emulated import resident_starters
from koala_agent.lrm.emulated.first_processes import Failure, FirstProcesses, JobCallbacks
from koala_agent.lrm.launch import spawn
from koala_agent.lrm.local_manager import EndCause, Placeholder, Queued
from koala_agent.starter.process_tree import started_at
from koala_agent.starter.procfs import pids
from koala_agent.starter.resident.forked import take_launch
from tests.agent.site import Site, a_shell_hold, a_site, boot_now, own_claim
from tests.agent.watching import Ear, process_ended
from tests.harness.moments import until
from tests.lrm.harness import find_by_claim, reap

pytestmark = pytest.mark.live

LONG = LeaseTimes(hold_lease_s=120.0, run_lease_s=120.0)
OWN_MEMORY_MAX_BYTES = 12 * 1024 * 1024


def proc(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text()


def words_of(pid: int) -> list[str]:
    return proc(pid, "cmdline").split("\0")


def parent_of(pid: int) -> int:
    return int(proc(pid, "stat").rpartition(")")[2].split()[1])


def resident() -> int:
    """The resident parent of this process's site."""
    for pid in pids():
        with suppress(OSError):
            if parent_of(pid) == os.getpid() and "resident" in words_of(pid):
                return pid
    raise AssertionError("no resident parent")


def starter_of(claim: str) -> int:
    """The first process of a claim."""
    found = {process.pid for process in find_by_claim(claim)}
    (first,) = [pid for pid in found if parent_of(pid) not in found]
    return first


def seen_from_outside(pid: int) -> dict[str, object]:
    """All of a process that execution would have set, but for what names its claim."""
    kept = ("Umask", "SigBlk", "SigIgn", "NoNewPrivs", "Seccomp", "Uid", "Gid", "Groups")
    status = [line for line in proc(pid, "status").splitlines() if line.split(":")[0] in kept]
    limits = proc(pid, "limits").splitlines()
    descriptors = {number: Path(f"/proc/{pid}/fd/{number}").readlink().name for number in "012"}
    return {
        "status": status,
        "limits": limits,
        "leads a session": int(proc(pid, "stat").rpartition(")")[2].split()[3]) == pid,
        "directory": Path(f"/proc/{pid}/cwd").readlink(),
        "streams": descriptors,
        "interpreter": words_of(pid)[:4],
        "specification": words_of(pid)[4],
        "oom": proc(pid, "oom_score_adj"),
    }


async def test_a_forked_starter_is_like_an_executed_one_and_outlives_agent_and_parent(
    tmp_path: Path,
) -> None:
    started = []
    try:
        async with a_site(tmp_path, leases=LONG) as site:
            await site.granted(a_shell_hold("true", own_claim()))
            forked = starter_of(own_claim())
            started.append(forked)
            parent = resident()
            assert parent_of(forked) == parent
            (seen,) = [one for one in scan().seen if one.identity.pid == forked]
            assert (seen.claim, bool(seen.scope)) == (own_claim(), True)
            shared = proc(forked, "smaps_rollup").splitlines()
            own = [line.split() for line in shared if line.startswith("Private_")]
            assert sum(int(words[1]) for words in own) * 1024 < OWN_MEMORY_MAX_BYTES
        await process_ended(parent)
        argv = tuple(words_of(forked)[:5])
        placeholder = Placeholder(
            claim=own_claim(), processors=1, time_limit_s=60.0, argv=argv,
            directory=site.folders.folder(a_shell_hold("", own_claim()).claim),
        )  # fmt: skip
        child = spawn(placeholder, os.environ, scope="another")
        executed = child.pid
        started.append(executed)
        await until(lambda: catches_signals(executed))
        assert identify(forked) is not None
        assert seen_from_outside(forked) == seen_from_outside(executed)
    finally:
        for pid in started:
            os.kill(pid, signal.SIGKILL)
    reap(child)


def catches_signals(pid: int) -> bool:
    caught = proc(pid, "status").split("SigCgt:")[1].split()[0]
    return bool(int(caught, 16) >> (signal.SIGCHLD - 1) & 1)


async def test_a_program_of_a_forked_starter_has_the_environment_of_the_agent(
    tmp_path: Path,
) -> None:
    script = "tr '\\0' '\\n' < /proc/self/environ; ls /proc/self/fd | wc -l"
    async with a_site(tmp_path) as site:
        await site.passed(a_shell_hold(script, own_claim()))
        report = await site.gone(own_claim())
        assert report.end is not None
        assert report.end.succeeded
        folder = site.folders.folder(report.claim)
    *variables, descriptors = (folder / "stdout.0").read_text().splitlines()
    names = {line.partition("=")[0] for line in variables}
    assert set(os.environ) <= names
    assert "KOALA_STARTERS" not in names
    assert f"KOALA_CLAIM={own_claim()}" in variables
    assert int(descriptors) == 4  # 0, 1, 2 and that of the directory that is listed


async def test_a_program_goes_on_and_ends_without_the_parent(tmp_path: Path, ear: Ear) -> None:
    script = f"echo $$ > {ear.path}; exec sleep 600"
    async with a_site(tmp_path) as site:
        await site.passed(a_shell_hold(script, own_claim()))
        program = int(await ear.line())
        parent = resident()
        os.kill(parent, signal.SIGKILL)
        await process_ended(parent)
        os.kill(program, signal.SIGTERM)
        end = (await site.gone(own_claim())).end
        assert end is not None
        assert (end.kind, end.statuses) == (EndKind.EXITED, (-signal.SIGTERM,))
        await until(lambda: not find_by_claim(own_claim()))


PARENT = """
from koala_agent.starter.resident.parent import serve
raise SystemExit(serve(lambda spec, line: None))
"""


def test_a_parent_whose_agent_left_answers_unread_ends_in_silence(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    nowhere = str(tmp_path / "nowhere")
    order = {"claim": own_claim(), "spec": nowhere, "directory": nowhere, "environment": {}}
    with ours, theirs, line, other, (tmp_path / "said").open("w+") as said:
        parent = subprocess.Popen(
            [sys.executable, "-c", PARENT], stdin=theirs.fileno(), stderr=said
        )
        socket.send_fds(ours, [json.dumps(order).encode()], [other.fileno()])
        assert select.select([ours], [], [], 60.0)[0] == [ours]
        ours.close()
        assert parent.wait(60.0) in (0, -signal.SIGKILL)
        said.seek(0)
        assert "Traceback" not in said.read()


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "hung"])
async def test_no_launch_is_lost_or_doubled_when_the_parent_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    """A parent that was stopped has orders that it never answered."""
    if not is_killed:
        monkeypatch.setattr(resident_starters, "ANSWER_S", 3.0)
    async with a_site(tmp_path, processors=20) as site:
        await run_all(site, tmp_path, range(1))
        parent = resident()
        os.kill(parent, signal.SIGSTOP)
        async with asyncio.TaskGroup() as group:
            group.create_task(run_all(site, tmp_path, range(1, 9)))
            if is_killed:
                await ordered(site, 9)
                os.kill(parent, signal.SIGKILL)
            await process_ended(parent)
        await run_all(site, tmp_path, range(9, 10))
        # Nobody holds the other end of a line once its starter is over, or was never ordered.
        await until(lambda: not site.claims._listener._open)
    ran = (tmp_path / "ran").read_text().split()
    assert sorted(map(int, ran)) == list(range(10))


async def ordered(site: Site, count: int) -> None:
    """Wait until so many jobs have, or had, processors, and their starts are ordered. A starter of
    the first claim may serve and end others meanwhile."""
    async with asyncio.timeout(60):
        while sum(not isinstance(job, Queued) for job in await site.manager.listing()) < count:
            await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=0.02)


async def run_all(site: Site, folder: Path, numbers: range) -> None:
    holds = [
        a_shell_hold(f"echo {n} >> {folder / 'ran'}", own_claim(n), no_barrier=True)
        for n in numbers
    ]
    for hold in holds:
        site.claims.order(hold)
    for hold in holds:
        report = await site.daemon.wait_for(ReportState.GONE, hold.claim)
        assert report.end is not None
        assert report.end.succeeded, report


class Story:
    """Record of what `FirstProcesses` says of one claim."""

    def __init__(self, tmp_path: Path) -> None:
        self.heard: list[object] = []
        self.changed = asyncio.Event()
        self.spec = tmp_path / ".koala" / "spec.json"
        self.spec.parent.mkdir()
        script = tmp_path / "starter.py"  # a program that runs where the starter would
        script.write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('ran ')")
        self.placeholder = Placeholder(
            claim=own_claim(), processors=1, time_limit_s=60.0, directory=tmp_path,
            argv=(sys.executable, "-I", "-S", str(script), str(self.spec)),
        )  # fmt: skip
        self.processes = FirstProcesses(
            environment=os.environ, umask=-1, switches={}, scope="here", clock=boot_now,
            callbacks=JobCallbacks(
                started=lambda _claim, leader, _earlier_cpu_s: self.hear(leader),
                failed=lambda _claim, failure: self.hear(failure),
                exited=lambda claim: self.hear(self.processes.reap(claim)),
            ),
        )  # fmt: skip

    def hear(self, said: object) -> None:
        self.heard.append(said)
        self.changed.set()

    async def until(self, count: int) -> list[object]:
        async with asyncio.timeout(60):
            while len(self.heard) < count:
                self.changed.clear()
                await self.changed.wait()
        return self.heard


async def test_a_start_that_an_earlier_agent_ordered_in_vain_is_made(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.processes.resume(story.placeholder)
    leader, end = await story.until(2)
    assert isinstance(leader, ProcessIdentity)
    assert getattr(end, "status", None) == 0
    assert (tmp_path / "ran").read_text() == "ran "
    assert not take_launch(str(story.spec), "late")  # a forked starter that comes late


async def test_a_starter_that_an_earlier_agent_ordered_is_adopted(tmp_path: Path) -> None:
    story = Story(tmp_path)
    sleeper = await asyncio.create_subprocess_exec("sleep", "600")
    leader = ProcessIdentity(sleeper.pid, started_at(sleeper.pid))
    assert take_launch(str(story.spec), f"{leader.pid} {leader.start_ticks}")
    story.processes.resume(story.placeholder)
    assert await story.until(1) == [leader]
    sleeper.kill()
    await story.until(2)
    await sleeper.wait()
    assert not (tmp_path / "ran").exists()


async def test_a_starter_that_has_ended_meanwhile_has_ended(tmp_path: Path) -> None:
    story = Story(tmp_path)
    take_launch(str(story.spec), f"{os.getpid()} 1")  # not our start
    story.processes.resume(story.placeholder)
    leader, end = await story.until(2)
    assert leader == ProcessIdentity(os.getpid(), 1)
    assert getattr(end, "status", 0) is None


async def test_a_start_that_an_earlier_agent_may_have_made_is_lost(tmp_path: Path) -> None:
    story = Story(tmp_path)
    take_launch(str(story.spec), "agent-1")
    story.processes.resume(story.placeholder)
    (failure,) = await story.until(1)
    assert isinstance(failure, Failure)
    assert failure.cause is EndCause.LOST
    assert not (tmp_path / "ran").exists()
