"""Snapshots and archived jobs as rows of the journal's database.

They are not part of the hash chain, so each row has its own checksum. An untrusted row raises
JournalError and is never partly used. An archived job keeps everything that `show` and `report`
print, and the idempotency key of its submission.
"""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from koala.core.model.job import Job
from koala.core.model.values import Instant, JobId
from koala.core.purge import PurgedJob
from koala.core.snapshot import load_object, save_object
from koala.daemon.storage.records import (
    UNREADABLE,
    JournalPosition,
    Snapshot,
    trusted,
    unusable_error,
)
from koala.daemon.storage.spec_codec import SPEC_ROW, SpecReader, row_of_spec
from koala.errors import JournalError

TABLES = """
CREATE TABLE snapshot (
    seq INTEGER PRIMARY KEY, at REAL NOT NULL, chain BLOB NOT NULL,
    body BLOB NOT NULL, sum BLOB NOT NULL);
CREATE TABLE job (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, submitted_at REAL NOT NULL, ended_at REAL NOT NULL,
    key TEXT NOT NULL, digest TEXT NOT NULL, body BLOB NOT NULL, sum BLOB NOT NULL);
CREATE UNIQUE INDEX job_key ON job (key) WHERE key != '';
CREATE INDEX job_ended_at ON job (ended_at);
CREATE INDEX job_owner ON job (owner, ended_at);
"""
REMOVED_MAX = 50_000  # at each snapshot
LOOKED_AT_MAX = 250
"""Jobs in one read: about a fortieth of a second."""
_LEVEL = 1  # compression level: even the fastest gives a fortieth of the text


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSnapshot:
    """A stored snapshot, with the row after which it was taken."""

    position: JournalPosition
    at: Instant
    snapshot: Snapshot


Place: TypeAlias = tuple[float, int]
"""Position of a job in the archive: when it ended, and its row."""
END: Place = (inf, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveQuery:
    """Filter of archived jobs: lived in a period, of one owner or (None) of all, before a place.

    Only the last `most` of the jobs that ended after `since` are read.
    """

    since: Instant = -inf
    until: Instant = inf
    owner: str | None = None
    before: Place = END
    most: int = LOOKED_AT_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePage:
    """One page of jobs, latest end first.

    The jobs `before` a place were not read yet; None means that there are none. `damaged` names the
    damaged jobs, as far as their names are readable.
    """

    jobs: Sequence[Job]
    before: Place | None
    damaged: Sequence[str] = ()


# --- snapshots ------------------------------------------------------------------------------------


class _Body(msgspec.Struct, array_like=True):
    """A snapshot as it is stored."""

    plain: Any
    jobs: int
    settings: str
    digest: str
    specs: list[SPEC_ROW]


_BODIES = msgspec.json.Decoder(_Body)


def write_snapshot(
    connection: sqlite3.Connection, position: JournalPosition, at: Instant, snapshot: Snapshot
) -> None:
    """Insert a snapshot within the writer's transaction; needs some 10 us a queued job."""
    body = _packed(
        _Body(
            plain=snapshot.plain,
            jobs=snapshot.jobs,
            settings=snapshot.settings,
            digest=snapshot.digest,
            specs=[row_of_spec(spec) for spec in snapshot.specs],
        )
    )
    checksum = _sum(position.seq, float(at), position.chain, body)
    connection.execute(
        "INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?, ?, ?)",
        (position.seq, at, position.chain, body, checksum),
    )


def read_snapshots(
    connection: sqlite3.Connection, path: Path
) -> Iterator[KeptSnapshot | JournalError]:
    """Yield the snapshots, newest first; an unusable one as an error, since an older one may do."""
    places = connection.execute("SELECT seq FROM snapshot ORDER BY seq DESC").fetchall()
    for (seq,) in places:
        try:
            yield _snapshot(connection, seq)
        except (sqlite3.Error, zlib.error, ValueError, TypeError, *UNREADABLE) as error:
            yield unusable_error(path, f"the snapshot after event {seq} cannot be used: {error}")


def _snapshot(connection: sqlite3.Connection, seq: int) -> KeptSnapshot:
    row = connection.execute("SELECT * FROM snapshot WHERE seq = ?", (seq,)).fetchone()
    _, at, chain, body, _ = row
    if not is_good(row):
        raise ValueError("it does not match its checksum")
    document = _BODIES.decode(zlib.decompress(body))
    read = SpecReader().spec
    return KeptSnapshot(
        position=JournalPosition(seq, chain),
        at=at,
        snapshot=Snapshot(
            plain=document.plain,
            specs=[read(row) for row in document.specs],
            jobs=document.jobs,
            settings=document.settings,
            digest=document.digest,
        ),
    )


def drop_damaged_snapshots(connection: sqlite3.Connection) -> list[int]:
    """Delete damaged snapshots, so that none counts as a fallback; return their events."""
    rows = connection.execute("SELECT * FROM snapshot")
    damaged_seqs = [row[0] for row in rows if not is_good(row)]
    for seq in damaged_seqs:
        connection.execute("DELETE FROM snapshot WHERE seq = ?", (seq,))
    return damaged_seqs


# --- jobs -----------------------------------------------------------------------------------------


def write_jobs(connection: sqlite3.Connection, purged: Sequence[PurgedJob]) -> None:
    """Insert archived jobs within the writer's transaction. Idempotent: a replay repeats it."""
    rows = []
    for ended in purged:
        job = ended.job
        body = _packed(save_object(job))
        instants = (float(job.submitted_at), float(ended.ended_at))  # as SQLite returns them
        facts = (job.id, job.spec.owner, *instants, ended.key, ended.digest)
        rows.append((*facts, body, _sum(*facts, body)))
    connection.executemany("INSERT OR REPLACE INTO job VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)


def remove_jobs(connection: sqlite3.Connection, *, before: Instant) -> None:
    """Delete a limited number of jobs that ended before, within the writer's transaction."""
    chosen = "SELECT id FROM job WHERE ended_at < ? ORDER BY ended_at LIMIT ?"
    connection.execute(f"DELETE FROM job WHERE id IN ({chosen})", (before, REMOVED_MAX))


def check_jobs(connection: sqlite3.Connection, path: Path) -> None:
    """Verify the checksum of each archived job.

    SQLite's own check finds missing rows and bad indexes: each row stands in at least two of them.
    Raises JournalError.
    """
    with trusted(path, "an archived job"):
        for row in connection.execute("SELECT * FROM job"):
            if not is_good(row):
                raise changed_row_error(path, str(row[0]))


def is_good(row: Sequence[Any]) -> bool:
    """Return True if a job or snapshot row matches its checksum."""
    *facts, body, checksum = row
    return bool(_sum(*facts, body) == checksum)


def changed_row_error(path: Path, job: str) -> JournalError:
    """Create the error for a job whose row was changed."""
    return unusable_error(path, f"archived job {job} does not match its checksum")


def read_job(connection: sqlite3.Connection, path: Path, job: str) -> Job | None:
    """Read an archived job. Raises JournalError."""
    with trusted(path, "an archived job"):
        return next((_job(row) for _, row in _rows(connection, path, "id", (job,))), None)


def read_jobs(connection: sqlite3.Connection, path: Path, query: ArchiveQuery) -> ArchivePage:
    """Read a page of archived jobs; a damaged one does not hide the others. Raises JournalError."""
    of_owner = "" if query.owner is None else "AND owner = ?"
    question = (
        "SELECT rowid, * FROM job WHERE (ended_at, rowid) < (?, ?) AND ended_at >= ?"
        f" {of_owner} ORDER BY ended_at DESC, rowid DESC LIMIT ?"
    )
    owner = () if query.owner is None else (query.owner,)
    values = (*query.before, query.since, *owner, query.most)
    with trusted(path, "an archived job"):
        rows = connection.execute(question, values).fetchall()
        before: Place | None = None
        if len(rows) == query.most:
            while not is_good(rows[-1][1:]):  # untrusted place; the next page has it
                if len(rows) == 1:
                    raise changed_row_error(path, str(rows[0][1]))
                rows.pop()
            before = (rows[-1][4], rows[-1][0])
        good = [row for _, *row in rows if is_good(row)]
        bad = [str(row[0]) for _, *row in rows if not is_good(row)]
        jobs = [_job(row) for row in good if row[2] < query.until]
    return ArchivePage(jobs=jobs, before=before, damaged=bad)


def read_keys(
    connection: sqlite3.Connection, path: Path, keys: Sequence[str]
) -> dict[str, tuple[JobId, str]]:
    """Return job and digest of the submissions under those of these keys that were used.

    Raises JournalError.
    """
    with trusted(path, "an archived job"):
        rows = _rows(connection, path, "key", keys)
        return {key: (JobId(row[0]), str(row[5])) for key, row in rows}


def read_owners(connection: sqlite3.Connection, path: Path, jobs: Sequence[str]) -> dict[str, str]:
    """Return the owners of those of these jobs that are archived. Raises JournalError."""
    with trusted(path, "an archived job"):
        return {job: str(row[1]) for job, row in _rows(connection, path, "id", jobs)}


def _rows(
    connection: sqlite3.Connection, path: Path, column: str, values: Sequence[str]
) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the jobs that have one of these values, each verified. Raises DamagedError."""
    for value in values:
        row = connection.execute(f"SELECT * FROM job WHERE {column} = ?", (value,)).fetchone()
        if row is not None:
            if not is_good(row):
                raise changed_row_error(path, str(row[0]))
            yield value, row


def _job(row: Sequence[Any]) -> Job:
    job = load_object(_unpacked(row[-2]))
    assert isinstance(job, Job), job
    return job


# --- bodies ---------------------------------------------------------------------------------------


def _packed(plain: object) -> bytes:
    return zlib.compress(msgspec.json.encode(plain), _LEVEL)


def _unpacked(body: bytes) -> Any:  # noqa: ANN401 - any JSON
    return msgspec.json.decode(zlib.decompress(body))


def _sum(*parts: object) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        text = part if isinstance(part, bytes) else repr(part).encode("utf-8", "surrogatepass")
        digest.update(len(text).to_bytes(8, "big"))
        digest.update(text)
    return digest.digest()
