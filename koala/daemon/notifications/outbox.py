"""The outbox: notifications that are to be delivered, kept on disk until they are.

Each is tried again, later and later, for a day. What could not be delivered stays a week, to be
told. `seen` is the newest notice whose notifications are here, so a daemon that was killed goes on
where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection

from koala.common.runtime.disk_formats import OUTBOX
from koala.common.runtime.sqlite_store import Database, Schema
from koala.core.model.values import Seconds
from koala.daemon.notifications.receivers import Addressee, Channel

FILE = "notifications.db"
FIRST_S = 10.0
LONGEST_S = 3600.0
"""Pauses between two tries: the first, doubled each time, and the longest."""
GIVE_UP_S = 86_400.0
TOLD_S = 7 * 86_400.0
HOUR_S = 3600.0
SCHEMA = Schema(
    format=OUTBOX,
    tables="""
CREATE TABLE delivery (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, user TEXT NOT NULL, channel TEXT NOT NULL,
    target TEXT NOT NULL, message TEXT NOT NULL, since REAL NOT NULL, next_at REAL,
    tries INTEGER NOT NULL DEFAULT 0, trouble TEXT NOT NULL DEFAULT ''
);
CREATE INDEX delivery_next ON delivery (next_at);
CREATE TABLE sent (key TEXT PRIMARY KEY, user TEXT NOT NULL, at REAL NOT NULL);
CREATE TABLE seen (number INTEGER NOT NULL);
""",
    advice=OUTBOX.remedy,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One notification for one receiver; `next_at` None: given up."""

    key: str
    user: str
    channel: Channel
    target: str
    message: str
    since: float = 0.0
    next_at: float | None = 0.0
    tries: int = 0
    trouble: str = ""

    @property
    def receiver(self) -> Addressee:
        """Its receiver."""
        return Addressee(self.channel, self.target)


_FIELDS = "key, user, channel, target, message, since, next_at, tries, trouble"


class DeliveryStore:
    """The deliveries in a database of their own; each call is one transaction, and blocks."""

    def __init__(self, folder: Path, *, per_hour: int, now: Callable[[], float]) -> None:
        """Open the database. Raises JournalError."""
        self._database = Database(folder / FILE, SCHEMA)
        self._per_hour = per_hour
        self._now = now

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    @property
    def seen(self) -> int | None:
        """Number of the newest notice whose notifications are here; None at the first start."""
        rows = self._database.read("SELECT number FROM seen")
        return rows[0][0] if rows else None

    def add(self, deliveries: Iterable[Delivery], seen: int | None = None) -> list[Delivery]:
        """Add deliveries that are not here and were not sent; return those over the user's limit
        of an hour, which are dropped. Raises DiskError."""
        over: list[Delivery] = []
        now = self._now()

        def write(connection: Connection) -> None:
            for delivery in deliveries:
                if self._count(connection, delivery.user, now) >= self._per_hour:
                    over.append(delivery)
                    continue
                connection.execute(
                    "INSERT OR IGNORE INTO delivery (key, user, channel, target, message, since,"
                    " next_at) SELECT ?, ?, ?, ?, ?, ?, ? WHERE NOT EXISTS"
                    " (SELECT 1 FROM sent WHERE key = ?)",
                    (
                        *(delivery.key, delivery.user, *delivery.receiver, delivery.message),
                        *(now, now, delivery.key),
                    ),
                )
            if seen is not None:
                connection.execute("DELETE FROM seen")
                connection.execute("INSERT INTO seen VALUES (?)", (seen,))

        self._database.write(write)
        return over

    def due(self, most: int) -> list[Delivery]:
        """Return deliveries whose time has come, the longest due first. Raises JournalError."""
        return self._read("WHERE next_at <= ? ORDER BY next_at LIMIT ?", (self._now(), most))

    def next_at(self) -> float | None:
        """Return when the next delivery is due; None for never. Raises JournalError."""
        ((at,),) = self._database.read("SELECT min(next_at) FROM delivery")
        return None if at is None else float(at)

    def waiting(self, user: str, most: int) -> list[Delivery]:
        """Return the user's deliveries that are not done, the newest first. Raises JournalError."""
        return self._read("WHERE user = ? AND tries ORDER BY id DESC LIMIT ?", (user, most))

    def done(self, delivery: Delivery) -> None:
        """Remove a delivery that was made, or that must not be made twice. Raises DiskError."""
        now = self._now()

        def write(connection: Connection) -> None:
            connection.execute("DELETE FROM delivery WHERE key = ?", (delivery.key,))
            connection.execute(
                "INSERT OR REPLACE INTO sent VALUES (?, ?, ?)", (delivery.key, delivery.user, now)
            )
            connection.execute("DELETE FROM sent WHERE at < ?", (now - 2 * TOLD_S,))

        self._database.write(write)

    def failed(self, delivery: Delivery, trouble: str, *, is_final: bool) -> bool:
        """Put a delivery off, or give it up after a day or a final error; return True if it was
        given up. Raises DiskError."""
        now = self._now()
        pause_s: Seconds = min(LONGEST_S, FIRST_S * 2**delivery.tries)
        is_over = is_final or now + pause_s > delivery.since + GIVE_UP_S
        next_at = None if is_over else now + pause_s

        def write(connection: Connection) -> None:
            connection.execute(
                "UPDATE delivery SET tries = tries + 1, next_at = ?, trouble = ? WHERE key = ?",
                (next_at, trouble[:500], delivery.key),
            )
            connection.execute(
                "DELETE FROM delivery WHERE next_at IS NULL AND since < ?", (now - TOLD_S,)
            )

        self._database.write(write)
        return is_over

    def _count(self, connection: Connection, user: str, now: float) -> int:
        """Count the notifications of a user in the last hour, sent and waiting."""
        ((sent,),) = connection.execute(
            "SELECT count(*) FROM sent WHERE user = ? AND at > ?", (user, now - HOUR_S)
        )
        ((waits,),) = connection.execute(
            "SELECT count(*) FROM delivery WHERE user = ? AND since > ?", (user, now - HOUR_S)
        )
        return int(sent) + int(waits)

    def _read(self, where: str, values: Sequence[object]) -> list[Delivery]:
        rows = self._database.read(f"SELECT {_FIELDS} FROM delivery {where}", tuple(values))
        names = _FIELDS.split(", ")
        return [Delivery(**dict(zip(names, row, strict=True))) for row in rows]
