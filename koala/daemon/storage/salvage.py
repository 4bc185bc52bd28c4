"""Salvage the readable part of a damaged journal into a new one.

This is the last resort of an operator without a backup (`koala daemon CONFIG --accept-loss`). The
new journal gets:

- the newest intact snapshot, and the events that follow it without a gap;
- the events before it, if all of them are good;
- intact archived jobs, and notices, up to the first unreadable row.

The new journal is made beside the damaged one, which is not modified. Once it is complete and
durable it is renamed to `SALVAGED`; that is the commit point. Before it, the damaged journal is
still in place and rejected. After it, every start first moves the new journal into place (`finish`)
and keeps the damaged files in a folder of their own.

The daemon then recovers as after a loss (`RESTORED`), unless the new journal ends with the event
named by the mark. The mark is kept for the new journal: one without a mark is rejected.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import structlog

from koala.daemon.state_folder import DAMAGED, FILE, MARK, RESTORED, SALVAGED, acquire_lock
from koala.daemon.storage.archive import KeptSnapshot, is_good, read_snapshots
from koala.daemon.storage.journal import CORE_FACT, prepare, written_by
from koala.daemon.storage.read_connections import connect_reader
from koala.daemon.storage.records import JournalPosition, Row, read_mark, read_rows
from koala.errors import JournalError
from koala.identity.private_files import sync_folder, write_private
from koala.runtime.disk_formats import CORE

_EVENTS = "SELECT seq, at, kind, body, answers, chain FROM event WHERE seq > ? ORDER BY seq"
_BESIDE = ("-wal", "-shm")
log = structlog.get_logger()


def salvage(state_dir: Path) -> None:
    """Replace the journal by a new one with everything readable.

    Raises JournalError if nothing is readable; then nothing was changed.
    """
    lock = acquire_lock(state_dir)
    part = state_dir / f"{FILE}.new"
    try:
        with closing(connect_reader(state_dir / FILE)) as source:
            kept = next(
                (k for k in _snapshots(source, state_dir) if isinstance(k, KeptSnapshot)), None
            )
            rows = _good_rows(source, JournalPosition())
            if kept is not None and not any(row[0] == kept.mark.seq for row in rows):
                rows = [*_own_row(source, kept.mark), *_good_rows(source, kept.mark)]
            if kept is None and not rows:
                raise JournalError(
                    f"{state_dir / FILE}: nothing of it can be read. Put a backup back (koala"
                    f" restore BACKUP STATE_DIR), or begin anew with an empty state directory"
                )
            _remove(part)
            _write(part, source, kept, rows)
        last = rows[-1][0] if rows else 0 if kept is None else kept.mark.seq
        is_whole = bool(rows) and _mark(state_dir) == JournalPosition(last, rows[-1][-1])
        if not is_whole:
            write_private(state_dir / RESTORED, b'{"salvaged": true}\n')
        part.rename(state_dir / SALVAGED)
        sync_folder(state_dir)
        log.warning("journal.salvaged", last_event=last, is_whole=is_whole)
        _put_in_place(state_dir)
    except (OSError, sqlite3.Error) as error:
        raise JournalError(f"{state_dir}: cannot be salvaged: {error}") from error
    finally:
        with suppress(OSError):
            _remove(part)
        os.close(lock)


def finish(state_dir: Path) -> None:
    """Finish a salvage that was interrupted after its commit point. Raises JournalError."""
    if not (state_dir / SALVAGED).exists():
        return
    lock = acquire_lock(state_dir)
    try:
        _put_in_place(state_dir)
    except OSError as error:
        raise JournalError(f"{state_dir}: {error.strerror or error}") from error
    finally:
        os.close(lock)


def _put_in_place(state_dir: Path) -> None:
    """Move the new journal into place. May be interrupted at any point and repeated."""
    # The database is moved last: a folder without it is of an interrupted move.
    names = (*(f"{FILE}{more}" for more in _BESIDE), FILE)
    found = [name for name in names if (state_dir / name).exists()]
    if found:
        folder = _aside(state_dir)
        if (state_dir / MARK).exists():
            shutil.copy2(state_dir / MARK, folder / MARK)
        for name in found:
            (state_dir / name).rename(folder / name)
        sync_folder(folder)
        sync_folder(state_dir)
        log.warning("journal.set_aside", damaged=str(folder))
    (state_dir / SALVAGED).rename(state_dir / FILE)
    sync_folder(state_dir)


def _aside(state_dir: Path) -> Path:
    """Create the folder for the damaged files."""
    number = 1
    while ((folder := state_dir / f"{DAMAGED}{number}") / FILE).exists():
        number += 1
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _remove(database: Path) -> None:
    for more in ("", *_BESIDE):
        database.with_name(database.name + more).unlink(missing_ok=True)


def _snapshots(
    source: sqlite3.Connection, state_dir: Path
) -> Iterator[KeptSnapshot | JournalError]:
    return read_snapshots(source, state_dir / FILE)


def _mark(state_dir: Path) -> JournalPosition | None:
    """Return the last committed event, if the mark is readable."""
    path = state_dir / MARK
    with suppress(OSError, JournalError):
        return read_mark(path.read_bytes(), source=str(path))
    return None


def _own_row(source: sqlite3.Connection, mark: JournalPosition) -> list[Row]:
    """Return the event after which a snapshot was taken, if it matches: a start checks that."""
    with suppress(sqlite3.Error, UnicodeError):
        rows: list[Row] = source.execute(_EVENTS, (mark.seq - 1,)).fetchmany(1)
        return [row for row in rows if (row[0], row[-1]) == (mark.seq, mark.chain)]
    return []


def _good_rows(source: sqlite3.Connection, after: JournalPosition) -> list[Row]:
    """Return the events after a position up to the first damaged one."""
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


def _write(
    path: Path, source: sqlite3.Connection, kept: KeptSnapshot | None, rows: list[Row]
) -> None:
    path.touch(mode=0o600)
    with closing(sqlite3.connect(path, isolation_level=None)) as target:
        prepare(target, path)
        target.execute("BEGIN IMMEDIATE")
        target.executemany("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)", rows)
        if kept is not None:
            found = source.execute("SELECT * FROM snapshot WHERE seq = ?", (kept.mark.seq,))
            target.execute("INSERT INTO snapshot VALUES (?, ?, ?, ?, ?, ?)", found.fetchone())
        core = _core(source, path) if kept is None else kept.core
        target.execute("INSERT OR REPLACE INTO fact VALUES (?, ?)", (CORE_FACT, str(core)))
        for table, columns in (("job", 8), ("notice", 6)):
            marks = ", ".join("?" * columns)
            with suppress(sqlite3.IntegrityError):  # a damaged row that reads as another key
                for row in _readable(source, table):
                    target.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", row)
        target.execute("COMMIT")
        target.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for more in _BESIDE:
        path.with_name(path.name + more).unlink(missing_ok=True)


def _core(source: sqlite3.Connection, path: Path) -> int:
    """Return the core version that wrote last; this core's if that is unreadable."""
    with suppress(JournalError):
        return written_by(source, path)[0]
    return CORE


def _readable(source: sqlite3.Connection, table: str) -> Iterator[tuple[Any, ...]]:
    with suppress(sqlite3.Error, UnicodeError):
        for row in source.execute(f"SELECT * FROM {table}"):
            if table == "job" and not is_good(row):
                log.warning("job.lost", job=str(row[0]))
            else:
                yield row
