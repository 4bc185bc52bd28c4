"""Events that no start needs: a saved state is newer than they are. They are kept for `koala
replay` and in backups, so each start looks at them all the same; what is damaged is found while
there is a good backup still, and not when the first is refused.

Without such a backup the damaged ones go, with all before the next saved state, and nothing else:
the state does not rest on them, so there is no loss that anybody has to be told of.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from koala.daemon.storage.archive import read_snapshots
from koala.daemon.storage.read_connections import forgiving
from koala.daemon.storage.records import JournalPosition, damaged, unchained
from koala.errors import JournalError

_ROWS = (
    "SELECT seq, at, kind, body, answers, chain FROM event WHERE seq > ? AND seq <= ? ORDER BY seq"
)


def check_history(connection: sqlite3.Connection, path: Path, end: JournalPosition) -> None:
    """Each event up to a snapshot is as it was written, and that snapshot's. Raises DamagedError.

    Of the first that is kept, when others were before it, nobody can say; nobody reads it either.
    """
    try:
        bad = next(_damaged(connection, end), None)
    except (sqlite3.Error, UnicodeError) as error:
        bad = (0, f"an event up to {end.seq} cannot be read: {error}")
    if bad is not None:
        raise damaged(
            path,
            f"{bad[1]}. It is history: the state was saved after it (event {end.seq}), so"
            " --accept-loss drops what cannot be replayed any longer, and loses nothing else",
        )


def drop_history(connection: sqlite3.Connection, path: Path) -> int:
    """Drop the events before a good snapshot that are damaged, and all before them that only they
    lead on from; the number of the last that is gone, 0 when all are good. Raises sqlite3.Error."""
    found = read_snapshots(connection, path)
    kept = [one.mark for one in found if not isinstance(one, JournalError)]
    if not kept:
        return 0
    with forgiving(connection):
        bad = max((seq for seq, _ in _damaged(connection, kept[0])), default=0)
    if not bad:
        return 0
    begin = min(mark.seq for mark in kept if mark.seq >= bad)
    last = max(bad, begin - 1)
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM event WHERE seq <= ?", (last,))
        for table in ("digest", "snapshot"):
            connection.execute(f"DELETE FROM {table} WHERE seq < ?", (begin,))
    return last


def _damaged(connection: sqlite3.Connection, end: JournalPosition) -> Iterator[tuple[int, str]]:
    """The numbers of events up to a snapshot that are damaged or come after one that is missing,
    and what is wrong. Raises sqlite3.Error."""
    row = connection.execute("SELECT seq, chain FROM event ORDER BY seq LIMIT 1").fetchone()
    if row is None or row[0] > end.seq:
        return
    begin = JournalPosition() if row[0] == 1 else _begin(connection, JournalPosition(*row))
    yield from unchained(connection.execute(_ROWS, (begin.seq, end.seq)), begin)
    (last,) = connection.execute("SELECT max(seq) FROM event").fetchone()
    has_end = connection.execute("SELECT 1 FROM event WHERE seq = ?", (end.seq,)).fetchone()
    if last > end.seq and has_end is None:
        yield end.seq, f"event {end.seq} is missing"


def _begin(connection: sqlite3.Connection, first: JournalPosition) -> JournalPosition:
    """What the first event that can be checked is held against: a snapshot, or that event itself,
    whose own predecessor is not kept."""
    question = "SELECT seq, chain FROM snapshot WHERE seq = ?"
    row = connection.execute(question, (first.seq - 1,)).fetchone()
    return first if row is None else JournalPosition(*row)
