"""A daemon's state directory as its journal needs it: one owner at a time, and files for the owner
alone. What a journal needs is said by `JournalLocation`, so that it may lie on a simulated disk,
too.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from koala.errors import DiskError, JournalError
from koala.identity.private_files import sync_folder

FILE = "journal.db"
MARK = "journal.mark"
LOCK = "lock"
SALVAGED = f"{FILE}.salvaged"
"""A new journal that is whole and takes the damaged one's place before anything else is done."""
DAMAGED = "damaged-"
"""Begins the name of a folder with a journal that was replaced."""
RESTORED = "restored"
"""A file that says that the journal may lack its end: it was restored, or salvaged."""


class JournalLocation(Protocol):
    """Where a journal lies: what it needs of files beside its database."""

    @property
    def path(self) -> Path:
        """The database's."""

    @property
    def mark_path(self) -> Path:
        """The mark's."""

    def check(self) -> None:
        """Raise JournalError when another file has taken the database's place."""

    def read_mark(self) -> bytes:
        """What was written last; nothing at first."""

    def write_mark(self, text: bytes) -> None:
        """Put this in its place; what is put there first is durable. Raises OSError."""

    def close(self) -> None:
        """Give it back."""


class StateFolder:
    """A state directory, locked for as long as it is open."""

    def __init__(self, state_dir: Path, lock: int) -> None:
        self.path = state_dir / FILE
        self.mark_path = state_dir / MARK
        self._lock = lock
        self._inode = self.path.stat().st_ino
        self._mark = os.open(self.mark_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._is_durable = False

    def check(self) -> None:
        """Commits into a deleted file succeed; nobody will ever read them again."""
        if self.path.stat().st_ino != self._inode:
            raise DiskError(f"{self.path}: another file has taken its place")

    def read_mark(self) -> bytes:
        """See Place."""
        return os.pread(self._mark, 256, 0)

    def write_mark(self, text: bytes) -> None:
        """See Place. Later ones take the room of the first."""
        os.pwrite(self._mark, text, 0)
        if not self._is_durable:
            os.fsync(self._mark)
            sync_folder(self.mark_path.parent)
            self._is_durable = True

    def close(self) -> None:
        """See Place."""
        with suppress(OSError):
            os.fsync(self._mark)
        os.close(self._mark)
        os.close(self._lock)


def acquire_lock(state_dir: Path) -> int:
    """The lock's descriptor, held for life; the file has the holder's pid for the next who asks.
    The directory is made when it is missing. Raises JournalError."""
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        state_dir.chmod(0o700)
        lock = os.open(state_dir / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise JournalError(f"{state_dir}: {error.strerror or error}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.read(lock, 32).decode("ascii", "replace").strip() or "unknown"
        os.close(lock)
        message = f"{state_dir}: another daemon runs with this state directory (pid {holder})"
        raise JournalError(message) from error
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock
