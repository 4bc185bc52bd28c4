"""Durable state of the agent: claims, names of forgotten ones, epoch, leases, port and watermark.

- An SQLite database with a checksum (`koala_agent.sealed_database`).
- One transaction holds all changes of one batch of the claim table.
- File and folder are readable by this user alone, because claims hold secrets.
- A lock file keeps a second agent out of the state directory.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from koala.common.protocol.messages import Watermark
from koala.common.protocol.names import ClaimId
from koala.common.runtime.disk_formats import CLAIMS
from koala.common.runtime.sqlite_store import Database, Schema, lock_folder
from koala.errors import ConfigError, JournalError
from koala_agent.claims.events import Forget, StoreClaim
from koala_agent.claims.settings import LeaseTimes
from koala_agent.claims.states import Claim
from koala_agent.claims.table import FORGOTTEN_MAX
from koala_agent.sealed_database import ADVICE, SealedDatabase

Fact = TypeVar("Fact")

LOCK_FILE = "agent.lock"
"""File that the agent of a state directory has open and locked; it has the process id."""
_TABLES = """
CREATE TABLE claim (id TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE forgotten (number INTEGER PRIMARY KEY, id TEXT NOT NULL);
CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
_SAVE = (
    "INSERT INTO claim (id, body) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body"
)
_SCHEMA = Schema(format=CLAIMS, tables=_TABLES, advice=ADVICE)
_COLUMNS = {"claim": ("id", "body"), "forgotten": ("number", "id"), "fact": ("name", "value")}


class Store:
    """Open state directory of one agent; `commit` may run in a thread beside the other writers."""

    def __init__(
        self,
        folder: Path,
        *,
        make_room: Callable[[], bool] = lambda: False,
        connection: sqlite3.Connection | None = None,
    ) -> None:
        """Open the folder; `make_room` is called when a transaction finds the disk full.

        Raises ConfigError when another agent has the folder or it cannot be used, JournalError when
        its content cannot be read, or is not what was written. With a `connection` the folder is
        only a name, and there is no checksum: for agents in simulated time.
        """
        self.folder = folder
        self._path = folder / "agent.db"
        self._next_watermark: Watermark | None = None  # to be stored
        self._stored_watermark: Watermark | None = None  # in this run
        self._lock: int | None = None
        self._database: Database
        if connection is not None:
            self._database = Database(self._path, _SCHEMA, connection=connection)
            return
        self._lock = lock_folder(folder / LOCK_FILE, "agent", ConfigError)
        try:
            self._database = SealedDatabase(self._path, _SCHEMA, _COLUMNS, make_room=make_room)
        except BaseException:
            os.close(self._lock)
            raise

    def close(self) -> None:
        """Close the database and release the folder."""
        self._database.close()
        if self._lock is not None:
            os.close(self._lock)

    def claims(self) -> list[Claim]:
        """Return all claims as they were last stored, ordered by name. Raises JournalError."""
        rows = self._database.read("SELECT body FROM claim ORDER BY id")
        try:
            return [msgspec.json.decode(body, type=Claim) for (body,) in rows]
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            message = f"{self._path}: a claim cannot be read: {error}"
            raise JournalError(message) from error

    def forgotten(self) -> list[ClaimId]:
        """Return the names of forgotten claims, oldest first."""
        rows = self._database.read("SELECT id FROM forgotten ORDER BY number")
        return [ClaimId(name) for (name,) in rows]

    def commit(self, writes: Iterable[StoreClaim | Forget]) -> None:
        """Write all changes in one transaction; durable when it returns. Raises DiskError."""
        last = {}
        for write in writes:
            last[write.claim.id if isinstance(write, StoreClaim) else write.claim] = write
        noted = self._next_watermark

        def change(connection: sqlite3.Connection) -> None:
            run = connection.execute
            for name, write in last.items():
                if isinstance(write, StoreClaim):
                    body = msgspec.json.encode(write.claim)
                    run(_SAVE, (name, body))
                else:
                    run("DELETE FROM claim WHERE id = ?", (name,))
                    run("INSERT INTO forgotten (id) VALUES (?)", (name,))
                    run(
                        "DELETE FROM forgotten WHERE number <= last_insert_rowid() - ?",
                        (FORGOTTEN_MAX,),
                    )
            if noted is not None and noted is not self._stored_watermark:
                text = json.dumps([noted.epoch, noted.seq, noted.chain.hex(), noted.seal.hex()])
                run("INSERT OR REPLACE INTO fact (name, value) VALUES ('mark', ?)", (text,))

        self._database.write(change)
        self._stored_watermark = noted

    @property
    def epoch(self) -> int:
        """The highest epoch of any daemon that was obeyed."""
        return self._read("epoch", "0", int)

    def set_epoch(self, epoch: int) -> None:
        """Store the epoch durably; a lower one than stored changes nothing."""
        if epoch > self.epoch:
            self._set_fact("epoch", str(epoch))

    @property
    def port(self) -> int:
        """Port at which starters from before the restart look for this agent; 0 for none."""
        return self._read("port", "0", int)

    def set_port(self, port: int) -> None:
        """Store the port durably."""
        if port != self.port:
            self._set_fact("port", str(port))

    @property
    def leases(self) -> LeaseTimes:
        """The leases that a daemon set last."""
        return self._read(
            "leases", "{}", lambda text: msgspec.convert(json.loads(text), LeaseTimes)
        )

    def set_leases(self, leases: LeaseTimes) -> None:
        """Store the leases durably."""
        if leases != self.leases:
            text = {
                "hold_lease_s": leases.hold_lease_s,
                "run_lease_s": leases.run_lease_s,
                "kill_s": leases.kill_s,
            }
            self._set_fact("leases", json.dumps(text))

    @property
    def watermark(self) -> Watermark | None:
        """The last stored watermark. Raises JournalError."""
        return self._read("mark", "", _watermark_of)

    def stage_watermark(self, mark: Watermark) -> None:
        """Keep the watermark for the next `commit`: the effects of an order are stored together
        with it."""
        self._next_watermark = mark

    @property
    def has_staged_watermark(self) -> bool:
        """True while a newer watermark than the stored one waits for a `commit`."""
        return self._next_watermark is not self._stored_watermark

    def _read(self, name: str, default: str, form: Callable[[str], Fact]) -> Fact:
        """Read a fact in its form. Raises JournalError when it is malformed."""
        text = self._fact(name, default)
        try:
            return form(text)
        except (ValueError, TypeError, RecursionError) as error:
            message = f"{self._path}: the {name} {text[:80]!r} cannot be read"
            raise JournalError(message) from error

    def _fact(self, name: str, default: str) -> str:
        rows = self._database.read("SELECT value FROM fact WHERE name = ?", (name,))
        return str(rows[0][0]) if rows else default

    def _set_fact(self, name: str, value: str) -> None:
        statement = "INSERT OR REPLACE INTO fact (name, value) VALUES (?, ?)"
        self._database.write(lambda connection: connection.execute(statement, (name, value)))


def _watermark_of(text: str) -> Watermark | None:
    if not text:
        return None
    epoch, seq, chain, seal = json.loads(text)
    return Watermark(
        epoch=int(epoch), seq=int(seq), chain=bytes.fromhex(chain), seal=bytes.fromhex(seal)
    )
