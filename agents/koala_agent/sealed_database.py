"""SQLite database with a checksum over its tables, to detect lost or damaged rows.

SQLite's pages carry no checksums, and it silently drops its write-ahead log from the first bad
frame on: one flipped bit, or a removed log, takes acknowledged rows back. A site that forgot a
claim with a living starter would report it gone, and its job would run twice. Two records detect
this:

- The *seal*, a row of the same database, holds a sum over all rows and counts their changes.
  Triggers of our own connection update it in the transaction that changes the rows.
- The *mark*, a small file beside the database, holds that count. It is written after each commit,
  before anything that rests on the commit is reported or done, and is never ahead of it.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from koala.common.runtime.disk_formats import MOVE_AGENT_STATE
from koala.common.runtime.sqlite_store import Database, Result, Run, Schema, reading
from koala.errors import DamagedError

ADVICE = (
    f"{MOVE_AGENT_STATE[0].upper()}{MOVE_AGENT_STATE[1:]}: of what still runs here it then knows"
    " nothing, and the daemon gives that up when its leases are over"
)

_SUM_BYTES = 32
ROWS_KEPT = 1024
"""Rows whose digests are kept: a row is removed from the sum soon after it was added."""


class SealedDatabase(Database):
    """One open database with seal and mark."""

    def __init__(
        self,
        path: Path,
        schema: Schema,
        columns: Mapping[str, Sequence[str]],
        *,
        make_room: Callable[[], bool] = lambda: False,
        is_marked: Callable[[Run], bool] = lambda _run: True,
    ) -> None:
        """Open the file and compare its rows with the seal. Raises JournalError.

        `columns` names those that count, by table. `is_marked` is False if a crash of the machine
        may have undone commits: then the mark is not compared.
        """
        self._mark_path = path.with_suffix(".mark")
        self._columns = columns
        super().__init__(path, schema, make_room=make_room)
        self._run = self.connection.execute
        try:
            with reading(path, "it", schema.advice):
                if self._run("SELECT sum FROM seal").fetchall() != [(self._total(),)]:
                    raise self._damaged("its rows do not match their checksum")
                is_expected = is_marked(self._run)
            self._database_inode = path.stat().st_ino  # to detect a replaced file
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._mark_file = os.open(self._mark_path, flags, 0o600)
        except BaseException:
            self.connection.close()
            raise
        try:
            if is_expected:
                self._compare_mark()
            self._install_triggers()
            with self.writing():
                self._mark()
        except BaseException:
            self.close()
            raise

    def _complete(self) -> None:
        """Create the seal of a new database."""
        run = self.connection.execute
        run("CREATE TABLE seal (number INTEGER NOT NULL, sum BLOB NOT NULL)")
        run("INSERT INTO seal VALUES (0, ?)", (self._total(),))

    def _compare_mark(self) -> None:
        """Check that the mark is not ahead of the seal. Raises DamagedError."""
        number, marked = self._number(), self._read_mark()
        if number > 0 and marked is None:
            raise self._damaged(f"{self._mark_path} is missing, or cannot be read")
        if marked is not None and marked > number:
            raise self._damaged(f"{marked - number} changes of its rows are missing")

    def _install_triggers(self) -> None:
        """Let each change of a row update the seal."""
        self.connection.create_function("folded", -1, _folded, deterministic=True)
        self._run("PRAGMA recursive_triggers = ON")  # or REPLACE would fire no delete trigger
        for table, columns in self._columns.items():
            old, new = (_row(columns, prefix) for prefix in ("OLD.", "NEW."))
            added, removed = f"folded(sum, 1, '{table}', {new})", f"-1, '{table}', {old})"
            for verb, total in (
                ("INSERT", added),
                ("DELETE", f"folded(sum, {removed}"),
                ("UPDATE", f"folded({added}, {removed}"),
            ):
                self._run(
                    f"CREATE TEMP TRIGGER seal_{table}_{verb} AFTER {verb} ON main.{table}"
                    f" BEGIN UPDATE seal SET number = number + 1, sum = {total}; END"
                )

    def write(self, change: Callable[[sqlite3.Connection], Result]) -> Result:
        """Make a change in one transaction, then write the mark. Raises DiskError."""
        with self.writing():
            result = self.transact(change)
            self._mark()
            return result

    def _mark(self) -> None:
        """Write the mark after a durable commit. Raises OSError, also when the database file was
        replaced or removed, so that the next life would read another one."""
        try:
            is_ours = self.path.stat().st_ino == self._database_inode
        except FileNotFoundError:
            is_ours = False
        if not is_ours:
            raise OSError("it was removed, or another file has taken its place")
        os.pwrite(self._mark_file, _mark_text(self._number()), 0)

    def close(self) -> None:
        """Close the database and the mark."""
        os.close(self._mark_file)
        super().close()

    def _number(self) -> int:
        return int(self._run("SELECT number FROM seal").fetchone()[0])

    def _read_mark(self) -> int | None:
        text = os.pread(self._mark_file, 256, 0)
        digits = text.partition(b" ")[0]
        is_right = digits.isdigit() and text == _mark_text(int(digits))
        return int(digits) if is_right else None

    def _total(self) -> bytes:
        total = bytes(_SUM_BYTES)
        for table, columns in self._columns.items():
            for row in self.connection.execute(f"SELECT {_row(columns)} FROM {table}"):
                total = _folded(total, 1, table, *row)
        return total

    def _damaged(self, what: str) -> DamagedError:
        return DamagedError(f"{self.path}: damaged: {what}", ADVICE)


def _row(columns: Sequence[str], prefix: str = "") -> str:
    """Return the columns as bytes, because damaged text cannot be decoded."""
    return ", ".join(f"CAST({prefix}{column} AS BLOB)" for column in columns)


def _folded(total: bytes, sign: int, *row: object) -> bytes:
    """Add one row to the sum or remove it; the order of rows does not matter."""
    number = int.from_bytes(total, "big") + sign * _digest(*row)
    return (number % (1 << 8 * _SUM_BYTES)).to_bytes(_SUM_BYTES, "big")


def _mark_text(number: int) -> bytes:
    """Return the mark's content, of constant length, so that it overwrites the previous one."""
    digits = b"%020d" % number
    return digits + b" " + hashlib.sha256(digits).hexdigest()[:16].encode() + b"\n"


@lru_cache(maxsize=ROWS_KEPT, typed=True)  # 1 and 1.0 are equal, and are different rows
def _digest(*row: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(row).encode()).digest(), "big")
