"""A starter that serves one claim after the other, and keeps nothing of the one before."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from koala.common.protocol.messages import EndKind
from koala.common.runtime.clock import boot_id
from koala_agent.claims.settings import LeaseTimes
from koala_agent.environments import CLAIM_VARIABLE
from koala_agent.lrm.claim_processes import (
    LiveProcess,
    ProcessIdentity,
    Scan,
    identify,
    identify_child,
    scan,
    send,
    tag_of,
)
from koala_agent.lrm.emulated import idle_starters
from koala_agent.lrm.emulated.idle_starters import (
    ForkedStarter,
    IdleStarters,
    ProcessSettings,
    settings_of,
)
from koala_agent.lrm.emulated.process_trees import ProcessTrees, Usage
from koala_agent.lrm.emulated.resident_starters import ResidentStarters
from koala_agent.lrm.job_table import Alive, JobRow, JobTable, Leaving, Starting
from koala_agent.lrm.local_manager import Ended, Placeholder
from tests.agent.site import Site, a_shell_hold, a_site, boot_now, own_claim
from tests.agent.watching import Ear, process_ended
from tests.harness.moments import until
from tests.lrm.harness import find_by_claim

pytestmark = pytest.mark.live

LONG = LeaseTimes(hold_lease_s=120.0, run_lease_s=120.0)
SAY_AND_WAIT = "echo $PPID > {path}; read line < {path}.go"


def words_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def held_by(pid: int) -> list[str]:
    """The working directory of a process and its descriptors."""
    descriptors = sorted(Path(f"/proc/{pid}/fd").iterdir())
    return [str(one.readlink()) for one in (Path(f"/proc/{pid}/cwd"), *descriptors)]


async def stored_as_over(site: Site, claim: str) -> None:
    """Wait until the site's manager has stored the end of a claim."""
    async with asyncio.timeout(60):
        while not any(
            isinstance(job, Ended) and job.claim == claim for job in await site.manager.listing()
        ):
            await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=0.02)


async def serve(site: Site, number: int, script: str = "true", **changes: object) -> int:
    """Run a claim to its end; return the starter, and whether it is well is the caller's matter."""
    claim = own_claim(number)
    hold = a_shell_hold(f"echo $PPID; {script}", claim, no_barrier=True, **changes)
    site.claims.order(hold)
    await site.gone(claim)
    await stored_as_over(site, claim)
    return int(said(site, number).split()[0])


def said(site: Site, number: int) -> str:
    folder = site.folders.folder(a_shell_hold("", own_claim(number)).claim)
    return (folder / "stdout.0").read_text()


async def test_a_starter_serves_one_claim_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each program has its own folder, variables, limits and tag; between them nothing shows a
    claim. The first claim has a variable from its local manager, too."""
    order = ResidentStarters.order

    def order_with_variable(
        resident: ResidentStarters, placeholder: Placeholder, variables: Mapping[str, str]
    ) -> bool:
        more = {"W": "one"} if placeholder.claim == own_claim(1) else {}
        return order(resident, placeholder, {**variables, **more})

    monkeypatch.setattr(ResidentStarters, "order", order_with_variable)
    script = (
        "pwd; echo V=$V W=$W; ulimit -n; grep -h locks /proc/self/limits; ls /proc/self/fd | wc -l"
    )
    async with a_site(tmp_path, leases=LONG) as site:
        first = await serve(site, 1, script, environment=(("V", "one"),))
        await until(lambda: words_of(first)[4] == "idle")
        assert not find_by_claim(own_claim(1))
        (idle,) = [one for one in scan().seen if one.identity.pid == first]
        assert (idle.claim, idle.tag) == (None, None)
        folder, *streams, line = held_by(first)
        assert (folder, streams) == ("/", ["/dev/null"] * 3)
        assert line.startswith("socket:")
        assert await serve(site, 2, script) == first
        texts = [said(site, number).splitlines() for number in (1, 2)]
        folders = [site.folders.folder(a_shell_hold("", own_claim(n)).claim) for n in (1, 2)]
        assert [text[1] for text in texts] == [str(folder) for folder in folders]
        assert [text[2] for text in texts] == ["V=one W=one", "V= W="]
        assert texts[0][3] == texts[1][3]
        assert [text[5] for text in texts] == ["4", "4"]
        scope = site.manager._table.scope
        tags = [str(tag_of(own_claim(number), scope=scope)) for number in (1, 2)]
        assert [text[4].split()[3] for text in texts] == tags
    await process_ended(first)


CHANGES = {
    "file size": "prlimit --pid $on --fsize=4096",
    "tag": "prlimit --pid $on --locks=77",
    "processes": "prlimit --pid $on --nproc=5000:5000",
    "priority": "renice -n $((($(nice) + 1) % 20)) -p $on",
    "disk priority": "ionice -c 3 -p $on",
    "processors": "taskset -cp 0 $on",
    "policy": "chrt -b -p 0 $on",
    "memory score": "echo 500 > /proc/$on/oom_score_adj",
    "core files": "echo 0x1 > /proc/$on/coredump_filter",
}
"""What one program can change of another process of its account."""


def kept(change: str) -> str:
    """A script that makes a change, and says so."""
    return f"{{ {change}; }} > change.log 2>&1 && echo made || cat change.log; exit 0"


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
async def test_a_starter_that_a_program_has_changed_serves_no_other(
    tmp_path: Path, change: str
) -> None:
    """A later claim, maybe another user's, would have its limits and priority."""
    async with a_site(tmp_path, leases=LONG) as site:
        first = await serve(site, 1, kept(f"on=$PPID; {change}"))
        assert said(site, 1).splitlines()[1:] == ["made"]
        second = await serve(site, 2)
        await process_ended(first)
        assert await serve(site, 3) == second
        resident = site.manager._runs._first._resident
        assert resident._process is not None
        assert settings_of(second) == settings_of(resident._process.pid) == settings_of(os.getpid())


async def test_a_starter_that_was_changed_when_it_had_no_claim_serves_none(tmp_path: Path) -> None:
    """By a program that runs longer than the claim of the starter."""
    async with a_site(tmp_path, leases=LONG) as site:
        first = await serve(site, 1)
        os.setpriority(os.PRIO_PROCESS, first, (os.getpriority(os.PRIO_PROCESS, 0) + 1) % 20)
        assert await serve(site, 2) != first
        await process_ended(first)


@pytest.mark.parametrize("change", [CHANGES["file size"], CHANGES["priority"]])
async def test_a_parent_that_a_program_has_changed_forks_no_starter(
    tmp_path: Path, change: str
) -> None:
    async with a_site(tmp_path, leases=LONG) as site:
        resident = site.manager._runs._first._resident
        find = "read x x x on x < /proc/$PPID/stat"
        await serve(site, 1, kept(f"{find}; {change}"))
        changed = resident._process
        assert changed is not None
        assert said(site, 1).splitlines()[1:] == ["made"]
        assert settings_of(changed.pid) != settings_of(os.getpid())
        await serve(site, 2, "nice; ulimit -f")
        assert changed.returncode is not None
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert said(site, 2).splitlines()[1:] == [str(own), "unlimited"]


async def test_what_a_program_leaves_behind_is_gone_before_the_next_claim(tmp_path: Path) -> None:
    """A daemon that has left session, parent and environment."""
    ear = Ear(tmp_path / "ear")
    daemon_script = f"echo $$ > {ear.path}; trap : TERM; while :; do sleep 600; done"
    leave = f"env -i setsid sh -c '{daemon_script}' & read x < {ear.path}.go"
    os.mkfifo(f"{ear.path}.go")
    async with a_site(tmp_path, leases=LONG) as site, asyncio.TaskGroup() as group:
        claims = group.create_task(serve(site, 1, leave))
        daemon = identify(int(await ear.line()))
        assert daemon is not None
        await asyncio.to_thread(Path(f"{ear.path}.go").write_text, "\n")
        first = await claims
        assert identify(daemon.pid) != daemon
        assert await serve(site, 2) == first
    ear.close()


async def test_a_claim_that_is_withdrawn_takes_its_starter_with_it(tmp_path: Path) -> None:
    async with a_site(tmp_path, leases=LONG) as site, asyncio.TaskGroup() as group:
        first = await serve(site, 1)
        ear = Ear(tmp_path / "ear")
        running = group.create_task(serve(site, 2, f"echo up > {ear.path}; sleep 600"))
        await ear.line()
        await site.manager.withdraw(own_claim(2))
        assert await running == first
        await process_ended(first)
        assert await serve(site, 3) != first
        ear.close()


async def test_an_idle_starter_that_was_killed_costs_no_claim(tmp_path: Path) -> None:
    async with a_site(tmp_path, leases=LONG) as site:
        first = await serve(site, 1)
        os.kill(first, signal.SIGTERM)  # between claims it catches nothing
        await process_ended(first)
        second = await serve(site, 2)
        assert second != first
        assert await serve(site, 3) == second


async def test_a_starter_serves_none_after_the_agent_that_ordered_it(
    tmp_path: Path,
) -> None:
    """The next agent adopts it with its claim; it ends when that does."""
    ear = Ear(tmp_path / "ear")
    go = Path(f"{ear.path}.go")
    os.mkfifo(go)
    async with a_site(tmp_path, leases=LONG) as site:
        first = await serve(site, 1)
        await site.passed(a_shell_hold(SAY_AND_WAIT.format(path=ear.path), own_claim(2)))
        assert int(await ear.line()) == first
    assert identify(first) is not None
    async with a_site(tmp_path, leases=LONG) as site:
        assert await serve(site, 3) != first
        await asyncio.to_thread(go.write_text, "\n")
        report = await site.gone(own_claim(2))
        assert report.end is not None
        assert report.end.kind is EndKind.EXITED
        assert report.end.succeeded, report
        await process_ended(first)
        assert said(site, 2) == ""
    ear.close()


async def test_an_order_to_a_starter_outlives_the_parent(tmp_path: Path) -> None:
    """The line is closed before the starter has read its order."""
    async with a_site(tmp_path, leases=LONG) as site:
        first = await serve(site, 1)
        os.kill(first, signal.SIGSTOP)
        await order_to_stopped(site, own_claim(2))
        resident = site.manager._runs._first._resident
        assert resident._process is not None
        resident._process.kill()
        await until(lambda: resident._process is None)
        os.kill(first, signal.SIGCONT)
        report = await site.gone(own_claim(2))
        assert report.end is not None
        assert report.end.succeeded, report
        assert said(site, 2) == f"{first}\n"
        await process_ended(first)


async def test_a_claim_is_run_once_if_the_next_agent_and_an_earlier_starter_both_start_it(
    tmp_path: Path,
) -> None:
    """The agent was killed when it had sent the order and not yet noted the starter."""
    async with a_site(tmp_path, leases=LONG) as site:
        first = await serve(site, 1)
        os.kill(first, signal.SIGSTOP)
        await order_to_stopped(site, own_claim(2))
    table = JobTable(site.manager._settings.state_directory, JobRow, boot=boot_id(), scope="")
    (row,) = [row for row in table.load() if row.placeholder.claim == own_claim(2)]
    assert isinstance(row.state, Alive)
    table.save(own_claim(2), msgspec.structs.replace(row, state=Starting()))
    table.close()
    async with a_site(tmp_path, leases=LONG) as site:
        report = await site.gone(own_claim(2))
        assert report.end is not None
        assert report.end.succeeded, report
        os.kill(first, signal.SIGCONT)
        await process_ended(first)
        (starter,) = said(site, 2).split()
        assert int(starter) != first


async def order_to_stopped(site: Site, claim: str) -> None:
    """Order a claim from a starter that is stopped; wait until its agent takes it as started."""
    site.claims.order(a_shell_hold("echo $PPID", claim, no_barrier=True))
    await until(lambda: claim in site.manager._jobs.by_claim)
    await until(lambda: isinstance(site.manager._jobs.by_claim[claim].state, Alive))


async def test_a_stored_process_belongs_to_one_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each change of the job table and each order, and so for an agent that finds the table
    after a kill."""
    stored: dict[str, object] = {}
    store = JobTable.store

    def check(table: JobTable[JobRow], changes: Mapping[str, JobRow | None]) -> None:
        store(table, changes)
        stored.update({claim: row.state for claim, row in changes.items() if row is not None})
        assert len(leaders()) == len(set(leaders())), stored

    def check_order(
        idle: IdleStarters,
        packet: bytes,
        settings: ProcessSettings | None,
    ) -> ForkedStarter | None:
        starter = order(idle, packet, settings)
        assert starter is None or starter.identity not in leaders(), stored
        return starter

    def leaders() -> list[ProcessIdentity]:
        states = stored.values()
        found = [one.leader for one in states if isinstance(one, Alive | Leaving)]
        return [leader for leader in found if leader is not None]

    monkeypatch.setattr(JobTable, "store", check)
    order = IdleStarters.order
    monkeypatch.setattr(IdleStarters, "order", check_order)
    async with a_site(tmp_path, leases=LONG) as site:
        starters = await asyncio.gather(*(serve(site, number) for number in range(24)))
        assert len(set(starters)) < len(starters)


async def test_a_look_that_began_under_the_former_claim_ends_nothing_of_the_next() -> None:
    """The process was seen as that of the former claim, whose end was told during the look."""
    gone: list[tuple[str, Usage]] = []
    trees = ProcessTrees(
        scope="here", kill_s=0.0, sample_s=60.0, clock=boot_now,
        gone=lambda claim, usage: gone.append((claim, usage)),
    )  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        "sleep", "600", env={CLAIM_VARIABLE: own_claim(1)}
    )
    starter = identify_child(process.pid)
    trees.watch(own_claim(1), starter)
    old = scan()
    trees.end_empty(own_claim(1))
    trees.watch(own_claim(2), starter, 1.0)
    trees._handle_scan(old, {own_claim(1)}, set())
    assert [claim for claim, _usage in gone] == [own_claim(1)]
    # Not yet under its new name: it is known as the process of the next claim all the same.
    nameless = [one for one in scan().seen if one.identity != starter]
    (seen,) = [one for one in scan().seen if one.identity == starter]
    bare = LiveProcess(**{**{f: getattr(seen, f) for f in LiveProcess.__slots__}, "claim": None})
    trees._handle_scan(
        Scan((*nameless, bare), is_complete=True), {own_claim(1), own_claim(2)}, {own_claim(1)}
    )
    assert trees._trees.keys() == {own_claim(2)}
    assert trees._trees[own_claim(2)].known == {starter}
    assert identify(process.pid) == starter
    process.kill()
    assert await process.wait() == -signal.SIGKILL


async def test_a_look_that_began_before_a_claim_counts_nothing_for_it() -> None:
    """A program of the former claim, which the look has seen, used no memory of the next claim; and
    a starter that it has not seen yet stays known."""
    trees = ProcessTrees(
        scope="here", kill_s=0.0, sample_s=60.0, clock=boot_now, gone=lambda _claim, _usage: None
    )
    starter = await asyncio.create_subprocess_exec("sh", "-c", "sleep 600 & wait")
    first = identify_child(starter.pid)
    await until(lambda: len([one for one in scan().seen if one.parent == first.pid]) == 1)
    old = scan()
    trees.watch(own_claim(2), first)
    trees._handle_scan(old, set(), set())
    assert trees._trees[own_claim(2)].usage == Usage()
    trees._handle_scan(Scan((), is_complete=True), set(), set())
    assert trees._trees[own_claim(2)].known == {first}
    trees._handle_scan(old, {own_claim(2)}, set())
    seen = trees._trees[own_claim(2)]
    assert (len(seen.known), seen.usage.peak_memory_bytes > 0) == (2, True)
    for identity in sorted(
        seen.known, key=lambda one: one != first
    ):  # it would end after its child
        send(identity, signal.SIGKILL)
    assert await starter.wait() == -signal.SIGKILL


async def test_a_starter_that_is_not_needed_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle_starters, "IDLE_S", 0.1)
    async with a_site(tmp_path, leases=LONG) as site:
        await process_ended(await serve(site, 1))


async def test_of_many_idle_starters_the_oldest_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle_starters, "IDLE_MAX", 1)
    monkeypatch.setattr(idle_starters, "IDLE_S", 600.0)
    ear = Ear(tmp_path / "ear")
    go = f"{ear.path}.go"
    os.mkfifo(go)
    async with a_site(tmp_path, leases=LONG) as site, asyncio.TaskGroup() as group:
        first = group.create_task(serve(site, 1, f"echo up > {ear.path}; read line < {go}"))
        await ear.line()
        other = await serve(site, 2)
        await asyncio.to_thread(Path(go).write_text, "\n")
        assert await first != other
        await process_ended(other)
        assert await serve(site, 3) == await first
    ear.close()
