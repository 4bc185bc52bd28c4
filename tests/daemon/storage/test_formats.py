"""State of older releases, and of later ones: loaded, or refused with a clear text.

`old/formatN.sql` are journals as releases wrote them: j1 Finished, j2 with its claims granted, j3
waits, j4 was cancelled. In that of format 2 the agents of j1 arm in time, and chain, digests and
notices are as if they always had: they had armed too late, and said that j1 had ended well without
a Release, which no core believes any more (decision 209).
"""

import sqlite3
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import koala.daemon.state.recovery
import koala.daemon.storage.archive
import koala.daemon.storage.core_upgrade
import koala.daemon.storage.journal_reader
from koala.core.model.events import Event, SiteDrained
from koala.core.model.values import FOREVER, SiteName, UserName
from koala.daemon.loop.event_loop import EventLoop
from koala.daemon.loop.group_commit import BatchContext, Upkeep
from koala.daemon.state.recovery import Recovered, recover
from koala.daemon.storage.archive import read_snapshots
from koala.daemon.storage.folder import FILE, MARK
from koala.daemon.storage.journal import Journal
from koala.daemon.storage.journal_reader import open_journal, replay
from koala.daemon.storage.records import JournalPosition, mark_text
from koala.errors import JournalError
from koala.runtime.disk_formats import CORE, JOURNAL
from koala.views.digest import digest
from tests.daemon.running import config_of

TOLD = (
    koala.daemon.storage.archive,
    koala.daemon.storage.journal_reader,
    koala.daemon.state.recovery,
    koala.daemon.storage.core_upgrade,
)
OLD = Path(__file__).parent / "old"
UPKEEP = Upkeep(keep_jobs=1000, keep_jobs_s=1e9, snapshot_events=10)


def old_state(folder: Path, number: int) -> Path:
    """A state directory as a release of this format left it."""
    state = folder / "state"
    state.mkdir()
    with closing(sqlite3.connect(state / FILE)) as connection:
        connection.executescript(OLD.joinpath(f"format{number}.sql").read_text(encoding="utf-8"))
        last = connection.execute("SELECT seq, chain FROM event ORDER BY seq DESC LIMIT 1")
        (state / MARK).write_bytes(mark_text(JournalPosition(*last.fetchone())))
    return state


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
    upkeep = replace(UPKEEP, settings=found.settings, replayed=found.replayed)
    event_loop = EventLoop(
        found.scheduler, journal, found.clock, digest=digest, jobs=found.jobs, upkeep=upkeep
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
    return [one.mark.seq for one in found if not isinstance(one, JournalError)]


def test_a_journal_of_format_2_goes_on(tmp_path: Path) -> None:
    state = old_state(tmp_path, 2)
    *_, last = replay(open_journal(state))
    phases = {job.id: job.phase_name for job in last.scheduler.jobs.values()}
    assert phases == {"j1": "Finished", "j2": "Starting", "j3": "Placing", "j4": "Cancelled"}
    found = life(tmp_path)
    assert {job.id: job.phase_name for job in found.scheduler.jobs.values()} == phases
    assert (found.scheduler.epoch, found.jobs) == (2, 4)
    with closing(sqlite3.connect(state / FILE)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (JOURNAL.newest,)
    assert life(tmp_path).scheduler.epoch == 3


def test_a_journal_of_format_1_is_refused_with_what_to_do(tmp_path: Path) -> None:
    state = old_state(tmp_path, 1)
    with pytest.raises(JournalError, match=r"journal format 1: .*Let that release finish its jobs"):
        life(tmp_path)
    with pytest.raises(JournalError, match="journal format 1"):
        open_journal(state)


async def test_a_start_needs_only_what_follows_the_newest_snapshot(tmp_path: Path) -> None:
    old_state(tmp_path, 2)
    await lived(tmp_path, 25)
    newest, *_ = kept(tmp_path)
    found = life(tmp_path)
    assert (found.replayed, found.jobs, found.scheduler.epoch) == (0, 4, 3)
    assert open_journal(tmp_path / "state").events == newest + 1, "DaemonStarted follows"


async def test_a_snapshot_that_cannot_be_used_is_passed_over_for_the_older_one(
    tmp_path: Path,
) -> None:
    old_state(tmp_path, 2)
    await lived(tmp_path, 5)
    await lived(tmp_path, 5)
    newest, older, _ = kept(tmp_path)
    with closing(sqlite3.connect(tmp_path / "state" / FILE)) as connection, connection:
        connection.execute("UPDATE snapshot SET body = zeroblob(99) WHERE seq = ?", (newest,))
    journal = Journal.open(tmp_path / "state")
    found = recover(journal, config_of(tmp_path))
    journal.close()
    assert found.replayed == newest - older
    assert found.scheduler.epoch == 4
    with closing(sqlite3.connect(tmp_path / "state" / FILE)) as connection, connection:
        connection.execute("UPDATE snapshot SET body = zeroblob(99)")
        connection.execute("DELETE FROM event WHERE seq < 10")
    with pytest.raises(JournalError, match=r"events before 10 are not kept.*cannot be used"):
        life(tmp_path)


async def test_the_older_snapshot_can_be_used_where_older_events_are_not_kept(
    tmp_path: Path,
) -> None:
    old_state(tmp_path, 2)
    for _ in range(3):
        await lived(tmp_path, 5, keep_s=0.0)
    newest, older = kept(tmp_path)
    journal = Journal.open(tmp_path / "state")
    assert journal.first_event > 1
    journal.close()
    with closing(sqlite3.connect(tmp_path / "state" / FILE)) as connection, connection:
        connection.execute("UPDATE snapshot SET body = zeroblob(99) WHERE seq = ?", (newest,))
    assert life(tmp_path).replayed == newest - older


async def test_another_core_goes_on_and_begins_at_a_state_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`test_old_states` has journals that real releases wrote."""
    old_state(tmp_path, 2)
    await lived(tmp_path, 5)
    taken_over = 0
    for core in (CORE + 1, CORE + 2):
        for module in TOLD:
            monkeypatch.setattr(module, "CORE", core)
        newest = max(kept(tmp_path), default=0)
        assert life(tmp_path).replayed == 0
        taken_over, *_ = kept(tmp_path)
        assert taken_over > newest
        begin = open_journal(tmp_path / "state").begin
        assert begin is not None
        assert begin.mark.seq == taken_over, "no later replay needs events of another core"
        assert life(tmp_path).scheduler.epoch > core - CORE
    for _ in range(3):
        await lived(tmp_path, 15)
    assert taken_over in kept(tmp_path), "the story begins there as long as its events are kept"
    for module in TOLD:
        monkeypatch.setattr(module, "CORE", CORE)
    with pytest.raises(JournalError, match=rf"core {CORE + 2}: this release has core {CORE}"):
        life(tmp_path)
