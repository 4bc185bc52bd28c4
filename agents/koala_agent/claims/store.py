"""Durable state of the agent: claims, names of forgotten ones, epoch, leases, port and watermark.

- SQLite in WAL mode with synchronous=FULL: a commit survives a crash of the machine.
- A checksum over the tables (`koala_agent.table_checksum`) detects lost or changed rows.
- One transaction holds all changes of one batch of the claim table.
- File and folder are readable by this user alone, because claims hold secrets.
- A lock file keeps a second agent out of the state directory.
- A transaction that finds the disk full is retried once if `make_room` frees space.
- A failed write is a `DiskError`. The agent then ends before it reports anything that is not
  written, and its supervisor restarts it.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec

from koala.errors import ConfigError, DiskError, JournalError
from koala.protocol.messages import Watermark
from koala.protocol.names import ClaimId, is_claim_id
from koala.runtime.disk_formats import CLAIMS
from koala_agent.claims.events import Forget, StoreClaim
from koala_agent.claims.settings import Leases
from koala_agent.claims.states import Claim
from koala_agent.claims.table import FORGOTTEN_MAX
from koala_agent.table_checksum import TableChecksum

Run: TypeAlias = Callable[..., sqlite3.Cursor]
Fact = TypeVar("Fact")

_TABLES = """
CREATE TABLE IF NOT EXISTS claim (id TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS forgotten (number INTEGER PRIMARY KEY, id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
SEALED = 2
"""First format with a checksum."""
_COLUMNS = {"claim": ("id", "body"), "forgotten": ("number", "id"), "fact": ("name", "value")}


class Store:
    """Open state directory of one agent.

    `commit` may run in a thread beside the writer of `epoch`: a lock keeps their transactions
    apart.
    """

    def __init__(self, folder: Path, *, connection: sqlite3.Connection | None = None) -> None:
        """Open the folder.

        Raises ConfigError when another agent has the folder or it cannot be used, JournalError when
        its content cannot be read, or is not what was written. With a `connection` the folder is
        only a name, and there is no checksum: for agents in simulated time.
        """
        self.folder = folder
        self.make_room: Callable[[], bool] = lambda: (
            False
        )  # called when a transaction finds the disk full
        self._path = folder / "agent.db"
        self._transactions = threading.Lock()
        self._next_watermark: Watermark | None = None  # to be stored
        self._stored_watermark: Watermark | None = None  # in this life
        self._lock: int | None = None
        self._checksum: TableChecksum | None = None
        if connection is not None:
            self._connection = connection
            with self._translated():
                self._prepare()
            return
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _lock(folder / "agent.lock")
        except OSError as error:
            message = f"state directory {folder}: {error.strerror}"
            raise ConfigError(message) from error
        try:
            self._open()
        except JournalError:
            self._unlock()
            raise

    def _open(self) -> None:
        with self._translated():
            # SQLite's other files copy the mode of this one.
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
            self._path.chmod(0o600)
            self._connection = sqlite3.connect(
                self._path, isolation_level=None, check_same_thread=False
            )
        self._checksum = TableChecksum(self._connection, self._path, _COLUMNS)
        try:
            with self._translated():
                self._prepare()
                self._checksum.keep()
        except JournalError:
            self._checksum.close()
            self._connection.close()
            raise

    def _prepare(self) -> None:
        run = self._connection.execute
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        (found,) = run("PRAGMA user_version").fetchone()
        if found and (reason := CLAIMS.refusal(found)):
            raise JournalError(f"{self._path}: {reason}")
        if found == 0:
            self._connection.executescript(_TABLES)
        if self._checksum is not None:
            with self._connection:
                run("BEGIN IMMEDIATE")
                self._checksum.check(is_sealed=found >= SEALED)
        if found != CLAIMS.newest:
            run(f"PRAGMA user_version = {CLAIMS.newest}")

    def close(self) -> None:
        """Close the database and release the folder."""
        if self._checksum is not None:
            self._checksum.close()
        self._connection.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)

    def claims(self) -> list[Claim]:
        """Return all claims as they were last stored, ordered by name. Raises JournalError.

        An earlier release stored batch jobs under names that no daemon accepts as claims; these are
        skipped.
        """
        with self._translated():
            rows = self._connection.execute("SELECT id, body FROM claim ORDER BY id").fetchall()
        try:
            return [
                msgspec.json.decode(body, type=Claim) for name, body in rows if is_claim_id(name)
            ]
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            message = f"{self._path}: a claim cannot be read: {error}"
            raise JournalError(message) from error

    def forgotten(self) -> list[ClaimId]:
        """Return the names of forgotten claims, oldest first."""
        with self._translated():
            rows = self._connection.execute("SELECT id FROM forgotten ORDER BY number").fetchall()
        return [ClaimId(name) for (name,) in rows]

    def commit(self, writes: Iterable[StoreClaim | Forget]) -> None:
        """Write all changes in one transaction; durable when it returns. Raises DiskError."""
        last = {}
        for write in writes:
            last[write.claim.id if isinstance(write, StoreClaim) else write.claim] = write
        noted = self._next_watermark

        def change(run: Run) -> None:
            for name, write in last.items():
                if isinstance(write, StoreClaim):
                    body = msgspec.json.encode(write.claim)
                    run("INSERT OR REPLACE INTO claim (id, body) VALUES (?, ?)", (name, body))
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

        self._transact(change)
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
        """The port at which starters of an earlier life look for this agent; 0 when there were
        none."""
        return self._read("port", "0", int)

    def set_port(self, port: int) -> None:
        """Store the port durably."""
        if port != self.port:
            self._set_fact("port", str(port))

    @property
    def leases(self) -> Leases:
        """The leases that a daemon set last."""
        return self._read("leases", "{}", lambda text: msgspec.convert(json.loads(text), Leases))

    def set_leases(self, leases: Leases) -> None:
        """Store the leases durably."""
        if leases != self.leases:
            text = {
                "hold_lease_s": leases.hold_lease_s,
                "run_lease_s": leases.run_lease_s,
                "kill_s": leases.kill_s,
            }
            self._set_fact("leases", json.dumps(text))

    @property
    def mark(self) -> Watermark | None:
        """The last stored watermark. Raises JournalError."""
        return self._read("mark", "", _mark_of)

    def note_watermark(self, mark: Watermark) -> None:
        """Keep the watermark for the next `commit`: the effects of an order are stored together
        with it."""
        self._next_watermark = mark

    @property
    def has_new_watermark(self) -> bool:
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
        with self._transactions, self._translated():
            row = self._connection.execute(
                "SELECT value FROM fact WHERE name = ?", (name,)
            ).fetchone()
        return default if row is None else str(row[0])

    def _set_fact(self, name: str, value: str) -> None:
        statement = "INSERT OR REPLACE INTO fact (name, value) VALUES (?, ?)"
        self._transact(lambda run: run(statement, (name, value)))

    def _transact(self, change: Callable[[Run], object]) -> None:
        """Make a change durable. Raises DiskError; after that nothing more may be done."""
        with self._transactions:
            try:
                try:
                    self._write(change)
                except sqlite3.OperationalError as error:
                    # SQLite rolls the whole transaction back only for a full disk. After any other
                    # error the state is unknown, and a retry could hide a loss.
                    if error.sqlite_errorcode != sqlite3.SQLITE_FULL or not self.make_room():
                        raise
                    self._write(change)
            except (sqlite3.Error, OSError) as error:
                raise DiskError(f"{self._path}: cannot be written: {error}") from error

    def _write(self, change: Callable[[Run], object]) -> None:
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            change(self._connection.execute)
        if self._checksum is not None:
            self._checksum.mark()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            message = f"{self._path}: {error}"
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                raise DiskError(message) from error
            raise JournalError(message) from error


def _mark_of(text: str) -> Watermark | None:
    if not text:
        return None
    epoch, seq, chain, seal = json.loads(text)
    return Watermark(
        epoch=int(epoch), seq=int(seq), chain=bytes.fromhex(chain), seal=bytes.fromhex(seal)
    )


def _lock(path: Path) -> int:
    """Hold the lock file, with our pid in it, until the descriptor is closed."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 32).decode("ascii", "replace").strip() or "unknown"
        os.close(descriptor)
        message = f"{path.parent}: another agent has this state directory (pid {holder})"
        raise ConfigError(message) from None
    os.truncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor
