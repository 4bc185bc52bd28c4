"""What can still be read of a damaged journal, in a new one: the last resort of an operator who has
no backup and goes on with what there is (`koala daemon CONFIG --accept-loss`).

The damaged files are moved aside, never written. Into the new journal go the newest snapshot that
is as it was written and the events that follow it without a gap, those before it where all of them
are good, and of archived jobs and notices what comes before the first that cannot be read.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import structlog

from koala.daemon.archive import Kept, read_snapshots
from koala.daemon.folder import FILE, MARK, take_lock
from koala.daemon.journal import prepare
from koala.daemon.records import Mark, Row, read_rows
from koala.errors import JournalError

DAMAGED = "damaged-"
"""Begins the name of a folder with a journal that was replaced."""
_EVENTS = "SELECT seq, at, kind, body, answers, chain FROM event WHERE seq > ? ORDER BY seq"
log = structlog.get_logger()


def salvage(state_dir: Path) -> Path:
    """Make a new journal of what can be read; the folder with the damaged one. Raises
    JournalError when that is nothing."""
    lock = take_lock(state_dir)
    try:
        aside = _aside(state_dir)
        with closing(_source(aside / FILE)) as source:
            kept = next((k for k in _snapshots(source, aside) if isinstance(k, Kept)), None)
            rows = _good_rows(source, Mark())
            if kept is not None and not any(row[0] == kept.mark.seq for row in rows):
                rows = _good_rows(source, kept.mark)
            if kept is None and not rows:
                raise JournalError(
                    f"{aside / FILE}: nothing of it can be read. Put a backup back (koala restore"
                    f" BACKUP STATE_DIR), or begin anew with an empty state directory"
                )
            part = state_dir / f"{FILE}.new"
            part.unlink(missing_ok=True)
            _write(part, source, kept, rows)
            part.rename(state_dir / FILE)
        last = rows[-1][0] if rows else 0 if kept is None else kept.mark.seq
        log.warning("journal.salvaged", damaged=str(aside), last_event=last)
        return aside
    except OSError as error:
        raise JournalError(f"{state_dir}: {error.strerror or error}") from error
    finally:
        os.close(lock)


def _aside(state_dir: Path) -> Path:
    """The damaged files in a folder of their own."""
    number = 1
    while (folder := state_dir / f"{DAMAGED}{number}").exists():
        number += 1
    folder.mkdir(mode=0o700)
    for name in (FILE, f"{FILE}-wal", f"{FILE}-shm", MARK):
        with suppress(FileNotFoundError):
            (state_dir / name).rename(folder / name)
    return folder


def _source(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True)


def _snapshots(source: sqlite3.Connection, aside: Path) -> Iterator[Kept | JournalError]:
    return read_snapshots(source, aside / FILE)


def _good_rows(source: sqlite3.Connection, after: Mark) -> list[Row]:
    """The events after a mark up to the first that is not as it was written."""
    taken: list[Row] = []

    def take() -> Iterator[Row]:
        for row in source.execute(_EVENTS, (after.seq,)):
            taken.append(row)
            yield row

    good = 0
    with suppress(JournalError, sqlite3.Error, UnicodeError):
        for _ in read_rows(take(), after, source="salvage"):
            good += 1
    return taken[:good]


def _write(path: Path, source: sqlite3.Connection, kept: Kept | None, rows: list[Row]) -> None:
    path.touch(mode=0o600)
    with closing(sqlite3.connect(path, isolation_level=None)) as target:
        prepare(target, path)
        target.execute("BEGIN IMMEDIATE")
        target.executemany("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)", rows)
        if kept is not None:
            found = source.execute("SELECT * FROM snapshot WHERE seq = ?", (kept.mark.seq,))
            target.execute("INSERT INTO snapshot VALUES (?, ?, ?, ?, ?, ?)", found.fetchone())
            core = ("core", str(kept.core))
            target.execute("INSERT OR REPLACE INTO fact VALUES (?, ?)", core)
        for table, columns in (("job", 8), ("notice", 6)):
            marks = ", ".join("?" * columns)
            for row in _readable(source, table):
                target.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", row)
        target.execute("COMMIT")
        target.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for more in ("-wal", "-shm"):
        path.with_name(path.name + more).unlink(missing_ok=True)


def _readable(source: sqlite3.Connection, table: str) -> Iterator[tuple[Any, ...]]:
    with suppress(sqlite3.Error, UnicodeError):
        yield from source.execute(f"SELECT * FROM {table}")
