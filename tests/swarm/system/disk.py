"""Simulated disks: real SQLite databases in memory, whose writes fail, and fail halfway.

A database outlives the process that writes to it. Each transaction asks the plan, before and after
it is durable, whether the process dies there or the disk errs there. So a write may be lost, or be
durable without the writer's knowledge. The content is SQLite's own image. So a page of it can be
damaged, or an older image put in its place.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Literal

from koala.core.model.values import Instant

PATH = Path("journal.db")
ROWS_LATE = 12


class Durable(sqlite3.Connection):
    """A connection whose transactions have fault points at their boundaries."""

    before: Callable[[], None] = staticmethod(lambda: None)
    after: Callable[[], None] = staticmethod(lambda: None)

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Execute SQL (see sqlite3): a transaction begins, or is committed."""
        if sql == "BEGIN IMMEDIATE":
            self.before()
        cursor = super().execute(sql, parameters)
        if sql == "COMMIT":
            self.after()
        return cursor

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]:
        super().__exit__(kind, error, trace)
        if error is None:
            self.after()
        return False


class Disk:
    """One database, and the watermark beside it. `point` is called at each boundary and may raise
    CrashedError; `errs` says whether the disk fails."""

    def __init__(self, *, point: Callable[[], None], errs: Callable[[], bool]) -> None:
        self.full_until: Instant = 0.0
        self.now: Callable[[], Instant] = lambda: 0.0
        self.mark = b""
        self._point = point
        self._errs = errs
        self.connection = self._connect()

    def _connect(self) -> Durable:
        connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False, factory=Durable
        )
        connection.before = self._before
        connection.after = self._after
        return connection

    def _before(self) -> None:
        self._point()
        if self.now() < self.full_until:
            raise _error("database or disk is full", sqlite3.SQLITE_FULL)
        if self._errs():
            raise _error("disk I/O error", sqlite3.SQLITE_IOERR)

    def _after(self) -> None:
        self._point()
        if self._errs():
            raise _error("disk I/O error", sqlite3.SQLITE_IOERR)  # durable, and nobody knows

    def crashed(self) -> None:
        """Discard what the dead writer had not committed."""
        if self.connection.in_transaction:
            self.connection.rollback()

    def image(self) -> bytes:
        """Return the raw disk image."""
        return self.connection.serialize()

    # --- koala.daemon.storage.journal.Place ---

    @property
    def path(self) -> Path:
        """See Place."""
        return PATH

    @property
    def position_path(self) -> Path:
        """See Place."""
        return PATH.with_suffix(".mark")

    def check(self) -> None:
        """See Place."""

    def read_position(self) -> bytes:
        """See Place."""
        return self.mark

    def write_position(self, text: bytes) -> None:
        """See Place."""
        self._point()
        self.mark = text

    def close(self) -> None:
        """See Place."""


class Copy(Disk):
    """Damaged image of a disk: it accepts writes, which are lost."""

    def __init__(self, image: bytes, mark: bytes) -> None:
        super().__init__(point=lambda: None, errs=lambda: False)
        self.connection.deserialize(image)
        self.mark = mark


def _error(text: str, code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


def spoilt(image: bytes, random: Random) -> bytes:
    """Change one byte of a page."""
    place = random.randrange(len(image))
    changed = image[place] ^ (1 << random.randrange(8))
    return image[:place] + bytes((changed,)) + image[place + 1 :]


def change_row(disk: Disk, random: Random) -> None:
    """Change one digit of a late event: the row still parses and says something else, and no digest
    that was recorded before contradicts it."""
    rows = disk.connection.execute("SELECT seq, body FROM event ORDER BY seq").fetchall()
    if not rows:
        return  # it died before its first event, or all of them are in a saved state
    seq, body = random.choice(rows[-ROWS_LATE:])
    places = [place for place, letter in enumerate(body) if letter.isdigit()]
    if places:
        place = random.choice(places)
        digit = (int(body[place]) + random.randint(1, 9)) % 10
        changed = f"{body[:place]}{digit}{body[place + 1 :]}"
        disk.connection.execute("UPDATE event SET body = ? WHERE seq = ?", (changed, seq))
