"""Find and drop damaged history, that is, events older than a snapshot, which no start needs.

They are kept for `koala replay` and for backups. Each start verifies them nevertheless, so that
damage is found while a good backup still exists. Without such a backup the damaged events are
dropped, with all before the next snapshot. The state does not depend on them, so this is no loss to
report.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from koala.common.runtime.sqlite_store import Database
from koala.daemon.storage.archive import read_snapshots
from koala.daemon.storage.records import JournalPosition, broken_rows, damaged_error, trusted
from koala.errors import JournalError

_ROWS = (
    "SELECT seq, at, kind, body, answers, chain FROM event WHERE seq > ? AND seq <= ? ORDER BY seq"
)


def check_history(connection: sqlite3.Connection, path: Path, end: JournalPosition) -> None:
    """Verify each event up to a snapshot, and that the snapshot follows them. Raises DamagedError.

    The first kept event cannot be verified if there were others before it; it is not read either.
    """
    try:
        bad = next(_damaged(connection, end), None)
    except (sqlite3.Error, UnicodeError) as error:
        bad = (0, f"an event up to {end.seq} cannot be read: {error}")
    if bad is not None:
        raise damaged_error(
            path,
            f"{bad[1]}. It is history: the state was saved after it (event {end.seq}), so"
            " --accept-loss drops what cannot be replayed any longer, and loses nothing else",
        )


def drop_history(database: Database, path: Path) -> int:
    """Delete damaged events before a good snapshot, and all earlier ones that lead only to them.

    Returns the number of the last deleted event; 0 if all are good. Raises JournalError.
    """
    connection = database.connection
    snapshots = read_snapshots(connection, path)
    kept = [snapshot.position for snapshot in snapshots if not isinstance(snapshot, JournalError)]
    if not kept:
        return 0
    with trusted(path, "its history"):
        bad = max((seq for seq, _ in _damaged(connection, kept[0])), default=0)
    if not bad:
        return 0
    begin = min(position.seq for position in kept if position.seq >= bad)
    last = max(bad, begin - 1)

    def change(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM event WHERE seq <= ?", (last,))
        for table in ("digest", "snapshot"):
            connection.execute(f"DELETE FROM {table} WHERE seq < ?", (begin,))

    database.write(change)
    return last


def _damaged(connection: sqlite3.Connection, end: JournalPosition) -> Iterator[tuple[int, str]]:
    """Yield number and problem of events up to a snapshot that are damaged or follow a gap.

    Raises sqlite3.Error.
    """
    row = connection.execute("SELECT seq, chain FROM event ORDER BY seq LIMIT 1").fetchone()
    if row is None or row[0] > end.seq:
        return
    begin = JournalPosition() if row[0] == 1 else _begin(connection, JournalPosition(*row))
    yield from broken_rows(connection.execute(_ROWS, (begin.seq, end.seq)), begin)
    (last,) = connection.execute("SELECT max(seq) FROM event").fetchone()
    has_end = connection.execute("SELECT 1 FROM event WHERE seq = ?", (end.seq,)).fetchone()
    if last > end.seq and has_end is None:
        yield end.seq, f"event {end.seq} is missing"


def _begin(connection: sqlite3.Connection, first: JournalPosition) -> JournalPosition:
    """Return the position from which the chain can be verified.

    That is a snapshot or, if the first event's predecessor is not kept, that event itself.
    """
    question = "SELECT seq, chain FROM snapshot WHERE seq = ?"
    row = connection.execute(question, (first.seq - 1,)).fetchone()
    return first if row is None else JournalPosition(*row)
