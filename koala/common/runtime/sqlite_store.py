"""Open, read and write an SQLite database that must keep what was acknowledged.

These rules hold for each database of daemon and agent:

- The file is private (0600), and SQLite's other files copy its mode.
- `PRAGMA user_version` is the number of its format (`disk_formats`); another one is refused.
- With a write-ahead log and synchronous=FULL a commit survives a crash of the machine.
- A transaction that finds the disk full is repeated once if `make_room` frees space: only then has
  SQLite rolled the whole transaction back. After any other error the state is unknown, and a retry
  could hide a loss.
- A failed write is a DiskError; the process then ends, before anything that rests on it leaves.
- An unreadable database is a DamagedError with advice, one out of reach a JournalError.

SQLite's pages carry no checksums. The owner of a database has one over its rows.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from koala.common.runtime.disk_formats import Format
from koala.errors import DamagedError, DiskError, JournalError, KoalaError

Result = TypeVar("Result")
Run: TypeAlias = Callable[..., sqlite3.Cursor]
_OUT_OF_REACH = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
}
FORGIVING = partial(str, encoding="utf-8", errors="replace")
"""Reads invalid UTF-8 too: a damaged row hides no other one, and its checksum exposes it."""
DURABLE = ("journal_mode = WAL", "synchronous = FULL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """Format and tables of a database.

    - `tables`: statements that create the tables of a new database.
    - `advice`: what an operator can do about a damaged one.
    """

    format: Format
    tables: str
    advice: str
    pragmas: tuple[str, ...] = DURABLE

    def number(self, connection: sqlite3.Connection, path: Path) -> int:
        """Return the number of the format found; 0 for a new database. Raises JournalError."""
        with reading(path, "its format", self.advice):
            (number,) = connection.execute("PRAGMA user_version").fetchone()
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if (number or tables) and (reason := self.format.refusal(number)):
            raise JournalError(f"{path}: {reason}")
        return int(number)

    def check(self, connection: sqlite3.Connection, path: Path) -> None:
        """Let SQLite check the whole database. Raises DamagedError."""
        with reading(path, "it", self.advice):
            (result,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if result != "ok":
            raise DamagedError(f"{path}: damaged: {' '.join(result.split())}", self.advice)


@contextmanager
def reading(path: Path, what: str, advice: str, *others: type[Exception]) -> Iterator[None]:
    """Turn errors of SQLite, of decoding, and the `others`, into a JournalError."""
    errors: tuple[type[Exception], ...] = (sqlite3.Error, UnicodeError, *others)
    try:
        yield
    except errors as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code == sqlite3.SQLITE_FULL:
            raise DiskError(f"{path}: cannot be opened: {error}") from error
        if code in _OUT_OF_REACH:
            raise JournalError(f"{path}: cannot be used: {error}") from error
        raise DamagedError(f"{path}: damaged: {what} cannot be read: {error}", advice) from error


class Database:
    """One open database; only one thread at a time writes."""

    def __init__(
        self,
        path: Path,
        schema: Schema,
        *,
        connection: sqlite3.Connection | None = None,
        make_room: Callable[[], bool] = lambda: False,
    ) -> None:
        """Open the file, and create what is missing. Raises JournalError.

        `make_room` is called when a transaction finds the disk full. A `connection` is to a
        database elsewhere, of which `path` is only the name.
        """
        self.path = path
        self.has_failed = False
        self._schema = schema
        self._make_room = make_room
        self._lock = threading.RLock()
        with reading(path, "it", schema.advice):
            self.connection = _connect(path) if connection is None else connection
        self.connection.text_factory = FORGIVING
        try:
            self._prepare()
        except BaseException:
            if connection is None:
                self.connection.close()
            raise

    def _prepare(self) -> None:
        with reading(self.path, "it", self._schema.advice):
            for pragma in self._schema.pragmas:
                self.connection.execute(f"PRAGMA {pragma}")
            if not self._schema.number(self.connection, self.path):
                self.connection.executescript(f"BEGIN IMMEDIATE; {self._schema.tables}")
                self._complete()
                self.connection.execute(f"PRAGMA user_version = {self._schema.format.number}")
                self.connection.commit()
        self._schema.check(self.connection, self.path)

    def _complete(self) -> None:
        """Complete new tables within their transaction."""

    def read(self, question: str, values: tuple[object, ...] = ()) -> list[Any]:
        """Return the rows that answer a question; never those of an open transaction.

        Raises JournalError.
        """
        with self._lock, reading(self.path, "a row", self._schema.advice):
            return self.connection.execute(question, values).fetchall()

    def write(self, change: Callable[[sqlite3.Connection], Result]) -> Result:
        """Make a change in one transaction; durable on return. Raises DiskError."""
        with self.writing():
            return self.transact(change)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turn each error of the block into a DiskError; no other write may follow it."""
        try:
            with self._lock:
                yield
        except (sqlite3.Error, OSError) as error:
            self.has_failed = True
            raise DiskError(f"{self.path}: cannot be written: {error}") from error

    def transact(self, change: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run a transaction within `writing`, once more if the disk was full and there is room."""
        try:
            return self._transact(change)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_FULL or not self._make_room():
                raise
            return self._transact(change)

    def _transact(self, change: Callable[[sqlite3.Connection], Result]) -> Result:
        with self.connection:
            self.connection.execute("BEGIN IMMEDIATE")
            return change(self.connection)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        path.chmod(0o600)
    except OSError as error:
        raise JournalError(f"{path}: {error.strerror or error}") from error
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False)


def lock_folder(path: Path, role: str, refused: type[KoalaError]) -> int:
    """Lock a state directory by a file in it until the process ends.

    Returns the descriptor that holds the lock. The file has the holder's pid and host, for error
    messages; the directory is created if it is missing. Raises `refused`.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise refused(f"state directory {path.parent}: {error.strerror or error}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        pid, host = lock_holder(path)
        os.close(lock)
        holder = f"pid {pid or 'unknown'}{f' at {host}' if host != socket.gethostname() else ''}"
        message = f"{path.parent}: another {role} runs with this state directory ({holder})"
        raise refused(message) from error
    except OSError as error:
        os.close(lock)
        expected = "expected a folder of a file system with locks, flock"
        raise refused(f"{path.parent}: {error.strerror or error} ({expected})") from error
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
    return lock


def lock_holder(path: Path) -> tuple[int, str]:
    """Return the process id and the host of who locked a state directory last; 0 for unknown."""
    try:
        pid, _, host = path.read_text(encoding="utf-8", errors="replace").strip().partition(" ")
    except OSError:
        return 0, ""
    return int(pid) if pid.isdecimal() else 0, host


def is_locked(path: Path) -> bool:
    """Test for a lock, which another host that sees the same folder may have."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
