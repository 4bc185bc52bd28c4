"""A start begins at the newest usable snapshot, a replay at the oldest."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from koala.core.digest import digest
from koala.core.model.events import Event, SiteDrained
from koala.core.model.values import FOREVER, SiteName, UserName
from koala.daemon.loop.event_loop import EventLoop
from koala.daemon.loop.group_commit import BatchContext, Retention
from koala.daemon.state.recovery import Recovered, recover
from koala.daemon.storage.archive import read_snapshots
from koala.daemon.storage.folder import FILE
from koala.daemon.storage.journal import Journal
from koala.daemon.storage.journal_reader import open_journal
from koala.errors import JournalError
from tests.daemon.running import config_of

RETENTION = Retention(keep_jobs=1000, keep_jobs_s=1e9, snapshot_events=10)


def life(folder: Path) -> Recovered:
    """One start, and an end that is no end in order."""
    journal = Journal.open(folder / "state")
    try:
        return recover(journal, config_of(folder))
    finally:
        journal.close()


def tell(event: Event, turn: BatchContext) -> None:
    turn.emit(event)


async def lived(folder: Path, events: int, *, keep_s: float = FOREVER) -> None:
    """A life with so many events that ends in order."""
    journal = Journal.open(folder / "state", keep_s=keep_s)
    found = recover(journal, config_of(folder))
    retention = replace(RETENTION, settings=found.settings, replayed=found.replayed)
    event_loop = EventLoop(
        found.scheduler, journal, found.clock, digest=digest, jobs=found.jobs, retention=retention
    )
    for number in range(events):
        site, by = SiteName("delft"), UserName(f"user {number}")
        event_loop.post(partial(tell, SiteDrained(site=site, by=by)))
    event_loop.close()
    await event_loop.run()
    journal.close()


def kept(folder: Path) -> list[int]:
    with closing(sqlite3.connect(folder / "state" / FILE)) as connection:
        found = list(read_snapshots(connection, folder))
    return [one.position.seq for one in found if not isinstance(one, JournalError)]


async def test_a_start_needs_only_what_follows_the_newest_snapshot(tmp_path: Path) -> None:
    await lived(tmp_path, 25)
    newest, *_ = kept(tmp_path)
    found = life(tmp_path)
    assert (found.replayed, found.scheduler.epoch) == (0, 2)
    assert open_journal(tmp_path / "state").events == newest + 1, "DaemonStarted follows"


async def test_a_snapshot_that_cannot_be_used_is_passed_over_for_the_older_one(
    tmp_path: Path,
) -> None:
    await lived(tmp_path, 5)
    await lived(tmp_path, 5)
    newest, older = kept(tmp_path)
    with closing(sqlite3.connect(tmp_path / "state" / FILE)) as connection, connection:
        connection.execute("UPDATE snapshot SET body = zeroblob(99) WHERE seq = ?", (newest,))
    journal = Journal.open(tmp_path / "state")
    found = recover(journal, config_of(tmp_path))
    journal.close()
    assert found.replayed == newest - older
    assert found.scheduler.epoch == 3
    with closing(sqlite3.connect(tmp_path / "state" / FILE)) as connection, connection:
        connection.execute("UPDATE snapshot SET body = zeroblob(99)")
        connection.execute("DELETE FROM event WHERE seq < 10")
    with pytest.raises(JournalError, match=r"events before 10 are not kept.*cannot be used"):
        life(tmp_path)


async def test_the_older_snapshot_can_be_used_where_older_events_are_not_kept(
    tmp_path: Path,
) -> None:
    for _ in range(3):
        await lived(tmp_path, 5, keep_s=0.0)
    newest, older = kept(tmp_path)
    journal = Journal.open(tmp_path / "state")
    assert journal.first_event > 1
    journal.close()
    with closing(sqlite3.connect(tmp_path / "state" / FILE)) as connection, connection:
        connection.execute("UPDATE snapshot SET body = zeroblob(99) WHERE seq = ?", (newest,))
    assert life(tmp_path).replayed == newest - older


async def test_a_replay_begins_at_the_oldest_snapshot_whose_events_are_kept(tmp_path: Path) -> None:
    await lived(tmp_path, 15, keep_s=0.0)
    assert open_journal(tmp_path / "state").begin is None, "the first event is kept"
    for _ in range(3):
        await lived(tmp_path, 15, keep_s=0.0)
    begin = open_journal(tmp_path / "state").begin
    assert begin is not None
    assert begin.position.seq == min(kept(tmp_path))
