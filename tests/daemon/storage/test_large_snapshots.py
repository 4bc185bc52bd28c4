"""Large snapshots are encoded beside the commits that follow, and a start needs little else."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from koala.core.digest import digest
from koala.core.model.events import JobSubmitted
from koala.core.model.job_spec import ComponentSpec, JobSpec
from koala.daemon.loop.event_loop import EventLoop
from koala.daemon.loop.group_commit import BatchContext, Upkeep
from koala.daemon.state.recovery import Recovered, recover
from koala.daemon.storage import archive
from koala.daemon.storage.journal import PACKED_ASIDE, Journal
from koala.errors import JournalError
from tests.daemon.running import config_of

JOBS = PACKED_ASIDE + 100
LIMIT_S = 60.0


def begun(folder: Path) -> tuple[Journal, Recovered]:
    """Return an open journal and the state that it gives."""
    journal = Journal.open(folder / "state")
    config = config_of(folder, parameters="queue_jobs_max = 1000000\n")
    return journal, recover(journal, config)


def submit(batch: BatchContext, count: int) -> None:
    """Accept so many jobs, none alike."""
    for _ in range(count):
        job = batch.new_job()
        spec = JobSpec(components=(ComponentSpec(executable="/bin/true", arguments=(job,)),) * 2)
        batch.emit(JobSubmitted(job=job, spec=spec))


def snapshots(journal: Journal) -> list[int]:
    """Return the events after which the stored snapshots were taken, newest first."""
    return [one.mark.seq for one in journal.snapshots() if not isinstance(one, JournalError)]


async def test_commits_go_on_while_a_large_snapshot_is_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_pack, pack = threading.Event(), archive.pack_snapshot

    def slow(*arguments: Any) -> archive.SnapshotRow:
        assert may_pack.wait(LIMIT_S)
        return pack(*arguments)

    monkeypatch.setattr(archive, "pack_snapshot", slow)
    journal, found = begun(tmp_path)
    upkeep = Upkeep(keep_jobs=1000, keep_jobs_s=1e9, snapshot_events=JOBS, settings=found.settings)
    event_loop = EventLoop(
        found.scheduler, journal, found.clock, digest=digest, jobs=found.jobs, upkeep=upkeep
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(event_loop.run())
        await event_loop.ask(lambda batch: submit(batch, JOBS))
        taken_at = journal.seq
        await event_loop.ask(lambda batch: submit(batch, 1))
        assert journal.seq > taken_at
        assert snapshots(journal) == [], "it is not encoded yet"
        may_pack.set()
        async with asyncio.timeout(LIMIT_S):
            while not snapshots(journal):
                await event_loop.ask(lambda batch: submit(batch, 1))
        assert len(snapshots(journal)) == 1
        last, accepted = journal.seq, event_loop.jobs
        running.cancel()
    journal.close()  # as after a kill: nothing more is saved

    journal, found = begun(tmp_path)
    assert found.jobs == len(found.scheduler.jobs) == accepted
    assert 0 < found.replayed < last - JOBS / 2, "only what followed the snapshot"
    journal.close()
