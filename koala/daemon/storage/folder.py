"""A daemon's state directory: its lock, and the files beside the journal's database.

It has one owner at a time, and its files are private to that account. `JournalLocation` is the
interface that a journal needs, so that it may also lie on a simulated disk.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from koala.common.identity.private_files import sync
from koala.errors import DiskError

FILE = "journal.db"
POSITION_FILE = "journal.mark"
LOCK = "lock"
RESTORED = "restored"
"""Marker file: the journal may lack its end, because it was restored from a backup."""


class JournalLocation(Protocol):
    """Location of a journal: its database and the file of its commit position beside it."""

    @property
    def path(self) -> Path:
        """Path of the database."""

    @property
    def position_path(self) -> Path:
        """Path of the commit position."""

    def check(self) -> None:
        """Raise JournalError if another file has replaced the database."""

    def read_position(self) -> bytes:
        """Return the last commit position that was written; empty at first."""

    def write_position(self, text: bytes) -> None:
        """Replace the commit position; the first one is durable on return. Raises OSError."""

    def close(self) -> None:
        """Release the location."""


class StateFolder:
    """A state directory, locked for as long as it is open."""

    def __init__(self, state_dir: Path, lock: int) -> None:
        self.path = state_dir / FILE
        self.position_path = state_dir / POSITION_FILE
        self._lock = lock
        self._inode = self.path.stat().st_ino
        self._position_file = os.open(
            self.position_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        self._is_durable = False

    def check(self) -> None:
        """Check that the database was not replaced: commits into a deleted file are lost."""
        if self.path.stat().st_ino != self._inode:
            raise DiskError(f"{self.path}: another file has taken its place")

    def read_position(self) -> bytes:
        """Return the last commit position that was written."""
        return os.pread(self._position_file, 256, 0)

    def write_position(self, text: bytes) -> None:
        """Overwrite the commit position in place; the first write is synced."""
        os.pwrite(self._position_file, text, 0)
        if not self._is_durable:
            os.fsync(self._position_file)
            sync(self.position_path.parent)
            self._is_durable = True

    def close(self) -> None:
        """Sync the commit position and release the lock."""
        with suppress(OSError):
            os.fsync(self._position_file)
        os.close(self._position_file)
        os.close(self._lock)
