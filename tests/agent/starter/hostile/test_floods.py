"""Programs that take all they can: output without end and without lines, processes up to their
limit. The starter and the agent stay small, other components go on, and nothing is left."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from koala.common.protocol.messages import EndKind, ReportState, Stop
from tests.agent.site import a_hold, a_shell_hold, a_site
from tests.harness.moments import moment

pytestmark = pytest.mark.live

MEGABYTE = 2**20
LARGEST_BYTES = 80 * MEGABYTE
"""Memory limit of a starter, its sync client or a helper; an interpreter takes a tenth."""
LIMIT_S = 60.0


def own_processes(others: set[int]) -> Iterator[psutil.Process]:
    """Those of ours that run Python, but for others that run beside this test: starters and
    sync clients."""
    for process in psutil.Process().children(recursive=True):
        try:
            if process.pid not in others and "python" in process.name():
                yield process
        except psutil.Error:
            continue


async def largest_until(done: asyncio.Task[object], others: set[int]) -> int:
    """The most memory that one of them had meanwhile, in bytes."""
    largest = 0
    while not done.done():
        for process in own_processes(others):
            try:
                largest = max(largest, process.memory_info().rss)
            except psutil.Error:
                continue
        await asyncio.wait({done}, timeout=0.1)
    return largest


@pytest.mark.parametrize(("is_shared", "megabytes"), [(True, 200), (False, 48)])
async def test_a_flood_of_output_without_lines_takes_no_memory_and_disturbs_nobody(
    tmp_path: Path, is_shared: bool, megabytes: int
) -> None:
    """All output goes through the agent where machines share no files."""
    scratch = None if is_shared else tmp_path / "scratch"
    if scratch is not None:
        scratch.mkdir()
    others = {process.pid for process in psutil.Process().children(recursive=True)}
    before = psutil.Process().memory_info().rss
    script = f"head -c {megabytes * MEGABYTE} /dev/zero"
    async with a_site(tmp_path / "site", scratch=scratch) as site, asyncio.TaskGroup() as group:
        site.claims.order(a_shell_hold(script, no_barrier=True))
        flooding = group.create_task(site.gone())
        watching = group.create_task(largest_until(flooding, others))
        for number in range(3):  # the others' work goes on meanwhile
            other = a_shell_hold(f"exit {number}", f"j2/1/{number}/1", no_barrier=True)
            site.claims.order(other)
            ended = (await site.gone(other.claim)).end
            assert ended is not None
            assert ended.statuses == (number,)
        async with asyncio.timeout(4 * LIMIT_S):
            end = (await flooding).end
        assert end is not None
        assert end.succeeded, end
        assert await watching < LARGEST_BYTES
        log = site.folders.folder(a_hold().claim) / "stdout.0"
        assert log.stat().st_size == megabytes * MEGABYTE
    assert psutil.Process().memory_info().rss - before < LARGEST_BYTES


BOMB = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    try:
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
    except OSError:
        time.sleep(0.05)
"""


@pytest.fixture
def few_processes() -> Iterator[Path]:
    """A control group that allows its processes to be 100."""
    group = Path(f"/sys/fs/cgroup/pids/koala-test-{psutil.Process().pid}")
    group.mkdir()
    group.joinpath("pids.max").write_text("100")
    yield group
    group.rmdir()


@pytest.mark.root
async def test_of_a_fork_bomb_at_its_limit_nothing_is_left(
    tmp_path: Path, few_processes: Path
) -> None:
    """They ignore TERM, leave their sessions and parents, and fork as soon as one is killed."""
    members = few_processes / "cgroup.procs"
    script = f'echo $$ > {members}; exec "$0" -I -S -c "$1"'
    hold = a_hold(
        executable="/bin/sh", arguments=("-c", script, sys.executable, BOMB), no_barrier=True
    )
    async with a_site(tmp_path) as site, asyncio.timeout(2 * LIMIT_S):
        site.claims.order(hold)
        await site.daemon.wait_for(ReportState.PASSED)
        while int(few_processes.joinpath("pids.current").read_text()) < 100:
            await moment()
        site.claims.order(Stop(claim=hold.claim))
        end = (await site.gone()).end
        assert end is not None
        assert end.kind is EndKind.STOPPED
        assert members.read_text() == ""
