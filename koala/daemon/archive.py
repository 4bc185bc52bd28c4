"""Snapshots of the state, and jobs that have left it, as rows of the journal's database.

Neither is part of the chain, so each row has a checksum of its own; what cannot be trusted is a
JournalError, and never half read. A job is kept with all that `show` and `report` tell of it, and
with the idempotency key of its submission.
"""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from koala.core.forgetting import Forgotten
from koala.core.job import Job
from koala.core.saving import CORE, NotSavedError, load_object, save_object
from koala.core.values import Instant, JobId
from koala.daemon.records import Mark, Snapshot, damaged
from koala.errors import JournalError

TABLES = """
CREATE TABLE snapshot (seq INTEGER PRIMARY KEY, at REAL NOT NULL, chain BLOB NOT NULL,
                       core INTEGER NOT NULL, body BLOB NOT NULL, sum BLOB NOT NULL);
CREATE TABLE job (id TEXT PRIMARY KEY, owner TEXT NOT NULL, submitted_at REAL NOT NULL,
                  ended_at REAL NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL,
                  body BLOB NOT NULL, sum BLOB NOT NULL);
CREATE UNIQUE INDEX job_key ON job (key) WHERE key != '';
CREATE INDEX job_ended_at ON job (ended_at);
CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
REMOVED_MAX = 50_000  # at each snapshot
_LEVEL = 1  # of compression: the quickest is a fortieth of the text already


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A snapshot that was kept: after which row it was taken, by which core."""

    mark: Mark
    at: Instant
    core: int
    snapshot: Snapshot


# --- snapshots ------------------------------------------------------------------------------------


def write_snapshot(
    connection: sqlite3.Connection, mark: Mark, at: Instant, snapshot: Snapshot
) -> None:
    """Add it, within the writer's transaction."""
    body = _packed([snapshot.plain, snapshot.jobs, snapshot.settings, snapshot.digest])
    checksum = _sum(mark.seq, float(at), mark.chain, CORE, body)
    connection.execute(
        "INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?, ?, ?, ?)",
        (mark.seq, at, mark.chain, CORE, body, checksum),
    )


def read_snapshots(connection: sqlite3.Connection, path: Path) -> Iterator[Kept | JournalError]:
    """The newest first; what cannot be trusted is answered as an error, since an older one may
    do."""
    try:
        places = connection.execute("SELECT seq FROM snapshot ORDER BY seq DESC").fetchall()
    except (sqlite3.Error, UnicodeError) as error:
        yield damaged(path, f"the snapshots cannot be read: {error}")
        return
    for (seq,) in places:
        try:
            yield _snapshot(connection, seq)
        except (sqlite3.Error, zlib.error, msgspec.DecodeError, ValueError, TypeError) as error:
            yield damaged(path, f"the snapshot after event {seq} cannot be used: {error}")


def _snapshot(connection: sqlite3.Connection, seq: int) -> Kept:
    row = connection.execute("SELECT * FROM snapshot WHERE seq = ?", (seq,)).fetchone()
    _, at, chain, core, body, checksum = row
    if _sum(seq, at, chain, core, body) != checksum:
        raise ValueError("it is not as it was written")
    plain, jobs, settings, digest = _unpacked(body)
    return Kept(
        mark=Mark(seq, chain),
        at=at,
        core=core,
        snapshot=Snapshot(plain=plain, jobs=jobs, settings=settings, digest=digest),
    )


# --- jobs -----------------------------------------------------------------------------------------


def write_jobs(connection: sqlite3.Connection, forgotten: Sequence[Forgotten]) -> None:
    """Add them, within the writer's transaction; one that a replay forgets again is the same."""
    rows = []
    for one in forgotten:
        job = one.job
        body = _packed(save_object(job))
        instants = (float(job.submitted_at), float(one.ended_at))  # as they are read back
        facts = (job.id, job.spec.owner, *instants, one.key, one.digest)
        rows.append((*facts, body, _sum(*facts, body)))
    connection.executemany("INSERT OR REPLACE INTO job VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)


def remove_jobs(connection: sqlite3.Connection, *, before: Instant) -> None:
    """Remove a lot of those that ended before, within the writer's transaction."""
    chosen = "SELECT id FROM job WHERE ended_at < ? ORDER BY ended_at LIMIT ?"
    connection.execute(f"DELETE FROM job WHERE id IN ({chosen})", (before, REMOVED_MAX))


def read_job(connection: sqlite3.Connection, path: Path, job: str) -> Job | None:
    """An archived job. Raises JournalError."""
    found = list(_jobs(connection, path, "WHERE id = ?", (job,)))
    return found[0] if found else None


def read_jobs(
    connection: sqlite3.Connection, path: Path, *, since: Instant, until: Instant, most: int
) -> list[Job]:
    """Archived jobs that lived in a period, in the order of their ends; when there are more than
    `most`, the last ones. Raises JournalError."""
    where = "WHERE ended_at >= ? AND submitted_at < ? ORDER BY ended_at DESC LIMIT ?"
    return list(_jobs(connection, path, where, (since, until, most)))[::-1]


def read_key(connection: sqlite3.Connection, path: Path, key: str) -> tuple[JobId, str] | None:
    """Job and digest of a submission under this key. Raises JournalError."""
    try:
        row = connection.execute("SELECT id, digest FROM job WHERE key = ?", (key,)).fetchone()
    except (sqlite3.Error, UnicodeError) as error:
        raise damaged(path, f"{error}") from error
    return None if row is None else (JobId(row[0]), str(row[1]))


def _jobs(
    connection: sqlite3.Connection, path: Path, where: str, values: tuple[Any, ...]
) -> Iterator[Job]:
    try:
        for *facts, body, checksum in connection.execute(f"SELECT * FROM job {where}", values):
            if _sum(*facts, body) != checksum:
                raise damaged(path, f"job {facts[0]} is not as it was archived")
            job = load_object(_unpacked(body))
            assert isinstance(job, Job), job
            yield job
    except (sqlite3.Error, UnicodeError, zlib.error, msgspec.DecodeError, NotSavedError) as error:
        raise damaged(path, f"an archived job cannot be read: {error}") from error


# --- bodies ---------------------------------------------------------------------------------------


def _packed(plain: object) -> bytes:
    return zlib.compress(msgspec.json.encode(plain), _LEVEL)


def _unpacked(body: bytes) -> Any:  # noqa: ANN401 - whatever was packed
    return msgspec.json.decode(zlib.decompress(body))


def _sum(*parts: object) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        text = part if isinstance(part, bytes) else repr(part).encode("utf-8", "surrogatepass")
        digest.update(len(text).to_bytes(8, "big"))
        digest.update(text)
    return digest.digest()
