"""The job table of a local manager, in its state directory.

One SQLite file with a row for each job. Changes that are stored together are one transaction.

- It survives a SIGKILL of the agent at any instant. WAL without a sync at each change is enough:
  only the end of the machine loses what the kernel holds. That ends all jobs too, and the table is
  then known to be of an earlier boot. (This holds for the emulated manager; a batch system's jobs
  may outlive our machine.)
- A checksum (`koala_agent.sealed_database`) detects lost or changed rows.
- The file is locked while it is open, so that two agents never share one site.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from koala.common.runtime.disk_formats import LOCAL_JOBS
from koala.common.runtime.sqlite_store import Run, Schema
from koala.errors import JournalError
from koala_agent.lrm.claim_processes import ProcessIdentity
from koala_agent.lrm.local_manager import EndCause, Ended, Listed, Placeholder, Queued, Running
from koala_agent.sealed_database import ADVICE, SealedDatabase

_TABLES = """
CREATE TABLE job(claim TEXT PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE site(boot TEXT NOT NULL, scope TEXT NOT NULL);
"""
_SCHEMA = Schema(
    format=LOCAL_JOBS,
    tables=_TABLES,
    advice=ADVICE,
    pragmas=("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = NORMAL"),
)
_COLUMNS = {"job": ("rowid", "claim", "body"), "site": ("boot", "scope")}
_SAVE = (
    "INSERT INTO job(claim, body) VALUES (?, ?)"
    " ON CONFLICT(claim) DO UPDATE SET body = excluded.body"
)
FILE_NAME = "jobs.sqlite3"


class Waiting(msgspec.Struct, frozen=True, tag="Waiting"):
    """In the queue."""


class Starting(msgspec.Struct, frozen=True, tag="Starting"):
    """Has its processors; it may or may not have a process."""


class Alive(msgspec.Struct, frozen=True, tag="Alive"):
    """Its first process was started at `started_at`; `earlier_cpu_s` were for earlier claims."""

    leader: ProcessIdentity
    started_at: float
    earlier_cpu_s: float = 0.0


class Leaving(msgspec.Struct, frozen=True, tag="Leaving"):
    """Ended, but processes may be left; `exit_status` is the first process's, once known."""

    cause: EndCause
    reason: str
    exit_status: int | None
    leader: ProcessIdentity | None
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
    """Job as it is stored, with the numbers of the GPUs that it holds."""

    placeholder: Placeholder
    state: State
    gpus: tuple[int, ...] = ()


def listed(record: JobRow) -> Listed:
    """Return the job as the interface shows it."""
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

    Raises `JournalError` when it cannot be used or is not as it was written, and `DiskError` when a
    change cannot be written: a decision is then not durable, so the agent ends.
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
        self._boot = boot
        self._path = directory / FILE_NAME

        def is_of_this_boot(run: Run) -> bool:
            return run("SELECT 1 FROM site WHERE boot != ?", (boot,)).fetchone() is None

        self._database = SealedDatabase(
            self._path, _SCHEMA, _COLUMNS, make_room=make_room, is_marked=is_of_this_boot
        )
        self.is_of_this_boot = is_of_this_boot(self._database.connection.execute)
        rows = self._database.read("SELECT scope FROM site")
        self.scope: str = rows[0][0] if rows else scope
        if not rows:
            self._write("INSERT INTO site VALUES (?, ?)", (boot, scope))

    def belongs_to_this_boot(self) -> None:
        """Mark the table as of this boot: no job of an earlier boot is left that has not ended."""
        self._write("UPDATE site SET boot = ?", (self._boot,))
        self.is_of_this_boot = True

    def load(self) -> list[Row]:
        """Return all jobs in the order of their submission."""
        decoder = msgspec.msgpack.Decoder(self._kind, dec_hook=_decode_path)
        rows = self._database.read("SELECT body FROM job ORDER BY rowid")
        try:
            return [decoder.decode(body) for (body,) in rows]
        except (msgspec.DecodeError, RecursionError) as error:
            raise JournalError(f"{self._path}: a job cannot be read: {error}") from error

    def save(self, claim: str, row: Row) -> None:
        """Write a job; a known one keeps its place in the order."""
        self.store({claim: row})

    def forget(self, claim: str) -> None:
        """Delete a job."""
        self.store({claim: None})

    def store(self, changes: Mapping[str, Row | None]) -> None:
        """Write these jobs, and delete those without a row, in one transaction. New ones get their
        place in this order; known ones keep theirs."""

        def change(connection: sqlite3.Connection) -> None:
            for claim, row in changes.items():
                if row is None:
                    connection.execute("DELETE FROM job WHERE claim = ?", (claim,))
                else:
                    body = msgspec.msgpack.encode(row, enc_hook=_encode_path)
                    connection.execute(_SAVE, (claim, body))

        self._database.write(change)

    def close(self) -> None:
        """Close the table and release its lock."""
        self._database.close()

    def _write(self, statement: str, values: tuple[object, ...]) -> None:
        self._database.write(lambda connection: connection.execute(statement, values))


def _encode_path(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    message = f"cannot store {value!r}"
    raise NotImplementedError(message)  # no stub: how msgspec wants a hook to say that it cannot


def _decode_path(kind: type, value: str) -> Path:
    assert kind is Path, kind
    return Path(value)
