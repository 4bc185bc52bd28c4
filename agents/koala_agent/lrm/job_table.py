"""The job table of a local manager, in its state directory.

One SQLite file, a row for each job, each change a transaction.

- It survives a SIGKILL of the agent at any instant. WAL without a sync at each change is enough:
  only the end of the machine loses what the kernel holds. That ends all jobs too, and the table is
  then known to be of an earlier boot. (This holds for the emulated manager; a batch system's jobs
  may outlive our machine.)
- A checksum (`koala_agent.table_checksum`) detects lost or changed rows.
- The file is locked while it is open, so that two agents never share one site.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from koala.errors import DamagedError, DiskError, LocalManagerError
from koala.runtime.disk_formats import LOCAL_JOBS
from koala_agent.lrm.port import EndCause, Ended, Listed, Placeholder, Queued, Running
from koala_agent.lrm.processes import Identity
from koala_agent.table_checksum import TableChecksum

_COLUMNS = {"job": ("rowid", "claim", "body"), "site": ("boot", "scope")}
FILE_NAME = "jobs.sqlite3"


class Waiting(msgspec.Struct, frozen=True, tag="Waiting"):
    """In the queue."""


class Starting(msgspec.Struct, frozen=True, tag="Starting"):
    """Has its processors; it may or may not have a process."""


class Alive(msgspec.Struct, frozen=True, tag="Alive"):
    """Its first process was started at `started_at`."""

    leader: Identity
    started_at: float


class Leaving(msgspec.Struct, frozen=True, tag="Leaving"):
    """Ended, but processes of it may be left; `exit_status` is that of the first process, once
    known."""

    cause: EndCause
    reason: str
    exit_status: int | None
    leader: Identity | None
    """Its first process, if there was one."""


class Over(msgspec.Struct, frozen=True, tag="Over"):
    """Ended, and nothing of it is left."""

    cause: EndCause
    reason: str
    exit_status: int | None
    cpu_s: float
    peak_memory_bytes: int


State = Waiting | Starting | Alive | Leaving | Over


class JobRow(msgspec.Struct, frozen=True):
    """Job as it is stored."""

    placeholder: Placeholder
    state: State


def listed(record: JobRow) -> Listed:
    """Return the job as the port shows it."""
    claim = record.placeholder.claim
    match record.state:
        case Waiting():
            return Queued(claim=claim)
        case Starting() | Alive() | Leaving():
            return Running(claim=claim)
        case Over() as over:
            return Ended(
                claim=claim,
                cause=over.cause,
                exit_status=over.exit_status,
                cpu_s=over.cpu_s,
                peak_memory_bytes=over.peak_memory_bytes,
                reason=over.reason,
            )


Row = TypeVar("Row", bound=msgspec.Struct)


class JobTable(Generic[Row]):
    """Open table of rows of one kind.

    Raises `LocalManagerError` when it cannot be used, `DamagedError` when it is not as it was
    written, and `DiskError` when a change cannot be written: a decision is then not durable, so the
    agent ends.
    """

    def __init__(
        self,
        directory: Path,
        kind: type[Row],
        *,
        boot: str,
        scope: str,
        make_room: Callable[[], bool] = lambda: False,
    ) -> None:
        """Open or create the table. `boot` identifies the machine's present boot. `scope` is a
        random name for this local manager, used when the table is new. `make_room` is called when a
        change finds the disk full, and the change is then retried once."""
        self._kind = kind
        self._make_room = make_room
        self._path = directory / FILE_NAME
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            # SQLite makes files that everybody may read; its other files copy the mode of this one.
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
            self._connection = sqlite3.connect(self._path, isolation_level=None, timeout=0)
        except (OSError, sqlite3.Error) as error:
            raise LocalManagerError(f"cannot open {self._path}: {error}") from error
        self._checksum = TableChecksum(self._connection, self._path, _COLUMNS)
        try:
            self._prepare(boot, scope)
        except (sqlite3.Error, OSError) as error:
            self.close()
            is_shared = getattr(error, "sqlite_errorname", "") == "SQLITE_BUSY"
            reason = "it is locked by another agent" if is_shared else str(error)
            raise LocalManagerError(f"cannot use {self._path}: {reason}") from error
        except (LocalManagerError, DamagedError):
            self.close()
            raise

    def _prepare(self, boot: str, scope: str) -> None:
        execute = self._connection.execute
        execute("PRAGMA locking_mode = EXCLUSIVE")
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = NORMAL")
        (found,) = execute("PRAGMA user_version").fetchone()
        if found and (reason := LOCAL_JOBS.refusal(found)):
            raise LocalManagerError(f"{self._path}: {reason}")
        execute("BEGIN IMMEDIATE")
        execute("CREATE TABLE IF NOT EXISTS job(claim TEXT PRIMARY KEY, body BLOB NOT NULL)")
        execute("CREATE TABLE IF NOT EXISTS site(boot TEXT NOT NULL, scope TEXT NOT NULL)")
        row = execute("SELECT boot, scope FROM site").fetchone()
        if row is None:
            row = (boot, scope)
            execute("INSERT INTO site VALUES (?, ?)", row)
        earlier_boot, self.scope = row
        self._boot = boot
        self.is_of_this_boot = earlier_boot == boot
        self._checksum.check(is_sealed=found == LOCAL_JOBS.newest)
        if found != LOCAL_JOBS.newest:
            execute(f"PRAGMA user_version = {LOCAL_JOBS.newest}")
        execute("COMMIT")
        self._checksum.keep(is_marked=self.is_of_this_boot)

    def belongs_to_this_boot(self) -> None:
        """Mark the table as of this boot: no job of an earlier boot is left that has not ended."""
        self._write("UPDATE site SET boot = ?", (self._boot,))
        self.is_of_this_boot = True

    def load(self) -> list[Row]:
        """Return all jobs in the order of their submission."""
        decoder = msgspec.msgpack.Decoder(self._kind, dec_hook=_decode_path)
        try:
            rows = self._connection.execute("SELECT body FROM job ORDER BY rowid").fetchall()
            return [decoder.decode(body) for (body,) in rows]
        except (sqlite3.Error, msgspec.DecodeError, RecursionError) as error:
            raise LocalManagerError(f"cannot read {self._path}: {error}") from error

    def save(self, claim: str, row: Row) -> None:
        """Write a job; a known one keeps its place in the order."""
        body = msgspec.msgpack.encode(row, enc_hook=_encode_path)
        self._write(
            "INSERT INTO job(claim, body) VALUES (?, ?) "
            "ON CONFLICT(claim) DO UPDATE SET body = excluded.body",
            (claim, body),
        )

    def forget(self, claim: str) -> None:
        """Delete a job."""
        self._write("DELETE FROM job WHERE claim = ?", (claim,))

    def close(self) -> None:
        """Close the table and release its lock."""
        self._checksum.close()
        self._connection.close()

    def _write(self, statement: str, values: tuple[object, ...]) -> None:
        try:
            try:
                self._connection.execute(statement, values)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_FULL or not self._make_room():
                    raise
                self._connection.execute(statement, values)
            self._checksum.mark()
        except (sqlite3.Error, OSError) as error:
            raise DiskError(f"{self._path}: cannot be written: {error}") from error


def _encode_path(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    message = f"cannot store {value!r}"
    raise NotImplementedError(message)  # no stub: how msgspec wants a hook to say that it cannot


def _decode_path(kind: type, value: str) -> Path:
    assert kind is Path, kind
    return Path(value)
