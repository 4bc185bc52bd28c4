"""Read a journal without owning it: for `koala replay`, also beside a running daemon, and from a
copy.

Nothing is written and no lock is taken. The events are those committed when it was opened. These
are verified:

- each event against the chain;
- the number of events against the commit position, if its file lies beside;
- each recorded digest against the state of the replay.

A difference raises JournalError before anything is returned: a journal is never partly read. If the
first events are no longer kept, the replay begins at the oldest snapshot, and reports so.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from koala.core.digest import digest
from koala.core.model.actions import Action
from koala.core.model.parameters import Parameters
from koala.core.model.values import FOREVER, Instant
from koala.core.policy_api import NO_POLICIES
from koala.core.scheduler import Scheduler
from koala.core.snapshot import UnreadableSnapshotError, load
from koala.daemon.storage.archive import KeptSnapshot, read_snapshots
from koala.daemon.storage.folder import FILE, POSITION_FILE
from koala.daemon.storage.journal import SCHEMA, read_events, truncated_error
from koala.daemon.storage.records import (
    ADVICE,
    JournalPosition,
    Record,
    damaged_error,
    read_position,
    trusted,
    unusable_error,
)
from koala.errors import JournalError

_UNEXPECTED = (
    "the journal was changed, or this version of Koala decides differently from the one that wrote"
    " it, which is an error in Koala: please report it"
)
ROWS = 4096  # per read: a slow reader must not delay the writer's checkpoints


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalReader:
    """Contents of an opened journal: events up to number `events`, after the snapshot `begin` if
    any.

    Without `committed`, events lost at its end go unnoticed. If `path` is a temporary copy,
    `source` is the original path, for messages.
    """

    path: Path
    source: Path
    events: int
    begin: KeptSnapshot | None
    first_at: Instant
    last_at: Instant
    committed: JournalPosition | None  # that its file names


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One event of a replay, its actions, and the state after it."""

    record: Record
    actions: list[Action]
    scheduler: Scheduler


def open_journal(path: Path, *, source: Path | None = None) -> JournalReader:
    """Open the journal of a state directory, or the file itself, for reading.

    Messages name `source` in its place. Raises JournalError.
    """
    file = path / FILE if path.is_dir() else path
    shown = file if source is None else source
    committed = _committed(file)  # read before the rows: it is never ahead of them
    with closing(connect(file)) as connection:
        SCHEMA.number(connection, shown)
        with trusted(shown, "the events"):
            first, last, first_at, last_at = connection.execute(
                "SELECT min(seq), max(seq), min(at), max(at) FROM event"
            ).fetchone()
        begin = _begin(connection, shown, first or 1)
        events = max(last or 0, 0 if begin is None else begin.position.seq)
    if committed is not None and committed.seq > events:
        raise truncated_error(shown, shown.parent / POSITION_FILE, events, committed.seq)
    return JournalReader(
        path=file,
        source=shown,
        events=events,
        begin=begin,
        first_at=(first_at or 0.0) if begin is None else begin.at,
        last_at=last_at or (0.0 if begin is None else begin.at),
        committed=committed,
    )


def records(reader: JournalReader) -> Iterator[Record]:
    """Yield the events in order, each verified. Raises JournalError."""
    at, known = (
        JournalPosition() if reader.begin is None else reader.begin.position,
        reader.committed,
    )
    while at.seq < reader.events:
        with closing(connect(reader.path)) as connection:
            rows = []
            for row in read_events(connection, reader.source, at):
                rows.append(row)
                if len(rows) == min(ROWS, reader.events - at.seq):
                    break
        if not rows:
            raise damaged_error(reader.source, f"event {at.seq + 1} is missing")
        for record, at in rows:
            if known is not None and known.seq == at.seq and known != at:
                raise truncated_error(
                    reader.source, reader.source.parent / POSITION_FILE, at.seq, known.seq
                )
            yield record


def replay(reader: JournalReader, *, until_at: Instant = FOREVER) -> Iterator[Step]:
    """Replay each event up to an instant with the recorded answers. Raises JournalError."""
    scheduler = _scheduler(reader)
    digests = _digests(reader)
    for record in records(reader):
        if record.at > until_at:
            return
        actions = replay_event(reader.source, scheduler, record)
        if record.seq in digests:
            require_digest(reader.source, scheduler, record.seq, digests[record.seq])
        yield Step(record=record, actions=actions, scheduler=scheduler)


def _scheduler(reader: JournalReader) -> Scheduler:
    """Create the scheduler in the initial state of the replay. Raises JournalError."""
    if reader.begin is None:
        return Scheduler(Parameters(), NO_POLICIES)
    try:
        return load(reader.begin.snapshot.plain, NO_POLICIES, reader.begin.snapshot.specs)
    except UnreadableSnapshotError as error:
        reason = f"the snapshot after event {reader.begin.position.seq} cannot be used: {error}"
        raise JournalError(f"{reader.source}: {reason}") from error


def _begin(connection: sqlite3.Connection, path: Path, first: int) -> KeptSnapshot | None:
    """Return the oldest snapshot to replay from; None means the first event.

    The events after the snapshot must be there. Raises JournalError.
    """
    if first == 1:
        return None
    oldest = None
    for kept in read_snapshots(connection, path):
        if isinstance(kept, JournalError):
            if oldest is None:
                raise kept
        elif kept.position.seq >= first - 1:
            oldest = kept
    if oldest is None:
        raise unusable_error(path, f"events before {first} and all snapshots are missing")
    return oldest


def replay_event(path: Path, scheduler: Scheduler, record: Record) -> list[Action]:
    """Replay one event and return its actions. Raises JournalError."""
    try:
        return scheduler.replay(record.event, record.at, record.answers)
    except (AssertionError, LookupError, ValueError, TypeError) as error:
        kind = type(record.event).__name__
        raise JournalError(
            f"{path}: event {record.seq} ({kind}) cannot be replayed: {error!r}: {_UNEXPECTED}."
            " Go on with the version that wrote it"
        ) from error


def require_digest(path: Path, scheduler: Scheduler, seq: int, expected: str) -> None:
    """Raise JournalError unless the state after event `seq` has this digest (promise 8)."""
    actual = digest(scheduler)
    if actual != expected:
        raise JournalError(
            f"{path}: the replay up to event {seq} gives another state than the one that"
            f" was recorded (digest {actual[:16]}, recorded {expected[:16]}): {_UNEXPECTED}."
            f" {ADVICE}"
        )


def _digests(reader: JournalReader) -> dict[int, str]:
    """Return the recorded digests, by event."""
    with closing(connect(reader.path)) as connection, trusted(reader.source, "the digests"):
        return dict(connection.execute("SELECT seq, digest FROM digest"))


def connect(file: Path) -> sqlite3.Connection:
    """Open a read-only connection. Raises JournalError.

    Without a write-ahead log there is no writer. Then the file is complete, and SQLite must not
    create a log, which would stay behind under the reader's account.
    """
    if not file.is_file():
        raise JournalError(f"{file}: no journal here")
    is_quiet = not file.with_name(f"{file.name}-wal").exists()
    place = file.resolve().as_uri()
    try:
        return sqlite3.connect(f"{place}?mode=ro{'&immutable=1' if is_quiet else ''}", uri=True)
    except (sqlite3.Error, UnicodeError) as error:
        raise JournalError(f"{file}: cannot be opened: {error}") from error


def _committed(file: Path) -> JournalPosition | None:
    """Read the commit position beside the file; None if there is none, as beside a copy."""
    path = file.parent / POSITION_FILE
    try:
        return read_position(path.read_bytes(), source=str(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise JournalError(f"{path}: {error.strerror or error}") from error
