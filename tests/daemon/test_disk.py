"""A disk that is full, or fails: what runs goes on, what is new is refused, nothing is lost."""

import asyncio
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from koala.client import AsyncClient
from koala.common.runtime.disk_space import BALLAST, MB, DiskSpace
from koala.core.model.events import Woken
from koala.core.model.values import JobId
from koala.daemon.clients.outputs import Publisher
from koala.daemon.files.spool import EndedJob, Spool
from koala.daemon.storage.journal import Journal
from koala.daemon.storage.records import Batch, Record
from koala.errors import DiskError, ExhaustedError, UnreachableError
from tests.common.files.stage import comes_true
from tests.daemon.fake_agent import FakeAgent
from tests.daemon.running import config_of, running
from tests.daemon.test_process import configured, run_daemon, started
from tests.harness.failing_disk import failing_commits, limit_pages
from tests.harness.small_disk import fill, small_disk

ONE = "&(executable=/bin/true)(count=4)"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of 4 MB."""
    with small_disk(tmp_path / "disk", megabytes=4) as folder:
        yield folder


# --- the disk itself ------------------------------------------------------------------------------


@pytest.mark.root
def test_a_low_disk_refuses_and_says_how_much_is_free_and_needed(small: Path) -> None:
    disk = DiskSpace(small, low_bytes=1 * MB, ballast_bytes=0)
    assert disk.shortage == ""
    filler = fill(small, 500_000)
    assert disk.shortage == f"0.5 MB are free at {small}, 1.0 MB are needed"
    filler.unlink()
    assert disk.shortage == ""


@pytest.mark.root
def test_the_ballast_is_made_given_up_and_made_again(small: Path) -> None:
    disk = DiskSpace(small, low_bytes=1 * MB, ballast_bytes=MB)
    disk.poll()
    ballast = small / BALLAST
    assert ballast.stat().st_blocks * 512 >= MB, "it takes its room"
    assert ballast.stat().st_mode & 0o777 == 0o600
    filler = fill(small, 0)
    assert disk.give_up_ballast()
    assert disk.free_bytes >= MB
    disk.poll()
    assert not ballast.exists(), "as long as the disk is low"
    assert not disk.give_up_ballast()
    filler.unlink()
    disk.poll()
    assert ballast.exists()


# --- commits --------------------------------------------------------------------------------------


def filled_journal(folder: Path, make_room: Callable[[], bool] = lambda: False) -> Journal:
    """With hundred events, and not a page more to be had."""
    journal = Journal.open(folder, make_room=make_room)
    assert list(journal.records()) == []
    journal.append(batch(1, 100))
    limit_pages(journal)
    return journal


def batch(first: int, last: int) -> Batch:
    return Batch(
        records=[
            Record(seq=seq, at=1.0, event=Woken(), answers=["x" * 1000])
            for seq in range(first, last + 1)
        ]
    )


def test_a_commit_that_finds_no_room_is_made_once_more_when_there_is_some(tmp_path: Path) -> None:
    asked = []

    def make_room() -> bool:
        asked.append(journal.seq)
        limit_pages(journal, more=10_000)
        return True

    journal = filled_journal(tmp_path, make_room)
    journal.append(batch(101, 200))
    assert asked == [100]
    journal.close()
    again = Journal.open(tmp_path)
    assert len(list(again.records())) == 200
    again.close()


def test_no_other_error_is_tried_again(tmp_path: Path) -> None:
    """After a failed write or fsync nobody knows what the disk has."""
    journal = filled_journal(tmp_path, lambda: pytest.fail("it was tried again"))
    with failing_commits(journal), pytest.raises(DiskError, match="disk I/O error"):
        journal.append(batch(101, 101))
    journal.close()


# --- the daemon -----------------------------------------------------------------------------------


@pytest.mark.live
@pytest.mark.root
async def test_jobs_end_on_a_full_disk_and_new_ones_come_when_there_is_room_again(
    small: Path,
) -> None:
    config = config_of(small, parameters="claiming_step_min_s = 0.05")
    config = type(config)(
        **{
            **{name: getattr(config, name) for name in config.__struct_fields__},
            "low_disk_bytes": 1 * MB,
            "ballast_bytes": 1 * MB,
        }
    )
    async with running(config) as daemon, asyncio.TaskGroup() as group, asyncio.timeout(60):
        agent = FakeAgent(daemon.address, ends_at_once=False)
        staying = group.create_task(agent.stay())
        async with AsyncClient(daemon.address) as client:
            jobs = [(await client.submit(ONE, key=f"k{n}")).job for n in range(2)]
            await agent.until("release", 2)
            filler = fill(small, 0)
            with pytest.raises(ExhaustedError, match="the daemon's disk is nearly full: "):
                await client.submit(ONE, key="k2")
            assert (await client.submit(ONE, key="k1")).job == jobs[1], "it was accepted before"
            assert (await client.metrics())["disk"]["is_low"]
            for claim in list(agent.claims):
                agent.end(claim)
            assert await client.wait_all(jobs) == dict.fromkeys(jobs, "Finished")
            filler.unlink()
            later = (await client.submit(ONE, key="k2")).job
            await agent.until("release", 3)
            agent.end(f"{later}/1/0/1")
            assert await client.wait(later) == "Finished"
        staying.cancel()
    async with running(config) as daemon, AsyncClient(daemon.address) as client:
        assert [job["phase"] for job in await client.list_jobs()] == ["Finished"] * 3


@pytest.mark.live
@pytest.mark.root
@pytest.mark.parametrize("ballast_mb", [0, 1])
def test_a_start_on_a_full_disk_takes_the_ballast_or_says_in_a_line_that_there_is_no_room(
    small: Path, ballast_mb: int
) -> None:
    """The daemon before was killed, and somebody else took what was left."""
    config = configured(small, f"low_disk_mb = 0\nballast_mb = {ballast_mb}\n")
    ballast = small / "state" / BALLAST
    with started(config) as daemon:
        while ballast_mb and not ballast.exists():
            with suppress(subprocess.TimeoutExpired):
                daemon.process.wait(0.05)
    filler = fill(small, 0)
    if ballast_mb:
        with started(config) as daemon:
            assert daemon.address
    else:
        run = run_daemon(config)
        assert run.returncode == 74, run.stderr
        assert "cannot be written: database or disk is full" in run.stderr.splitlines()[-1]
        assert "Traceback" not in run.stderr
    filler.unlink()
    with started(config) as daemon:
        assert daemon.address


@pytest.mark.root
async def test_outputs_are_published_when_the_spool_has_room_again(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spool = Spool(small)
    publisher = Publisher(spool)
    filler = fill(small, 0)
    published = small / "jobs" / "j1" / "published"
    async with asyncio.TaskGroup() as group, asyncio.timeout(60):
        publishing = group.create_task(publisher.run())
        publisher.enqueue(EndedJob(job="j1", attempt=1, is_finished=True))
        await comes_true(lambda: "outputs.not_published" in capsys.readouterr().out)
        assert not published.exists()
        assert list(spool.incoming.iterdir()) == [], "no half file"
        filler.unlink()
        await publisher.wait_for(JobId("j1"))
        assert published.exists()
        publishing.cancel()


@pytest.mark.live
async def test_a_write_that_fails_ends_the_daemon_before_anybody_is_answered(
    tmp_path: Path,
) -> None:
    """The kernel refuses to let any file of the process grow: a write fails, and not for room."""
    config = configured(tmp_path)
    with started(config) as daemon:
        async with AsyncClient(daemon.address) as client, asyncio.timeout(60):
            first = (await client.submit(ONE, key="first")).job
            size = (tmp_path / "state" / "journal.db-wal").stat().st_size
            resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (size, size))
            with pytest.raises(UnreachableError) as told:
                await client.submit(ONE, key="second")
            assert str(told.value).startswith(f"{daemon.address}: the daemon has failed, and its")
        assert daemon.process.wait(30) == 74
        said = daemon.stderr.read()
    assert f"koala daemon: {tmp_path}/state/journal.db: cannot be written: disk I/O error" in said
    assert "Traceback" not in said
    with started(config) as daemon:
        async with AsyncClient(daemon.address) as client, asyncio.timeout(60):
            assert [job["job"] for job in await client.list_jobs()] == [first]
            assert (await client.submit(ONE, key="first")).job == first


@pytest.mark.live
async def test_a_journal_deleted_under_the_daemon_ends_it(tmp_path: Path) -> None:
    config = configured(tmp_path)
    with started(config) as daemon:
        async with AsyncClient(daemon.address) as client, asyncio.timeout(60):
            await client.submit(ONE)
            (tmp_path / "state" / "journal.db").unlink()
            with pytest.raises(UnreachableError):
                await client.submit(ONE)
        assert daemon.process.wait(30) == 74
    run = run_daemon(config)
    assert run.returncode == 1, "an empty journal in its place is not taken for the old one"
    assert "no journal is there" in run.stderr
