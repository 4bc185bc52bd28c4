"""Checksum over the tables of an SQLite file, to detect lost or damaged rows.

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
from collections.abc import Mapping, Sequence
from pathlib import Path

from koala.errors import DamagedError

ADVICE = (
    "Move agent.db, agent.mark, the files agent.db-wal and agent.db-shm, and the folder lrm of the"
    " agent's state directory away, all of them together, and start the agent again: of what still"
    " runs here it then knows nothing, and the daemon gives that up when its leases are over"
)

_SUM_BYTES = 32


class TableChecksum:
    """Checksum of one open database; `tables` names the columns that count, by table."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, tables: Mapping[str, Sequence[str]]
    ) -> None:
        self._run = connection.execute
        self._path = path
        self._mark_path = path.with_suffix(".mark")
        self._mark_file: int | None = None
        self._database_inode: int | None = None  # to detect a replaced file
        self._tables = tables
        connection.create_function("folded", -1, _folded, deterministic=True)

    def check(self, *, is_sealed: bool) -> None:
        """Compare the rows with the seal; create the seal in a new database, and in one of an
        earlier release. Call in a transaction. Raises DamagedError."""
        (found,) = self._run("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise self._damaged(found)
        if not is_sealed:
            self._run("DROP TABLE IF EXISTS seal")  # of an interrupted start
            self._run("CREATE TABLE seal (number INTEGER NOT NULL, sum BLOB NOT NULL)")
            self._run("INSERT INTO seal VALUES (0, ?)", (self._total(),))
        elif self._run("SELECT sum FROM seal").fetchall() != [(self._total(),)]:
            raise self._damaged("its rows are not those that were written")

    def keep(self, *, is_marked: bool = True) -> None:
        """Install the triggers that update the seal. The mark is compared first, unless a crash of
        the machine may have undone commits (`is_marked` false). Raises DamagedError, OSError."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._mark_file = os.open(self._mark_path, flags, 0o600)
        number = self._number()
        marked = self._read_mark()
        if is_marked and number > 0 and marked is None:
            raise self._damaged(f"{self._mark_path} is missing, or cannot be read")
        if is_marked and marked is not None and marked > number:
            raise self._damaged(f"{marked - number} changes of its rows are missing")
        self._run("PRAGMA recursive_triggers = ON")  # or REPLACE would fire no delete trigger
        for table, columns in self._tables.items():
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
        self.mark()

    def mark(self) -> None:
        """Write the mark after a durable commit. Raises OSError, also when the database file was
        replaced or removed, so that the next life would read another one."""
        if self._mark_file is not None:
            try:
                number = self._path.stat().st_ino
            except FileNotFoundError:
                number = None
            if self._database_inode is None:
                self._database_inode = number
            if number is None or number != self._database_inode:
                raise OSError("it was removed, or another file has taken its place")
            os.pwrite(self._mark_file, _mark_text(self._number()), 0)

    def close(self) -> None:
        """Close the mark's file."""
        if self._mark_file is not None:
            os.close(self._mark_file)
            self._mark_file = None

    def _number(self) -> int:
        return int(self._run("SELECT number FROM seal").fetchone()[0])

    def _read_mark(self) -> int | None:
        assert self._mark_file is not None
        text = os.pread(self._mark_file, 256, 0)
        digits = text.partition(b" ")[0]
        is_right = digits.isdigit() and text == _mark_text(int(digits))
        return int(digits) if is_right else None

    def _total(self) -> bytes:
        total = bytes(_SUM_BYTES)
        for table, columns in self._tables.items():
            for row in self._run(f"SELECT {_row(columns)} FROM {table}"):
                total = _folded(total, 1, table, *row)
        return total

    def _damaged(self, what: str) -> DamagedError:
        return DamagedError(f"{self._path}: damaged: {what}. {ADVICE}")


def _row(columns: Sequence[str], prefix: str = "") -> str:
    """Return the columns as bytes, because damaged text cannot be decoded."""
    return ", ".join(f"CAST({prefix}{column} AS BLOB)" for column in columns)


def _folded(total: bytes, sign: int, *row: object) -> bytes:
    """Add one row to the sum or remove it; the order of rows does not matter."""
    digest = hashlib.sha256(repr(row).encode()).digest()
    number = int.from_bytes(total, "big") + sign * int.from_bytes(digest, "big")
    return (number % (1 << 8 * _SUM_BYTES)).to_bytes(_SUM_BYTES, "big")


def _mark_text(number: int) -> bytes:
    """Return the mark's content, of constant length, so that it overwrites the previous one."""
    digits = b"%020d" % number
    return digits + b" " + hashlib.sha256(digits).hexdigest()[:16].encode() + b"\n"
