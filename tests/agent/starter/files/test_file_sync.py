"""Starters on machines that share no file system with the agent: the batch script brings all that
they need, and files come and go by their line."""

from __future__ import annotations

import asyncio
import math
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from koala.common.protocol.messages import HeldFile, Hold, Stop
from koala.common.protocol.names import ClaimId
from koala_agent.claims.settings import LeaseTimes
from tests.agent.site import Daemon, Site, a_shell_hold, a_site
from tests.agent.watching import Ear, process_ended
from tests.harness.moments import until

pytestmark = pytest.mark.live

CLAIM = ClaimId("j1/1/0/1")


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """Return the scratch folders of a machine."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@asynccontextmanager
async def a_far_site(
    folder: Path,
    scratch: Path,
    *,
    daemon: Daemon | None = None,
    given: Path | None = None,
    room_bytes: Callable[[], float] = lambda: math.inf,
    staged: Path | None = None,
) -> AsyncIterator[Site]:
    def input_named(_hold: Hold, _name: str) -> str:
        return str(given)

    async def archive(_hold: Hold) -> Path | None:
        return staged

    leases = LeaseTimes(hold_lease_s=20.0, run_lease_s=60.0, kill_s=0.5)
    async with a_site(
        folder,
        scratch=scratch,
        daemon=daemon,
        leases=leases,
        input_named=input_named,
        room_bytes=room_bytes,
        archive=archive,
    ) as site:
        yield site


async def until_gone(folder: Path) -> None:
    """The batch script removes the folder after the starter has gone."""
    await until(lambda: not list(folder.iterdir()))


def seen_of(pid: int) -> bytes:
    """Return what others see of a process, and what its owner sees besides."""
    return b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().split()[3])


async def test_input_logs_and_outputs_go_by_the_starters_line(
    tmp_path: Path, scratch: Path
) -> None:
    """The program sees a folder of its own, which is private, and is removed in the end."""
    given = tmp_path / "given"
    given.write_bytes(os.urandom(300_000))
    script = (
        'test "$PWD" != "$HOME" && stat -c %a "$PWD" && pwd && cp "$KOALA_INPUT" result && '
        "echo said >&2"
    )
    hold = a_shell_hold(script, output_files=("result",))
    async with a_far_site(tmp_path, scratch, given=given) as site:
        await site.passed(replace(hold, files=(HeldFile(file="given"),)))
        end = (await site.gone()).end
        folder = site.folders.folder(CLAIM)
    assert end is not None
    assert end.succeeded, end
    mode, path = (folder / "stdout.0").read_text().split()
    assert (mode, Path(path).parent) == ("700", scratch)
    assert (folder / "stderr.0").read_text() == "said\n"
    assert (folder / "result").read_bytes() == given.read_bytes()
    assert b"nothing is left" in (folder / "placeholder.out").read_bytes()
    await until_gone(scratch)


async def test_a_job_writes_nothing_of_ours_by_an_output_or_a_log(
    tmp_path: Path, scratch: Path
) -> None:
    """The agent believes what is in its `.koala`: there are records of how claims ended."""
    script = "echo more; echo non''sense > .koala/spec.json"
    outputs = (".koala/spec.json", ".koala/passed.json")
    hold = a_shell_hold(script, output_files=outputs, stdout=".koala/end.json")
    async with a_far_site(tmp_path, scratch) as site:
        await site.passed(hold)
        end = (await site.gone()).end
        ours = site.folders.folder(CLAIM) / ".koala"
    assert end is not None
    assert end.reason == "file '.koala/passed.json': does not exist"
    assert [path.name for path in ours.iterdir()] == ["spec.json"]
    assert b"nonsense" not in (ours / "spec.json").read_bytes()


async def test_a_batch_job_that_must_be_killed_leaves_no_folder(
    tmp_path: Path, scratch: Path, ear: Ear
) -> None:
    """The script lives until what it started has ended, and then cleans up."""
    script = f"echo $PPID > {ear.path}; exec sleep 600"
    async with a_far_site(tmp_path, scratch) as site:
        await site.passed(a_shell_hold(script))
        starter = int(await ear.line())
        os.kill(starter, signal.SIGSTOP)
        site.claims.order(Stop(claim=CLAIM))
        assert (await site.gone()).end is not None
        await process_ended(starter)
    await until_gone(scratch)


async def test_what_a_killed_batch_script_leaves_is_removed_by_the_next_one(
    tmp_path: Path, scratch: Path, ear: Ear
) -> None:
    """Nobody else may run there. A folder in use is left alone."""
    script = f"mkdir -m 0 closed; echo $PWD $PPID > {ear.path}; exec sleep 600"
    folders, processes = [], []
    async with a_far_site(tmp_path, scratch) as site:
        for claim in ("j1/1/0/1", "j2/1/0/1"):
            await site.passed(a_shell_hold(script, claim))
            folder, pid = (await ear.line()).split()
            starter = int(pid)
            folders.append(Path(folder))
            processes.append([parent_of(starter), starter, *children_of(starter)])
        for process in processes[0]:
            os.kill(process, signal.SIGKILL)
        for process in processes[0]:
            await process_ended(process)
        assert folders[0].is_dir()
        await site.passed(a_shell_hold(script, "j3/1/0/1"))
        assert [folder.is_dir() for folder in folders] == [False, True]
        for claim in ("j2/1/0/1", "j3/1/0/1"):
            site.claims.order(Stop(claim=ClaimId(claim)))
            await site.gone(claim)
    await until_gone(scratch)


async def test_a_sync_client_that_is_killed_while_it_brings_the_last_of_it_is_replaced(
    tmp_path: Path, scratch: Path, ear: Ear
) -> None:
    """The program's work is done, whichever of our processes is killed."""
    go = tmp_path / "go"
    os.mkfifo(go)
    script = f"echo $$ $PPID > {ear.path}; head -c 500000 /dev/zero > result; read word < {go}"
    async with a_far_site(tmp_path, scratch) as site:
        await site.passed(a_shell_hold(script, output_files=("result",)))
        program, starter = map(int, (await ear.line()).split())
        (client,) = children_of(starter) - {program}
        os.kill(client, signal.SIGSTOP)
        await asyncio.to_thread(go.write_text, "go\n")
        (folder,) = await asyncio.to_thread(lambda: list(scratch.iterdir()))
        await until(lambda: b"nothing is left" in (folder / "placeholder.out").read_bytes())
        os.kill(client, signal.SIGKILL)
        end = (await site.gone()).end
        folder = site.folders.folder(CLAIM)
    assert end is not None
    assert end.succeeded, end
    assert not end.reason
    assert (folder / "result").read_bytes() == bytes(500_000)
    await until_gone(scratch)


def children_of(pid: int) -> set[int]:
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


async def test_outputs_wait_for_an_agent_that_has_no_room_and_logs_do_not(
    tmp_path: Path, scratch: Path, ear: Ear
) -> None:
    """Outputs leave the room that the agent's records need, and an output that comes late counts as
    written by the program."""
    room = [0]
    script = f"echo said; echo $$ > {ear.path}; head -c 500000 /dev/zero > result"
    async with a_far_site(tmp_path, scratch, room_bytes=lambda: room[0]) as site:
        await site.passed(a_shell_hold(script, output_files=("result",)))
        await process_ended(int(await ear.line()))
        (far,) = await asyncio.to_thread(lambda: list(scratch.iterdir()))
        complaint = b"result: the agent's disk is nearly full"
        await until(lambda: complaint in (far / "placeholder.out").read_bytes())
        near = site.folders.folder(CLAIM)
        assert not list(near.glob("result*"))
        assert not list(near.rglob("*.part"))
        assert not any(path.stat().st_size for path in near.glob("std*"))
        room[0] = 10_000_000
        end = (await site.gone()).end
    assert end is not None
    assert end.succeeded, end
    assert "stdout.0: the agent's disk is nearly full" in end.reason
    assert (near / "result").read_bytes() == bytes(500_000)
    assert not list(near.rglob("*.part"))
    await until_gone(scratch)


async def test_a_claim_is_on_no_more_machines_than_it_has_processors(
    tmp_path: Path, scratch: Path
) -> None:
    """Whatever its starter says, which a program may have said: each has a sync client."""
    async with a_far_site(tmp_path, scratch) as site:
        await site.granted(a_shell_hold("true"))
        table = site.claims._table
        hosts = tuple((f"n{number}", 1) for number in range(4096))
        table.claims[CLAIM] = msgspec.structs.replace(table.claims[CLAIM], hosts=hosts)
        assert site.claims._nodes(CLAIM) == table.claims[CLAIM].hold.processors == 1
        site.claims.order(Stop(claim=CLAIM))
        await site.gone()


async def test_the_secret_is_in_no_argument_environment_or_open_file(
    tmp_path: Path, scratch: Path, ear: Ear
) -> None:
    """Keep the secret from all processes of the batch script; only private files have it."""
    script = f"env > env; echo $PPID > {ear.path}; exec sleep 600"
    async with a_far_site(tmp_path, scratch) as site:
        hold = a_shell_hold(script)
        await site.passed(hold)
        starter = int(await ear.line())
        secret = site.claims.claims[CLAIM].secret.encode()
        for pid in (starter, parent_of(starter)):
            assert secret not in seen_of(pid)
        (folder,) = await asyncio.to_thread(lambda: list(scratch.iterdir()))
        assert folder.stat().st_mode & 0o077 == 0
        assert secret not in (folder / "env").read_bytes()
        assert any(secret in file.read_bytes() for file in folder.rglob("*.json"))
        os.kill(starter, signal.SIGTERM)
        assert (await site.gone()).end is not None
    await until_gone(scratch)


async def test_a_program_cannot_write_over_files_that_its_job_does_not_name(
    tmp_path: Path, scratch: Path
) -> None:
    """Neither by a link in the place of an output, nor outside."""
    secret = tmp_path / "agents-own"
    secret.write_text("agents-own")
    script = f"ln -s {secret} result; ln -s /etc/hostname other; echo more"
    async with a_far_site(tmp_path, scratch) as site:
        await site.passed(a_shell_hold(script, output_files=("result",)))
        assert (await site.gone()).end is not None
        folder = site.folders.folder(CLAIM)
    assert secret.read_text() == "agents-own"
    names = {path.name for path in folder.iterdir()}
    assert names <= {".koala", "stdout.0", "stderr.0", "placeholder.out", "result"}
