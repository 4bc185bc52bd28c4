"""The journal: an append-only table of events in SQLite, and what it takes to trust it.

Each row has the event as JSON, the policies' answers while it was handled, and a chain value over
the row and all rows before it. SQLite's write-ahead log is silently cut at its first bad frame, and
its pages carry no checksums; so the chain finds a changed row, and the *mark*, a small file beside
the database with the last committed number and chain value, finds rows that are missing at the
end. The mark is written after the commit and never runs ahead of it, also when the power fails.

Notices (what watchers see) go into the same transaction. A daemon holds the lock of its state
directory for life. Writes belong to one thread (`commit` hands over to it); files are 0600, the
directory 0700. Anything that cannot be trusted or written raises JournalError, and the daemon ends.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol

from koala.core.values import Instant
from koala.daemon.records import (
    Batch,
    Mark,
    Notice,
    Record,
    Row,
    mark_text,
    read_mark,
    read_rows,
    rows_of,
)
from koala.errors import DiskError, JournalError

FORMAT = 2
FILE = "journal.db"
MARK = "journal.mark"
LOCK = "lock"
ADVICE = (
    "Put a backup back (koala restore BACKUP STATE_DIR), or go on without what is lost"
    " (koala daemon CONFIG --accept-loss)"
)
NOTICES_MAX = 100_000
_NOTICES_SPARE = 1_000  # removed in lots, not one by one

_TABLES = """
CREATE TABLE event (seq INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL,
                    body TEXT NOT NULL, answers TEXT NOT NULL, chain BLOB NOT NULL);
CREATE TABLE notice (number INTEGER PRIMARY KEY, at REAL NOT NULL, job TEXT NOT NULL,
                     site TEXT NOT NULL, phase TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE digest (seq INTEGER PRIMARY KEY, digest TEXT NOT NULL);
"""


# --- the journal of a running daemon --------------------------------------------------------------


class Place(Protocol):
    """Where a journal lies: what it needs of files beside its database."""

    @property
    def path(self) -> Path:
        """The database's."""

    @property
    def mark_path(self) -> Path:
        """The mark's."""

    def check(self) -> None:
        """Raise JournalError when another file has taken the database's place."""

    def read_mark(self) -> bytes:
        """What was written last; nothing at first."""

    def write_mark(self, text: bytes) -> None:
        """Put this in its place. Raises OSError."""

    def close(self) -> None:
        """Give it back."""


class StateFolder:
    """A state directory, locked for as long as it is open."""

    def __init__(self, state_dir: Path, lock: int) -> None:
        self.path = state_dir / FILE
        self.mark_path = state_dir / MARK
        self._lock = lock
        self._inode = self.path.stat().st_ino
        self._mark = os.open(self.mark_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def check(self) -> None:
        """Commits into a deleted file succeed; nobody will ever read them again."""
        if self.path.stat().st_ino != self._inode:
            raise DiskError(f"{self.path}: another file has taken its place")

    def read_mark(self) -> bytes:
        """See Place."""
        return os.pread(self._mark, 256, 0)

    def write_mark(self, text: bytes) -> None:
        """See Place."""
        os.pwrite(self._mark, text, 0)

    def close(self) -> None:
        """See Place."""
        with suppress(OSError):
            os.fsync(self._mark)
        os.close(self._mark)
        os.close(self._lock)


class Journal:
    """The open journal of one place; `open` locks a state directory, `close` gives it back."""

    def __init__(
        self,
        place: Place,
        connection: sqlite3.Connection,
        look: Callable[[], sqlite3.Connection] | None = None,
    ) -> None:
        """`look` opens a connection of the event loop's own; without it there is one thread."""
        self.path = place.path
        self.mark = Mark()  # the last row that was read or committed
        self.first_notice, self.notice_number = _notice_numbers(connection)
        self.last_at: Instant = 0.0
        self._place = place
        self._connection = connection
        self._marked = read_mark(place.read_mark(), source=str(place.mark_path))
        self._has_failed = False
        self.make_room: Callable[[], bool] = lambda: False  # asked when a commit finds none
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="notices")
        self._read_connection: sqlite3.Connection | None = None  # of the reader's thread
        self._looking: sqlite3.Connection | None = None  # of the event loop's
        self._look = look or (lambda: connection)

    @property
    def seq(self) -> int:
        """The number of the last row that was read or committed."""
        return self.mark.seq

    @classmethod
    def open(cls, state_dir: Path) -> Journal:
        """Open or make the journal of a state directory. Raises JournalError."""
        try:
            state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            state_dir.chmod(0o700)
            lock = _take_lock(state_dir)
        except OSError as error:
            raise JournalError(f"{state_dir}: {error.strerror or error}") from error
        try:
            connection = _connect(state_dir / FILE)
            try:
                place = StateFolder(state_dir, lock)
                return cls(place, connection, partial(_reading, place.path))
            except BaseException:
                connection.close()
                raise
        except OSError as error:
            os.close(lock)
            raise JournalError(f"{state_dir}: {error.strerror or error}") from error
        except BaseException:
            os.close(lock)
            raise

    def records(self, *, accept_loss: bool = False) -> Iterator[Record]:
        """All events in order, checked row by row; then the journal is ready for commits. With
        `accept_loss` the first that cannot be trusted is removed with all after it.
        """
        try:
            for record, mark in read_events(self._connection, self.path, Mark()):
                self.mark, self.last_at = mark, record.at
                if self._marked == mark:
                    self._marked = None  # what had been committed is here
                yield record
        except JournalError:
            if not accept_loss:
                raise
            self._cut()
        if self._marked is not None and self._marked.seq > 0 and not accept_loss:
            raise cut_short(self.path, self._place.mark_path, self.seq, self._marked.seq)
        self._write_mark()

    def _cut(self) -> None:
        """Remove what comes after the last row that was read. Raises JournalError."""
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.execute("DELETE FROM event WHERE seq > ?", (self.seq,))
                self._connection.execute("DELETE FROM digest WHERE seq > ?", (self.seq,))
        except sqlite3.Error as error:
            raise JournalError(f"{self.path}: damaged beyond repair: {error}; {ADVICE}") from error

    def chain_at(self, seq: int) -> bytes | None:
        """The chain value of a committed row; None when it is not kept. Raises JournalError."""
        try:
            if self._looking is None:
                self._looking = self._look()
            question = "SELECT chain FROM event WHERE seq = ?"
            row = self._looking.execute(question, (seq,)).fetchone()
        except sqlite3.Error as error:
            raise JournalError(f"{self.path}: event {seq} cannot be read: {error}") from error
        return None if row is None else bytes(row[0])

    def last_digest(self) -> tuple[int, str] | None:
        """The newest recorded digest of the state, and the event after which it was taken."""
        row = self._connection.execute(
            "SELECT seq, digest FROM digest ORDER BY seq DESC LIMIT 1"
        ).fetchone()
        return None if row is None else (int(row[0]), str(row[1]))

    async def commit(self, batch: Batch) -> None:
        """Make a batch durable. One at a time. Raises JournalError; then nothing may follow."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._writer, self.append, batch)

    def append(self, batch: Batch) -> None:
        """The same in the caller's thread, which must be the only one that writes."""
        rows, mark = rows_of(batch.records, self.mark)
        try:
            self._place.check()
            try:
                self._write(batch, rows)
            except sqlite3.OperationalError as error:
                # Of a full disk alone SQLite takes the whole transaction back; after any other
                # error nobody knows what is there, and trying again could hide a loss.
                if error.sqlite_errorcode != sqlite3.SQLITE_FULL or not self.make_room():
                    raise
                self._write(batch, rows)
            self._place.check()
            if batch.records:
                self.mark, self.last_at = mark, batch.records[-1].at
            self._write_mark()
        except (sqlite3.Error, OSError) as error:
            self._has_failed = True
            raise DiskError(f"{self.path}: cannot be written: {error}") from error

    def _write(self, batch: Batch, rows: Sequence[Row]) -> None:
        first_notice = self._first_kept(batch.notices)
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)", rows)
            self._connection.executemany(
                "INSERT INTO notice VALUES (?, ?, ?, ?, ?, ?)",
                [(n.number, n.at, n.job, n.site, n.phase, n.text) for n in batch.notices],
            )
            if first_notice > self.first_notice:
                self._connection.execute("DELETE FROM notice WHERE number < ?", (first_notice,))
            if batch.digest is not None:
                last = batch.records[-1].seq if batch.records else self.seq
                self._connection.execute(
                    "INSERT OR REPLACE INTO digest VALUES (?, ?)", (last, batch.digest)
                )
        self.first_notice = first_notice
        if batch.notices:
            self.notice_number = batch.notices[-1].number

    async def notices(self, after: int, limit: int) -> list[Notice]:
        """Kept notices with a greater number, the oldest first, at most `limit`."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._reader, self._notices, after, limit)

    def close(self) -> None:
        """Give the lock back. The write-ahead log goes into the database, or is replayed later."""
        self._writer.shutdown()
        self._reader.shutdown()
        for connection in (self._read_connection, self._looking):
            if connection is not None and connection is not self._connection:
                connection.close()
        with suppress(sqlite3.Error):
            if not self._has_failed:
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()
        self._place.close()

    def _first_kept(self, notices: Sequence[Notice]) -> int:
        """The first notice to be kept when these are there; old ones are removed in lots."""
        last = notices[-1].number if notices else self.notice_number
        keep_from = last - NOTICES_MAX + 1
        is_due = keep_from - self.first_notice >= _NOTICES_SPARE
        return keep_from if is_due else self.first_notice

    def _notices(self, after: int, limit: int) -> list[Notice]:
        if self._read_connection is None:
            self._read_connection = _reading(self.path)
        rows = self._read_connection.execute(
            "SELECT number, at, job, site, phase, text FROM notice WHERE number > ?"
            " ORDER BY number LIMIT ?",
            (after, limit),
        )
        return [
            Notice(number=number, at=at, job=job, site=site, phase=phase, text=text)
            for number, at, job, site, phase, text in rows
        ]

    def _write_mark(self) -> None:
        self._place.write_mark(mark_text(self.mark))


# --- rows and files, also for those who only read (past.py) ---------------------------------------


def read_events(
    connection: sqlite3.Connection, path: Path, after: Mark
) -> Iterator[tuple[Record, Mark]]:
    """The events after a mark, each with its own, checked row by row. Raises JournalError."""
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
        raise JournalError(f"{path}: damaged after event {last}: {error}") from error


def _connect(path: Path) -> sqlite3.Connection:
    """The writer's connection; a new file gets its tables, another format is refused."""
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
    """A new database gets its tables; another format, or a damaged one, raises JournalError."""
    try:
        is_new = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if is_new and connection.execute("PRAGMA user_version").fetchone()[0] == 0:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(
                f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {FORMAT}; COMMIT;"
            )
        check_format(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise JournalError(f"{path}: damaged: {found}")
    except sqlite3.Error as error:
        raise JournalError(f"{path}: damaged, or no journal: {error}") from error


def _reading(path: Path) -> sqlite3.Connection:
    """A connection that sees what is committed, and waits for no writer."""
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False)


def check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Raise JournalError unless it is a journal of our format."""
    try:
        found = connection.execute("PRAGMA user_version").fetchone()[0]
    except sqlite3.Error as error:
        raise JournalError(f"{path}: damaged, or no journal: {error}") from error
    if found != FORMAT:
        raise JournalError(f"{path}: journal format {found}; this version knows format {FORMAT}")


def _notice_numbers(connection: sqlite3.Connection) -> tuple[int, int]:
    """The numbers of the first and the last notice that are kept; 1 and 0 when there is none."""
    try:
        first, last = connection.execute("SELECT min(number), max(number) FROM notice").fetchone()
    except sqlite3.Error as error:
        raise JournalError(f"the journal's notices cannot be read: {error}") from error
    return (1, 0) if last is None else (int(first), int(last))


def _take_lock(state_dir: Path) -> int:
    """The lock's descriptor, held for life; the file has the holder's pid for the next who asks."""
    lock = os.open(state_dir / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.read(lock, 32).decode("ascii", "replace").strip() or "unknown"
        os.close(lock)
        message = f"{state_dir}: another daemon runs with this state directory (pid {holder})"
        raise JournalError(message) from error
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def cut_short(path: Path, mark: Path, last: int, committed: int) -> JournalError:
    """The error of a journal whose last events are missing, or are not those that were written."""
    return JournalError(
        f"{path}: damaged: it ends with event {last}, but event {committed} "
        f"had been committed, says {mark}. {ADVICE}"
    )


def overtaken(path: Path, last: int, committed: int, site: str) -> JournalError:
    """The error of a journal that lacks what an agent acted on."""
    return JournalError(
        f"{path}: it ends with event {last}, but the orders of site {site} rest on event"
        f" {committed} of another journal than this one: events were lost, or an older copy was put"
        f" in its place. {ADVICE}"
    )
