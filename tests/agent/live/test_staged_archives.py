"""Staged archives at a real agent: whoever made them, they cost others nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from koala.common.wire.v1 import link_pb2
from tests.agent.live.agent_process import a_job
from tests.agent.live.claim_steps import FOREVER, passed
from tests.agent.live.fake_daemon import GONE, GRANTED, hold
from tests.agent.live.two_sites import copy, two_sites
from tests.common.files.tar_blocks import END, tar_block, tar_entry

pytestmark = [pytest.mark.live, pytest.mark.slow]

ARCHIVE = f"{'a' * 64}/0/t1"
HEADER_BYTES = 150 * 10**6
GROWTH_BYTES_MAX = 50 * 10**6


def staging(claim: str, *arguments: str, ask_number: int = 1) -> link_pb2.ToAgent:
    """A Hold of a program that goes along in the archive."""
    wanted = hold(claim, *arguments, ask_number=ask_number)
    wanted.hold.inputs.append(ARCHIVE)
    wanted.hold.archive = ARCHIVE
    return wanted


def most_memory_bytes(pid: int) -> int:
    """The most that a process has had in memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


async def test_a_hostile_archive_fails_its_own_job_and_takes_no_memory(tmp_path: Path) -> None:
    job = a_job()
    hostile, other = f"{job}/1/0/1", f"{job}/1/1/1"
    record = b"%d comment=" % HEADER_BYTES
    header = tar_block(b"header", b"x", HEADER_BYTES) + record.ljust(HEADER_BYTES - 1, b"x") + b"\n"
    content = header + tar_entry(b"program", b"x") + END
    async with two_sites(tmp_path, job, content=content) as (_, source, target, agent):
        copy(source, target, ARCHIVE, offset=0, size_bytes=len(content))
        assert (await target.next("transfer")).is_finished
        assert agent.process is not None
        before = most_memory_bytes(agent.process.pid)
        target.want_more(staging(hostile, *FOREVER), hold(other, *FOREVER, ask_number=2))
        gone = await target.claim(hostile, GONE)
        assert most_memory_bytes(agent.process.pid) - before < GROWTH_BYTES_MAX
        assert gone.end.kind == "unexecutable"
        assert gone.end.reason == (
            "the staged archive is refused: entry 1 of the tar file: a header of 150000000 bytes"
            " (allowed are 1 to 8192)"
        )
        await target.claim(other, GRANTED)
        await passed(target, other)
