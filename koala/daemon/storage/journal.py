"""The journal: an append-only, hash-chained table of events in SQLite.

Each row has the event as JSON, the policies' answers while it was handled, and a chain value over
the row and all rows before it. SQLite silently truncates its write-ahead log at the first bad
frame, and its pages have no checksums. Therefore:

- The chain detects a changed row.
- The *mark*, a small file beside the database with the last committed number and chain value,
  detects rows missing at the end. It is written after the commit and is never ahead of it, even
  after a power failure. It exists before the first event does, so events without a mark have lost
  it.

A *snapshot* has the whole state after an event, so that a start replays only later events. Events
before the second newest snapshot may be removed after a time. Notices (what watchers see) and jobs
that left the state (`archive`) go into the same transaction.

A daemon holds the lock of its state directory for life. Only one thread writes (`commit` hands over
to it); files are 0600, the directory 0700. Anything that cannot be trusted or written raises
JournalError, and the daemon ends.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

from koala.core.model.job import Job
from koala.core.model.values import FOREVER, Instant, JobId, Seconds
from koala.daemon.state_folder import DAMAGED, FILE, JournalLocation, StateFolder, acquire_lock
from koala.daemon.storage import archive
from koala.daemon.storage import retention as history
from koala.daemon.storage.read_connections import ReadConnection, connect_reader
from koala.daemon.storage.records import (
    ADVICE,
    Batch,
    JournalPosition,
    Notice,
    Record,
    Row,
    damaged,
    mark_text,
    read_mark,
    read_rows,
    rows_of,
)
from koala.errors import DiskError, JournalError
from koala.runtime.disk_formats import CORE, JOURNAL

NOTICES_MAX = 100_000
_NOTICES_SPARE = 1_000  # removed in bulk

_TABLES = """
CREATE TABLE event (seq INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL,
                    body TEXT NOT NULL, answers TEXT NOT NULL, chain BLOB NOT NULL);
CREATE TABLE notice (number INTEGER PRIMARY KEY, at REAL NOT NULL, job TEXT NOT NULL,
                     site TEXT NOT NULL, phase TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE digest (seq INTEGER PRIMARY KEY, digest TEXT NOT NULL);
"""
SNAPSHOTS_KEPT = 2  # the older one is a fallback
REMOVED_MAX = 1_000  # rows per commit, so that no commit takes long
CORE_FACT = "core"
SINCE_FACT = "core_since"
"""The event after which this core took over from another one; missing: it wrote all of them."""

# --- the journal of a running daemon --------------------------------------------------------------


class Journal:
    """The open journal of one location; `open` locks a state directory, `close` releases it."""

    def __init__(
        self,
        place: JournalLocation,
        connection: sqlite3.Connection,
        look: Callable[[], sqlite3.Connection] | None = None,
        *,
        keep_s: Seconds = FOREVER,
        keep_jobs_s: Seconds = FOREVER,
        make_room: Callable[[], bool] = lambda: False,
    ) -> None:
        """Open the journal; `look` opens the event loop's own connection (default: share one)."""
        self.path = place.path
        self.mark = JournalPosition()  # the last row that was read or committed
        self.first_notice, self.notice_number = _notice_numbers(connection, place.path)
        self.last_at: Instant = 0.0
        self._place = place
        self._connection = connection
        self._marked: JournalPosition | None = None
        self._has_failed = False
        self._is_cut = False  # rows after the mark are deleted by the next commit
        self.first_event = _first_event(connection, place.path)
        self.keep_s = keep_s  # retention of events that no start needs
        self.keep_jobs_s = keep_jobs_s  # retention of archived jobs
        self._remove_to = 0
        self.make_room = make_room  # called when the disk is full
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._questions = ReadConnection(place.path, "questions")
        self._lists = ReadConnection(place.path, "lists")  # pages of long lists
        self._loop_connection: sqlite3.Connection | None = None  # of the event loop
        self._connect_for_loop = look or (lambda: connection)

    def ready(self, *, accept_loss: bool) -> list[int]:
        """Prepare for commits: delete damaged snapshots and return the events before them.

        With `accept_loss` also delete the recorded digests, which can no longer be trusted. Raises
        JournalError.
        """
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                if accept_loss:
                    self._connection.execute("DELETE FROM digest")
                return archive.drop_damaged_snapshots(self._connection)
        except sqlite3.Error as error:
            raise DiskError(f"{self.path}: cannot be written: {error}") from error

    @property
    def seq(self) -> int:
        """Number of the last row that was read or committed."""
        return self.mark.seq

    @classmethod
    def open(
        cls,
        state_dir: Path,
        *,
        keep_s: Seconds = FOREVER,
        keep_jobs_s: Seconds = FOREVER,
        make_room: Callable[[], bool] = lambda: False,
    ) -> Journal:
        """Open or create the journal of a state directory. Raises JournalError."""
        lock = acquire_lock(state_dir)
        try:
            _require_journal(state_dir)
            connection = _connect(state_dir / FILE)
            try:
                place = StateFolder(state_dir, lock)
                return cls(
                    place,
                    connection,
                    partial(connect_reader, place.path),
                    keep_s=keep_s,
                    keep_jobs_s=keep_jobs_s,
                    make_room=make_room,
                )
            except BaseException:
                connection.close()
                raise
        except OSError as error:
            os.close(lock)
            raise JournalError(f"{state_dir}: {error.strerror or error}") from error
        except BaseException:
            os.close(lock)
            raise

    def snapshots(self) -> Iterator[archive.KeptSnapshot | JournalError]:
        """Yield the snapshots, newest first; an unusable one as an error."""
        return archive.read_snapshots(self._connection, self.path)

    def check_history(self, begin: JournalPosition, *, accept_loss: bool) -> None:
        """Verify all events kept up to the snapshot to start from. Raises DamagedError.

        With `accept_loss` the snapshot's own event may be missing.
        """
        history.check_history(self._connection, self.path, begin)
        is_kept = self.first_event <= begin.seq
        if is_kept and not accept_loss and self.chain_at(begin.seq) != begin.chain:
            raise cut_short(self.path, "its newest snapshot", self.last_event(), begin.seq)

    def drop_history(self) -> int:
        """Delete damaged history; return the last deleted event, or 0. Raises JournalError."""
        try:
            return history.drop_history(self._connection, self.path)
        except sqlite3.Error as error:
            raise damaged(self.path, f"its history cannot be dropped: {error}") from error

    def last_event(self) -> int:
        """Return the number of the last event, not verified yet; 0 if there is none."""
        return self._connection.execute("SELECT max(seq) FROM event").fetchone()[0] or 0

    def core(self) -> int:
        """Return the version of the core that wrote last. Raises JournalError."""
        return written_by(self._connection, self.path)[0]

    def notices_since(self, at: Instant) -> list[Notice]:
        """Return all kept notices from an instant on. Raises JournalError."""
        try:
            rows = self._connection.execute(
                "SELECT number, at, job, site, phase, text FROM notice WHERE at >= ?"
                " ORDER BY number",
                (at,),
            )
            return [
                Notice(number=number, at=at, job=job, site=site, phase=phase, text=text)
                for number, at, job, site, phase, text in rows
            ]
        except (sqlite3.Error, UnicodeError) as error:
            raise damaged(self.path, f"the notices cannot be read: {error}") from error

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
        self.mark, self.last_at = after or JournalPosition(), last_at
        if not accept_loss:
            source = str(self._place.mark_path)
            self._marked = read_mark(self._place.read_mark(), source=source)
        is_marked = self._marked is not None
        if self._marked is not None and (
            self._marked.seq < self.mark.seq or self._marked == self.mark
        ):
            self._marked = None
        try:
            for record, mark in read_events(self._connection, self.path, self.mark):
                self.mark, self.last_at = mark, record.at
                if self._marked == mark:
                    self._marked = None  # the last commit is here
                yield record
        except JournalError:
            if not accept_loss:
                raise
            self._is_cut = True
        if not accept_loss:
            self._end_at_mark(is_marked=is_marked)

    def _end_at_mark(self, *, is_marked: bool) -> None:
        """Check that no committed row is missing, and write the mark. Raises JournalError."""
        if self._marked is not None and self._marked.seq > 0:
            raise cut_short(self.path, self._place.mark_path, self.seq, self._marked.seq)
        if self.seq > 0 and not is_marked:
            raise unmarked(self.path, self._place.mark_path, self.seq)
        try:
            self._write_mark()
        except OSError as error:
            raise DiskError(f"{self._place.mark_path}: cannot be written: {error}") from error

    def _cut(self) -> None:
        """Delete everything after the last row that was read.

        Raises DamagedError, and sqlite3.OperationalError on a full disk.
        """
        try:
            for table in ("event", "digest", "snapshot"):
                self._connection.execute(f"DELETE FROM {table} WHERE seq > ?", (self.seq,))
        except sqlite3.Error as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
                raise
            raise damaged(self.path, f"beyond repair: {error}") from error

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
        """Return the newest recorded digest of the state, and the event before it."""
        try:
            row = self._connection.execute(
                "SELECT seq, digest FROM digest ORDER BY seq DESC LIMIT 1"
            ).fetchone()
        except (sqlite3.Error, UnicodeError) as error:
            raise JournalError(f"{self.path}: damaged: {error}") from error
        return None if row is None else (int(row[0]), str(row[1]))

    async def commit(self, batch: Batch) -> None:
        """Make a batch durable, one at a time. After a JournalError no commit may follow."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._writer, self.append, batch)

    def append(self, batch: Batch) -> None:
        """Commit in the caller's thread, which must be the only one that writes."""
        rows, mark = rows_of(batch.records, self.mark)
        try:
            self._place.check()
            try:
                self._write(batch, rows, mark)
            except sqlite3.OperationalError as error:
                # Only on a full disk does SQLite roll back the whole transaction. After any other
                # error the state is unknown, and a retry could hide a loss.
                if error.sqlite_errorcode != sqlite3.SQLITE_FULL or not self.make_room():
                    raise
                self._write(batch, rows, mark)
            self._place.check()
            if batch.records:
                self.mark, self.last_at = mark, batch.records[-1].at
            self._write_mark()
        except (sqlite3.Error, OSError) as error:
            self._has_failed = True
            raise DiskError(f"{self.path}: cannot be written: {error}") from error

    def _write(self, batch: Batch, rows: Sequence[Row], mark: JournalPosition) -> None:
        first_notice = self._first_kept(batch.notices)
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            if self._is_cut:
                self._cut()
            self._connection.executemany("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)", rows)
            self._connection.executemany(
                "INSERT INTO notice VALUES (?, ?, ?, ?, ?, ?)",
                [(n.number, n.at, n.job, n.site, n.phase, n.text) for n in batch.notices],
            )
            if first_notice > self.first_notice:
                self._connection.execute("DELETE FROM notice WHERE number < ?", (first_notice,))
            if batch.digest is not None:
                self._connection.execute(
                    "INSERT OR REPLACE INTO digest VALUES (?, ?)", (mark.seq, batch.digest)
                )
            if batch.core is not None:
                self._adopt(batch.core, mark.seq if batch.is_takeover else 0)
            archive.write_jobs(self._connection, batch.forgotten)
            if batch.snapshot is not None:
                at = batch.records[-1].at if batch.records else self.last_at
                archive.write_snapshot(self._connection, mark, at, batch.snapshot)
                self._forget_snapshots(at)
            first_event = self._remove()
        self._is_cut = False
        self.first_event = first_event
        self.first_notice = first_notice
        if batch.notices:
            self.notice_number = batch.notices[-1].number

    def _adopt(self, core: int, since: int) -> None:
        """Record that this core version writes from now on, within a transaction.

        `since` is the event of the takeover if another core wrote before; its digests are deleted,
        because this core cannot verify them.
        """
        facts = [(CORE_FACT, str(core))]
        if since:
            facts.append((SINCE_FACT, str(since)))
            self._connection.execute("DELETE FROM digest WHERE seq < ?", (since,))
        self._connection.executemany("INSERT OR REPLACE INTO fact VALUES (?, ?)", facts)

    def _forget_snapshots(self, now: Instant) -> None:
        """Delete the oldest snapshot after a new one; schedule the removal of earlier events."""
        kept = self._connection.execute(
            "SELECT seq FROM snapshot ORDER BY seq DESC LIMIT ?", (SNAPSHOTS_KEPT,)
        ).fetchall()
        (oldest,) = kept[-1]
        _, since = written_by(self._connection, self.path)  # where a full replay begins
        self._connection.execute("DELETE FROM snapshot WHERE seq < ? AND seq != ?", (oldest, since))
        archive.remove_jobs(self._connection, before=now - self.keep_jobs_s)
        if len(kept) == SNAPSHOTS_KEPT and self.keep_s < FOREVER:
            # Its own event stays: a start verifies the snapshot against it.
            self._remove_to = self._last_before(now - self.keep_s, oldest - 1)

    def _last_before(self, instant: Instant, last: int) -> int:
        """Return the last event up to `last` that is older; instants grow with the numbers."""
        low, high = self.first_event - 1, last
        while low < high:
            middle = (low + high + 1) // 2
            row = self._connection.execute(
                "SELECT at FROM event WHERE seq = ?", (middle,)
            ).fetchone()
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
            self._connection.execute(f"DELETE FROM {table} WHERE seq <= ?", (last,))
        return last + 1

    async def job(self, job: str) -> Job | None:
        """Read an archived job. Raises JournalError."""
        return await self._questions.ask(archive.read_job, job)

    async def jobs_of_keys(self, keys: Sequence[str]) -> dict[str, tuple[JobId, str]]:
        """Return the archived jobs submitted under these keys, and their digests. Raises
        JournalError."""
        return await self._questions.ask(archive.read_keys, keys)

    async def jobs(self, wanted: archive.ArchiveQuery) -> archive.ArchivePage:
        """Read a page of archived jobs; other reads run between pages. Raises JournalError."""
        return await self._lists.ask(archive.read_jobs, wanted)

    async def owners(self, jobs: Sequence[str]) -> dict[str, str]:
        """Return the owners of those of these jobs that are archived. Raises JournalError."""
        return await self._lists.ask(archive.read_owners, jobs)

    async def notices(self, after: int, limit: int) -> list[Notice]:
        """Return kept notices with a greater number, the oldest first, at most `limit`."""

        def read(connection: sqlite3.Connection, _: Path, after: int) -> list[Notice]:
            rows = connection.execute(
                "SELECT number, at, job, site, phase, text FROM notice WHERE number > ?"
                " ORDER BY number LIMIT ?",
                (after, limit),
            )
            return [
                Notice(number=number, at=at, job=job, site=site, phase=phase, text=text)
                for number, at, job, site, phase, text in rows
            ]

        return await self._lists.ask(read, after)

    def close(self) -> None:
        """Release the lock. The write-ahead log is folded into the database, or replayed later."""
        self._writer.shutdown()
        self._questions.close()
        self._lists.close()
        if self._loop_connection is not None and self._loop_connection is not self._connection:
            self._loop_connection.close()
        with suppress(sqlite3.Error):
            if not self._has_failed:
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()
        self._place.close()

    def _first_kept(self, notices: Sequence[Notice]) -> int:
        """Return the first notice to keep after these; old ones are removed in bulk."""
        last = notices[-1].number if notices else self.notice_number
        keep_from = last - NOTICES_MAX + 1
        is_due = keep_from - self.first_notice >= _NOTICES_SPARE
        return keep_from if is_due else self.first_notice

    def _write_mark(self) -> None:
        self._place.write_mark(mark_text(self.mark))


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
        for record, mark in read_rows(rows, after, source=str(path)):
            last = mark.seq
            yield record, mark
    except (sqlite3.Error, UnicodeError) as error:
        raise damaged(path, f"after event {last}: {error}") from error


def _require_journal(state_dir: Path) -> None:
    """Reject a state directory whose journal was moved aside without a successor.

    A new empty journal must not replace it. Raises JournalError.
    """
    if (state_dir / FILE).exists():
        return
    if aside := sorted(map(str, state_dir.glob(f"{DAMAGED}*/{FILE}"))):
        raise JournalError(
            f"{state_dir / FILE}: missing, and what was there is in {', '.join(aside)}. Move the"
            " files of the newest of these folders back and start again, or put a backup back"
            " (koala restore BACKUP STATE_DIR)"
        )


def _connect(path: Path) -> sqlite3.Connection:
    """Open the writer's connection; create the tables of a new file, reject another format."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    path.chmod(0o600)
    connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=5.0)
    try:
        prepare(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables of a new database, or check an existing one.

    Another format, or a damaged database, raises JournalError.
    """
    try:
        is_new = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if not (is_new and found == 0):
            check_format(connection, path)
        if found != JOURNAL.newest:
            own = f"INSERT INTO fact VALUES ('{CORE_FACT}', '{CORE}');"
            tables = archive.TABLES if found else _TABLES + archive.TABLES + own
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(
                f"BEGIN IMMEDIATE; {tables} PRAGMA user_version = {JOURNAL.newest}; COMMIT;"
            )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        check_whole(connection, path)
        _add_index(connection)
    except (sqlite3.Error, UnicodeError) as error:
        raise damaged(path, f"unreadable, or no journal: {error}") from error


def check_whole(connection: sqlite3.Connection, path: Path) -> None:
    """Verify what the chain does not cover: the database itself and each archived job.

    Raises JournalError.
    """
    try:
        found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        has_archive = connection.execute("PRAGMA user_version").fetchone()[0] == JOURNAL.newest
    except (sqlite3.Error, UnicodeError) as error:
        raise damaged(path, f"unreadable: {error}") from error
    if found != "ok":
        raise damaged(path, f"{found}")
    if has_archive:
        archive.check_jobs(connection, path)


def _add_index(connection: sqlite3.Connection) -> None:
    """Create the archive's index if it is missing; a full disk must not prevent the start."""
    try:
        connection.execute(archive.INDEX)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
            raise


def check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Raise JournalError unless the database is a journal of a supported format."""
    try:
        found = connection.execute("PRAGMA user_version").fetchone()[0]
    except (sqlite3.Error, UnicodeError) as error:
        raise damaged(path, f"unreadable, or no journal: {error}") from error
    if reason := JOURNAL.refusal(found):
        raise JournalError(f"{path}: {reason}")


def written_by(connection: sqlite3.Connection, path: Path) -> tuple[int, int]:
    """Return the core version that wrote last, and the event after which it began (0: the first).

    Raises JournalError.
    """
    try:
        if connection.execute("PRAGMA user_version").fetchone()[0] < JOURNAL.newest:
            return 1, 0
        rows = connection.execute("SELECT name, value FROM fact WHERE name LIKE 'core%'")
        facts = {name: int(value) for name, value in rows}
        return facts.get(CORE_FACT, 1), facts.get(SINCE_FACT, 0)
    except (sqlite3.Error, UnicodeError, ValueError) as error:
        raise damaged(path, f"who wrote it cannot be read: {error}") from error


def _first_event(connection: sqlite3.Connection, path: Path) -> int:
    """Return the number of the first kept event; 1 if there is none."""
    try:
        return connection.execute("SELECT min(seq) FROM event").fetchone()[0] or 1
    except (sqlite3.Error, UnicodeError) as error:
        raise damaged(path, f"the events cannot be read: {error}") from error


def _notice_numbers(connection: sqlite3.Connection, path: Path) -> tuple[int, int]:
    """Return the numbers of the first and the last kept notice; 1 and 0 if there is none."""
    try:
        first, last = connection.execute("SELECT min(number), max(number) FROM notice").fetchone()
    except (sqlite3.Error, UnicodeError) as error:
        raise damaged(path, f"the notices cannot be read: {error}") from error
    return (1, 0) if last is None else (int(first), int(last))


def cut_short(path: Path, witness: Path | str, last: int, committed: int) -> JournalError:
    """Create the error of a journal whose last events are missing or are not the original ones."""
    what = f"it ends with event {last}, but event {committed} had been committed, says {witness}"
    return damaged(path, what)


def unmarked(path: Path, witness: Path, last: int) -> JournalError:
    """Create the error of a journal without its mark: its end may be missing, too."""
    what = f"it ends with event {last}, and {witness}, which says where it has to, is missing"
    return damaged(path, what)


def overtaken(path: Path, last: int, committed: int, site: str) -> JournalError:
    """Create the error of a journal that lacks an event that an agent acted on."""
    return JournalError(
        f"{path}: it ends with event {last}, but the orders of site {site} rest on event"
        f" {committed} of another journal than this one: events were lost, or an older copy was put"
        f" in its place. {ADVICE}"
    )
