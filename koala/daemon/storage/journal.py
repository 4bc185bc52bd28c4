"""The journal: an append-only, hash-chained table of events in SQLite.

Each row has the event as JSON, the policies' answers while it was handled, and a chain value over
the row and all rows before it. SQLite silently truncates its write-ahead log at the first bad
frame, and its pages have no checksums. Therefore:

- The chain detects a changed row.
- The *commit position*, a small file beside the database with number and chain value of the last
  committed row, detects rows missing at the end. It is written after the commit and is never ahead
  of it, even after a power failure. It exists before the first event does, so events without it
  have lost it.

A *snapshot* has the whole state after an event, so that a start replays only later events. Events
before the second newest snapshot may be removed after a time. Notices (what watchers see) and jobs
that left the state (`archive`) go into the same transaction as their events.

A daemon holds the lock of its state directory until it ends. Only one thread writes (`commit` hands
over to it); files are 0600, the directory 0700. Anything that cannot be trusted or written raises
JournalError, and the daemon ends.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from operator import attrgetter
from pathlib import Path

from koala.common.runtime.disk_formats import JOURNAL
from koala.common.runtime.sqlite_store import Database, Schema, lock_folder
from koala.core.model.job import Job
from koala.core.model.values import FOREVER, Instant, JobId, Seconds
from koala.daemon.storage import archive, damaged_history
from koala.daemon.storage.folder import FILE, LOCK, JournalLocation, StateFolder
from koala.daemon.storage.read_connections import ReadConnection, connect_reader
from koala.daemon.storage.records import (
    ADVICE,
    RESTORE,
    Batch,
    JournalPosition,
    Notice,
    Record,
    Row,
    damaged_error,
    position_text,
    read_position,
    read_rows,
    rows_of,
)
from koala.errors import DiskError, JournalError

NOTICES_MAX = 100_000
_NOTICES_SPARE = 1_000  # removed in bulk

_TABLES = f"""
CREATE TABLE event (seq INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL,
                    body TEXT NOT NULL, answers TEXT NOT NULL, chain BLOB NOT NULL);
CREATE TABLE notice (number INTEGER PRIMARY KEY, at REAL NOT NULL, job TEXT NOT NULL,
                     site TEXT NOT NULL, phase TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE digest (seq INTEGER PRIMARY KEY, digest TEXT NOT NULL);
{archive.TABLES}
"""
SCHEMA = Schema(format=JOURNAL, tables=_TABLES, advice=RESTORE)
_NOTICES = "SELECT number, at, job, site, phase, text FROM notice"
_NOTICE_FIELDS = attrgetter("number", "at", "job", "site", "phase", "text")
SNAPSHOTS_KEPT = 2  # the older one is a fallback
REMOVED_MAX = 1_000  # rows per commit, so that no commit takes long

# --- the journal of a running daemon --------------------------------------------------------------


class Journal:
    """The open journal of one location; `open` locks a state directory, `close` releases it."""

    def __init__(
        self,
        place: JournalLocation,
        database: Database,
        connect: Callable[[], sqlite3.Connection] | None = None,
        *,
        keep_s: Seconds = FOREVER,
        keep_jobs_s: Seconds = FOREVER,
    ) -> None:
        """Take over the database; `connect` opens the event loop's own connection (default: share).

        `keep_s` is the retention of events that no start needs, `keep_jobs_s` of archived jobs.
        """
        self.path = place.path
        self.position = JournalPosition()  # the last row that was read or committed
        self.last_at: Instant = 0.0
        self._place = place
        self._database = database
        self._run = database.connection.execute
        (self.first_notice, self.notice_number), self.first_event = self._notices(), self._first()
        self._committed: JournalPosition | None = None
        self._is_cut = False  # rows after the committed one are deleted by the next commit
        self._keep_s = keep_s
        self._keep_jobs_s = keep_jobs_s
        self._remove_to = 0
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._questions = ReadConnection(place.path, "questions")
        self._lists = ReadConnection(place.path, "lists")  # pages of long lists
        self._loop_connection: sqlite3.Connection | None = None  # of the event loop
        self._connect_for_loop = connect or (lambda: database.connection)

    @classmethod
    def open(
        cls,
        state_dir: Path,
        *,
        keep_s: Seconds = FOREVER,
        keep_jobs_s: Seconds = FOREVER,
        make_room: Callable[[], bool] = lambda: False,
    ) -> Journal:
        """Open or create the journal of a state directory. Raises JournalError.

        `make_room` is called when a commit finds the disk full.
        """
        path = state_dir / FILE
        with ExitStack() as opened:
            lock = lock_folder(state_dir / LOCK, "daemon", JournalError)
            opened.callback(os.close, lock)
            database = Database(path, SCHEMA, make_room=make_room)
            opened.callback(database.close)
            archive.check_jobs(database.connection, path)
            connect = partial(connect_reader, path)
            journal = cls(
                StateFolder(state_dir, lock),
                database,
                connect,
                keep_s=keep_s,
                keep_jobs_s=keep_jobs_s,
            )
            opened.pop_all()
        return journal

    def _first(self) -> int:
        """Return the number of the first kept event; 1 if there is none."""
        return self._database.read("SELECT min(seq) FROM event")[0][0] or 1

    def _notices(self) -> tuple[int, int]:
        """Return the numbers of the first and the last kept notice; 1 and 0 if there is none."""
        ((first, last),) = self._database.read("SELECT min(number), max(number) FROM notice")
        return (1, 0) if last is None else (int(first), int(last))

    def ready(self, *, accept_loss: bool) -> list[int]:
        """Prepare for commits: delete damaged snapshots and return the events before them.

        With `accept_loss` also delete the recorded digests, which can no longer be trusted. Raises
        JournalError.
        """

        def change(connection: sqlite3.Connection) -> list[int]:
            if accept_loss:
                connection.execute("DELETE FROM digest")
            return archive.drop_damaged_snapshots(connection)

        return self._database.write(change)

    @property
    def size_bytes(self) -> int:
        """Size of the database's files."""
        size_bytes = 0
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                size_bytes += self.path.with_name(self.path.name + suffix).stat().st_size
        return size_bytes

    @property
    def seq(self) -> int:
        """Number of the last row that was read or committed."""
        return self.position.seq

    def snapshots(self) -> Iterator[archive.KeptSnapshot | JournalError]:
        """Yield the snapshots, newest first; an unusable one as an error."""
        return archive.read_snapshots(self._database.connection, self.path)

    def check_history(self, begin: JournalPosition, *, accept_loss: bool) -> None:
        """Verify all events kept up to the snapshot to start from. Raises DamagedError.

        With `accept_loss` the snapshot's own event may be missing.
        """
        damaged_history.check_history(self._database.connection, self.path, begin)
        is_kept = self.first_event <= begin.seq
        if is_kept and not accept_loss and self.chain_at(begin.seq) != begin.chain:
            raise truncated_error(self.path, "its newest snapshot", self.last_event(), begin.seq)

    def drop_history(self) -> int:
        """Delete damaged history; return the last deleted event, or 0. Raises JournalError."""
        last = damaged_history.drop_history(self._database, self.path)
        self.first_event = self._first()
        return last

    def last_event(self) -> int:
        """Return the number of the last event, not verified yet; 0 if there is none."""
        return self._database.read("SELECT max(seq) FROM event")[0][0] or 0

    def records(
        self,
        after: JournalPosition | None = None,
        *,
        last_at: Instant = 0.0,
        accept_loss: bool = False,
    ) -> Iterator[Record]:
        """Yield the events after a snapshot taken at `last_at`, in order, each verified.

        Afterwards the journal is ready for commits. With `accept_loss` the first untrusted event is
        removed by the first commit, with all after it; until then the journal is rejected.
        """
        self.position, self.last_at = after or JournalPosition(), last_at
        self._committed = None
        if not accept_loss:
            source = str(self._place.position_path)
            self._committed = read_position(self._place.read_position(), source=source)
        has_position = self._committed is not None
        if self._committed is not None and (
            self._committed.seq < self.position.seq or self._committed == self.position
        ):
            self._committed = None
        try:
            for record, position in read_events(
                self._database.connection, self.path, self.position
            ):
                self.position, self.last_at = position, record.at
                if self._committed == position:
                    self._committed = None  # the last commit is here
                yield record
        except JournalError:
            if not accept_loss:
                raise
            self._is_cut = True
        if not accept_loss:
            self._end_at_position(has_position=has_position)

    def _end_at_position(self, *, has_position: bool) -> None:
        """Check that no committed row is missing, and write the position. Raises JournalError."""
        if self._committed is not None and self._committed.seq > 0:
            raise truncated_error(
                self.path, self._place.position_path, self.seq, self._committed.seq
            )
        if self.seq > 0 and not has_position:
            raise missing_position_error(self.path, self._place.position_path, self.seq)
        try:
            self._write_position()
        except OSError as error:
            raise DiskError(f"{self._place.position_path}: cannot be written: {error}") from error

    def chain_at(self, seq: int) -> bytes | None:
        """Return the chain value of a committed row; None if not kept. Raises JournalError."""
        try:
            if self._loop_connection is None:
                self._loop_connection = self._connect_for_loop()
            question = "SELECT chain FROM event WHERE seq = ?"
            row = self._loop_connection.execute(question, (seq,)).fetchone()
        except sqlite3.Error as error:
            raise JournalError(f"{self.path}: event {seq} cannot be read: {error}") from error
        return None if row is None else bytes(row[0])

    def last_digest(self) -> tuple[int, str] | None:
        """Return the newest recorded digest of the state, and the event before it. Raises
        JournalError."""
        rows = self._database.read("SELECT seq, digest FROM digest ORDER BY seq DESC LIMIT 1")
        match rows:
            case []:
                return None
            case [(int(seq), str(digest))]:
                return seq, digest
            case _:
                what = f"the newest digest of the state is damaged: {rows[0]}"
                raise JournalError(f"{self.path}: {what}")

    async def commit(self, batch: Batch) -> None:
        """Make a batch durable, one at a time. After a JournalError no commit may follow."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._writer, self.append, batch)

    def append(self, batch: Batch) -> None:
        """Commit in the caller's thread, which must be the only one that writes."""
        rows, position = rows_of(batch.records, self.position)
        first_notice = self._first_kept(batch.notices)
        at = batch.records[-1].at if batch.records else self.last_at

        def change(connection: sqlite3.Connection) -> int:
            if batch.snapshot is not None:
                archive.write_snapshot(connection, position, at, batch.snapshot)
                self._forget_snapshots(at)
            return self._write(connection, batch, rows, position, first_notice)

        with self._database.writing():
            self._place.check()
            first_event = self._database.transact(change)
            self._place.check()
            self.position, self.last_at = position, at
            self._is_cut = False
            self.first_event, self.first_notice = first_event, first_notice
            if batch.notices:
                self.notice_number = batch.notices[-1].number
            self._write_position()

    def _write(
        self,
        connection: sqlite3.Connection,
        batch: Batch,
        rows: Sequence[Row],
        position: JournalPosition,
        first_notice: int,
    ) -> int:
        """Write a batch within its transaction; return the first event that is kept."""
        run = connection.execute
        if self._is_cut:
            for table in ("event", "digest", "snapshot"):
                run(f"DELETE FROM {table} WHERE seq > ?", (self.seq,))
        connection.executemany("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)", rows)
        connection.executemany(
            "INSERT INTO notice VALUES (?, ?, ?, ?, ?, ?)", map(_NOTICE_FIELDS, batch.notices)
        )
        if first_notice > self.first_notice:
            run("DELETE FROM notice WHERE number < ?", (first_notice,))
        if batch.digest is not None:
            run("INSERT OR REPLACE INTO digest VALUES (?, ?)", (position.seq, batch.digest))
        archive.write_jobs(connection, batch.purged)
        return self._remove()

    def _forget_snapshots(self, now: Instant) -> None:
        """Delete the oldest snapshot after a new one; schedule the removal of earlier events."""
        kept = self._run(
            "SELECT seq FROM snapshot ORDER BY seq DESC LIMIT ?", (SNAPSHOTS_KEPT,)
        ).fetchall()
        (oldest,) = kept[-1]
        self._run("DELETE FROM snapshot WHERE seq < ?", (oldest,))
        archive.remove_jobs(self._database.connection, before=now - self._keep_jobs_s)
        if len(kept) == SNAPSHOTS_KEPT and self._keep_s < FOREVER:
            # Its own event stays: a start verifies the snapshot against it.
            self._remove_to = self._last_before(now - self._keep_s, oldest - 1)

    def _last_before(self, instant: Instant, last: int) -> int:
        """Return the last event up to `last` that is older; instants grow with the numbers."""
        low, high = self.first_event - 1, last
        while low < high:
            middle = (low + high + 1) // 2
            row = self._run("SELECT at FROM event WHERE seq = ?", (middle,)).fetchone()
            if row is None or row[0] < instant:
                low = middle
            else:
                high = middle - 1
        return low

    def _remove(self) -> int:
        """Delete a limited number of expired events; return the first that remains."""
        if self.first_event > self._remove_to:
            return self.first_event
        last = min(self._remove_to, self.first_event + REMOVED_MAX - 1)
        for table in ("event", "digest", "snapshot"):
            self._run(f"DELETE FROM {table} WHERE seq <= ?", (last,))
        return last + 1

    async def job(self, job: str) -> Job | None:
        """Read an archived job. Raises JournalError."""
        return await self._questions.ask(archive.read_job, job)

    async def jobs_of_keys(self, keys: Sequence[str]) -> dict[str, tuple[JobId, str]]:
        """Return the archived jobs submitted under these keys, and their digests. Raises
        JournalError."""
        return await self._questions.ask(archive.read_keys, keys)

    async def jobs(self, query: archive.ArchiveQuery) -> archive.ArchivePage:
        """Read a page of archived jobs; other reads run between pages. Raises JournalError."""
        return await self._lists.ask(archive.read_jobs, query)

    async def owners(self, jobs: Sequence[str]) -> dict[str, str]:
        """Return the owners of those of these jobs that are archived. Raises JournalError."""
        return await self._lists.ask(archive.read_owners, jobs)

    async def notices(self, after: int, limit: int) -> list[Notice]:
        """Return kept notices with a greater number, the oldest first, at most `limit`."""

        def read(connection: sqlite3.Connection, _: Path, after: int) -> list[Notice]:
            question = f"{_NOTICES} WHERE number > ? ORDER BY number LIMIT ?"
            return [_notice(row) for row in connection.execute(question, (after, limit))]

        return await self._lists.ask(read, after)

    def close(self) -> None:
        """Release the lock. The write-ahead log is folded into the database, or replayed later."""
        self._writer.shutdown()
        self._questions.close()
        self._lists.close()
        if self._loop_connection not in (None, self._database.connection):
            self._loop_connection.close()
        with suppress(sqlite3.Error):
            if not self._database.has_failed:
                self._run("PRAGMA wal_checkpoint(TRUNCATE)")
        self._database.close()
        self._place.close()

    def _first_kept(self, notices: Sequence[Notice]) -> int:
        """Return the first notice to keep after these; old ones are removed in bulk."""
        last = notices[-1].number if notices else self.notice_number
        keep_from = last - NOTICES_MAX + 1
        is_due = keep_from - self.first_notice >= _NOTICES_SPARE
        return keep_from if is_due else self.first_notice

    def _write_position(self) -> None:
        self._place.write_position(position_text(self.position))


# --- rows and files, also for readers (journal_reader) --------------------------------------------


def read_events(
    connection: sqlite3.Connection, path: Path, after: JournalPosition
) -> Iterator[tuple[Record, JournalPosition]]:
    """Yield the events after a position, each with its own position, verified row by row.

    Raises JournalError.
    """
    last = after.seq
    try:
        rows = connection.execute(
            "SELECT seq, at, kind, body, answers, chain FROM event WHERE seq > ? ORDER BY seq",
            (after.seq,),
        )
        for record, position in read_rows(rows, after, source=str(path)):
            last = position.seq
            yield record, position
    except (sqlite3.Error, UnicodeError) as error:
        raise damaged_error(path, f"after event {last}: {error}") from error


def _notice(row: tuple[int, float, str, str, str, str]) -> Notice:
    number, at, job, site, phase, text = row
    return Notice(number=number, at=at, job=job, site=site, phase=phase, text=text)


def truncated_error(path: Path, witness: Path | str, last: int, committed: int) -> JournalError:
    """Create the error of a journal whose last events are missing or are not the original ones."""
    what = f"it ends with event {last}, but event {committed} had been committed, says {witness}"
    return damaged_error(path, what)


def missing_position_error(path: Path, witness: Path, last: int) -> JournalError:
    """Create the error of a journal without its commit position: its end may be missing, too."""
    what = f"it ends with event {last}, and {witness}, which says where it has to, is missing"
    return damaged_error(path, what)


def rolled_back_error(path: Path, last: int, committed: int, site: str) -> JournalError:
    """Create the error of a journal that lacks an event that an agent acted on."""
    return JournalError(
        f"{path}: it ends with event {last}, but the orders of site {site} rest on event"
        f" {committed} of another journal than this one: events were lost, or an older copy was put"
        f" in its place. {ADVICE}"
    )
