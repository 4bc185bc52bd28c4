"""Real starters under a real claim table keep what the design promises, seen from outside."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from koala.common.protocol.messages import ClaimEnd, EndKind, Hold, LogRequest, Stop
from koala.common.protocol.names import ClaimId
from koala_agent import claim_driver
from koala_agent.claims.settings import LeaseTimes
from koala_agent.placeholders.cleanup import remove_all
from koala_agent.placeholders.logs import LogSource, read_log
from koala_agent.placeholders.starter_installation import STARTERS
from tests.agent.site import Site, a_hold, a_shell_hold, a_site
from tests.agent.watching import Ear, process_ended
from tests.harness.moments import until

pytestmark = pytest.mark.live


# A daemon that leaves its session and its parent, says its pid, and lives on.
ESCAPE = "setsid sh -c 'echo $$ > {ear}; exec sleep 600' > /dev/null 2>&1 &"


def folder(tmp_path: Path, claim: str = "j1/1/0/1") -> Path:
    return tmp_path / "claims" / claim.replace("/", "-")


async def end_of(site: Site, claim: str = "j1/1/0/1") -> ClaimEnd:
    report = await site.gone(claim)
    assert report.end is not None
    return report.end


async def test_claims_that_wait_for_their_archives_take_no_place_of_another(tmp_path: Path) -> None:
    comes = asyncio.Event()

    async def archive(hold: Hold) -> Path | None:
        if hold.archive:
            await comes.wait()
        return None

    async with a_site(tmp_path, archive=archive) as site:
        for number in range(claim_driver.CALLS_MAX + 1):
            site.claims.order(replace(a_hold(f"j1/1/{number + 1}/1"), archive="t"))
        await site.granted(a_hold("j1/1/0/1"))
        comes.set()


async def test_a_check_in_says_when_its_starter_began(tmp_path: Path) -> None:
    """Also after a start of the agent, which only then may learn of it."""
    begun_at = time.time()
    async with a_site(tmp_path) as site:
        first = await site.granted(a_shell_hold("exit 0"))
        assert first.began_at is not None
        assert begun_at <= first.began_at <= time.time()
    async with a_site(tmp_path) as site:
        (again,) = site.claims.claims.values()
        assert again.began_at == first.began_at
        site.claims.order(Stop(claim=again.id))
        assert (await site.gone()).began_at == first.began_at


SLOW_PYTHON = """\
#!/bin/sh
case " $* " in *" resident "*) exit 1; esac  # each starter has one of its own
read word < {gate}
exec {python} "$@"
"""


@pytest.mark.parametrize("is_carried", [False, True], ids=["installed", "carried"])
async def test_the_time_that_its_interpreter_takes_counts_as_well(
    tmp_path: Path, is_carried: bool
) -> None:
    """Its batch job has the processors; on a busy machine an interpreter takes seconds."""
    gate, python = tmp_path / "gate", tmp_path / "python"
    os.mkfifo(gate)
    python.write_text(SLOW_PYTHON.format(gate=gate, python=sys.executable))
    python.chmod(0o700)
    async with a_site(tmp_path, python=python, scratch=tmp_path if is_carried else None) as site:
        site.claims.order(a_hold())
        with await asyncio.to_thread(gate.open, "w") as opened:
            waits_at = time.time()
            opened.write("go\n")
        began_at = (await site.granted(a_hold())).began_at
    assert began_at is not None
    assert began_at < waits_at


async def test_one_that_never_met_its_agent_leaves_the_time_that_it_had(tmp_path: Path) -> None:
    """The agent is away from its start until the lease has ended it."""
    gate, python = tmp_path / "gate", tmp_path / "python"
    os.mkfifo(gate)
    python.write_text(SLOW_PYTHON.format(gate=gate, python=sys.executable))
    python.chmod(0o700)
    record = folder(tmp_path) / ".koala" / "end.json"
    async with a_site(tmp_path, python=python, leases=LeaseTimes(hold_lease_s=1.0)) as site:
        site.claims.order(a_hold())
        opened = await asyncio.to_thread(gate.open, "w")
    waits_at = time.time()
    opened.write("go\n")
    opened.close()
    await until(record.exists)
    async with a_site(tmp_path, python=python) as site:
        report = await site.gone()
    assert report.began_at is not None
    assert report.end is not None
    assert report.end.ended_at is not None
    assert report.began_at < waits_at < report.end.ended_at


async def test_a_program_that_is_not_there_is_told_before_anything_starts(tmp_path: Path) -> None:
    async with a_site(tmp_path) as site:
        site.claims.order(a_hold(executable="/nowhere/at/all"))
        end = await end_of(site)
    assert end.kind is EndKind.UNEXECUTABLE
    assert "/nowhere/at/all" in end.reason
    assert end.statuses == ()


async def test_the_end_of_the_run_lease_ends_an_escaped_daemon_as_well(
    tmp_path: Path, ear: Ear
) -> None:
    script = ESCAPE.format(ear=ear.path) + " exec sleep 600"
    async with a_site(tmp_path) as site:
        await site.passed(a_shell_hold(script))
        escaped = int(await ear.line())
        before = site.daemon.answered
        site.claims.set_leases(LeaseTimes(hold_lease_s=1.0, run_lease_s=1.0, kill_s=0.5))
        await until(lambda: site.daemon.answered > before)  # it counts from an answer on
        site.daemon.is_answering = False
        await process_ended(escaped)
        assert (await end_of(site)).kind is EndKind.LEASE


async def test_a_stop_ends_a_program_and_nothing_is_left(tmp_path: Path, ear: Ear) -> None:
    script = f"echo $$ > {ear.path}; exec sleep 600"
    async with a_site(tmp_path) as site:
        await site.passed(a_shell_hold(script))
        pid = int(await ear.line())
        site.claims.order(Stop(claim=ClaimId("j1/1/0/1")))
        end = await end_of(site)
        assert end.kind is EndKind.STOPPED
        assert end.statuses == (-signal.SIGTERM,)
        await process_ended(pid)


@pytest.mark.parametrize("below", ["", "x" * 110])
async def test_a_killed_starter_leaves_nothing_but_the_claims_folder(
    tmp_path: Path, ear: Ear, below: str
) -> None:
    """However long its path is: nobody but us would ever clean up /tmp."""
    script = f"echo $PPID $KOALA_KV > {ear.path}; exec sleep 600"
    async with a_site(tmp_path / below) as site:
        await site.passed(a_shell_hold(script))
        starter, exchange = (await ear.line()).split()
        lies_in = await asyncio.to_thread(Path(exchange).parent.resolve)
        os.kill(int(starter), signal.SIGKILL)
        await end_of(site)
    assert lies_in == folder(tmp_path / below) / ".koala"


async def test_a_program_reads_who_the_members_are(tmp_path: Path) -> None:
    script = "env; cat $KOALA_BUNDLE"
    hold = a_shell_hold(script, claim="j1/1/0/1", processes=2, label="left")
    async with a_site(tmp_path) as site:
        await site.passed(hold, peers=2)
        assert (await end_of(site)).succeeded
    lines = (folder(tmp_path) / "stdout.1").read_text().splitlines()
    bundle = json.loads(lines[-1])
    told = dict(line.split("=", 1) for line in lines[:-1] if "=" in line)
    assert bundle["world_size"] == 6
    assert bundle["index"] == 2
    assert [member["address"] for member in bundle["members"]][-1] == "127.0.0.1"
    assert told["KOALA_CLAIM"] == "j1/1/0/1"
    wanted = {"NNODES": "3", "NODE_RANK": "2", "WORLD_SIZE": "6", "RANK": "5", "LOCAL_RANK": "1"}
    assert {name: told[name] for name in wanted} == wanted
    assert told["MASTER_ADDR"] == "10.0.0.1"
    assert told["MASTER_PORT"] == str(bundle["master"]["port"])


async def test_folders_of_forgotten_claims_are_removed_and_no_others(tmp_path: Path) -> None:
    async with a_site(tmp_path, keep_s=0.0) as site:
        await site.passed(a_hold("j1/1/0/1"))
        await site.gone("j1/1/0/1")
        for touched in (folder(tmp_path, "j1/1/0/1"), folder(tmp_path, "j1/1/0/1") / ".koala"):
            os.utime(touched, (9e9, 9e9))  # as a program may, so that it seems to be new for ever
        await site.granted(a_hold("j2/1/0/1"))
        assert stat.S_IMODE((folder(tmp_path, "j2/1/0/1") / ".koala").stat().st_mode) == 0o700
        await site.claims._sweep_once()
        assert not folder(tmp_path, "j1/1/0/1").exists()
        assert folder(tmp_path, "j2/1/0/1").exists()
        site.claims.order(Stop(claim=ClaimId("j2/1/0/1")))
        await site.gone("j2/1/0/1")


def test_folders_deeper_than_any_path_are_removed_as_well(tmp_path: Path) -> None:
    """A program makes them by going down; walking them ended the agent, and the next one, too."""
    folder, kept = tmp_path / "j1-1-0-1", tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    folder.mkdir()
    place = os.open(folder, os.O_RDONLY)
    for _ in range(1_100):  # more than Python calls itself
        os.mkdir("below", dir_fd=place)
        os.symlink(kept, "link", dir_fd=place)
        below = os.open("below", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = below
    os.close(place)
    try:
        remove_all([folder])
        assert list(tmp_path.iterdir()) == [kept]
    finally:  # pytest cannot remove it either
        subprocess.run(("rm", "-rf", folder), check=True)
    assert list(kept.iterdir()) == [kept / "file"]


async def test_a_claims_folder_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    """Neither for outputs and logs nor by the sweep, which takes what the program left there."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("first", "stdout.0"):
        (elsewhere / name).write_text("of somebody else")
    script = f'cd /; mv "$0" "$0.old"; ln -s {elsewhere} "$0"'
    claims = tmp_path / "claims"
    script = f"{script}; ln -s {elsewhere} {claims}/link; ln -s /none {claims}/none; >{claims}/file"
    async with a_site(tmp_path, keep_s=0.0) as site:
        arguments = ("-c", script, str(folder(tmp_path)))
        await site.passed(a_shell_hold("", arguments=arguments, output_files=("first",)))
        end = await end_of(site)
        source = LogSource(folder=folder(tmp_path), starter_log="", is_ended=True)
        wanted = LogRequest(
            request=1, claim="j1/1/0/1", stream="stdout", process=0, offset=0, size_max=0
        )
        assert not (await asyncio.to_thread(read_log, wanted, source)).data
        await site.claims._sweep_once()
        left = [path.name for path in await asyncio.to_thread(lambda: list(claims.iterdir()))]
    assert end.kind is EndKind.OUTPUT
    assert "is a symbolic link" in end.reason
    assert left == [STARTERS]
    assert sorted(path.name for path in elsewhere.iterdir()) == ["first", "stdout.0"]


async def test_sixty_four_processes_pass_together(tmp_path: Path) -> None:
    async with a_site(tmp_path) as site:
        await site.passed(a_shell_hold("exit 0", processes=64))
        end = await end_of(site)
    assert end.statuses == (0,) * 64


async def test_limits_of_time_and_memory_reach_the_program(tmp_path: Path) -> None:
    hold = a_shell_hold("ulimit -t; ulimit -d", cpu_time_s=7.0, memory_max_mb=512)
    async with a_site(tmp_path) as site:
        await site.passed(hold)
        assert (await end_of(site)).succeeded
    assert (folder(tmp_path) / "stdout.0").read_text().split() == ["7", str(512 * 1024)]
