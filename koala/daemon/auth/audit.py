"""Audit log: one JSON line for each call that changes something, and for each that was refused.

    {"at": "2026-11-21T15:00:00Z", "who": "ann", "role": "user", "from": "ipv4:10.0.0.7:50412",
     "verb": "Cancel", "object": "j17", "outcome": "done"}

- Operations on the state directory itself, without a call (a backup, a restore, a start that
  accepts a loss), are logged with the account that ran them, the role "account" and no address.
- The file is private to this user. A full file becomes `audit.jsonl.1`, and the previous one is
  dropped.
- Refused calls of unauthenticated callers go to a smaller file, `audit.unauthenticated.jsonl`, so
  they can displace only each other. They are rate-limited; the next line states how many were
  skipped.
- Lines are written to the kernel at once: they survive the daemon, but perhaps not the machine.
  Accepted changes are in the journal; this log names the caller.
- A line that cannot be written is reported in the daemon's log, and the call is answered anyway.
"""

from __future__ import annotations

import errno
import getpass
import heapq
import os
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path

import msgspec

from koala.common.runtime.clock import now, unix_now
from koala.common.runtime.structured_log import get_logger
from koala.common.runtime.token_bucket import TokenBucket
from koala.daemon.auth.credential_store import USER
from koala.views.records.access import AuditLine

FILE = "audit.jsonl"
BYTES_MAX = 64 * 1024 * 1024
UNAUTHENTICATED_FILE = "audit.unauthenticated.jsonl"
STRANGERS_BYTES_MAX = 8 * 1024 * 1024
STRANGERS_PER_S = 10
TEXT_MAX = 400
LAST = 1_000
LAST_MAX = 100_000

log = get_logger()


def record_local_operation(state_dir: Path, *, verb: str, subject: str) -> None:
    """Add a line about an operation of this process's account on a state directory.

    A daemon may run there. A line that cannot be written is reported in the log.
    """
    line = _line(who=account(), role="account", peer="", verb=verb, subject=subject, outcome="done")
    # A file made by another account, such as root, would keep the daemon from starting.
    is_ours = state_dir.stat().st_uid == os.geteuid()
    file = _AuditFile(state_dir / FILE, BYTES_MAX, may_create=is_ours)
    file.add(line)
    file.close()


def account() -> str:
    """Name of this process's account; `u<uid>` where it has no valid user name."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        name = ""
    return name if USER.fullmatch(name) else f"u{os.geteuid()}"


class Audit:
    """Audit log of a state directory."""

    def __init__(self, state_dir: Path, *, bytes_max: int = BYTES_MAX) -> None:
        self._known = _AuditFile(state_dir / FILE, bytes_max)
        unauthenticated_max = min(bytes_max, STRANGERS_BYTES_MAX)
        self._unauthenticated = _AuditFile(state_dir / UNAUTHENTICATED_FILE, unauthenticated_max)
        self._bucket = TokenBucket(STRANGERS_PER_S, burst=STRANGERS_PER_S, now=now())
        self._skipped = 0

    def write(
        self,
        *,
        who: str,
        role: str,
        peer: str,
        verb: str,
        subject: str,
        outcome: str,
        is_unauthenticated: bool = False,
    ) -> bool:
        """Add a line; return False when a call of an unauthenticated caller was only counted."""
        file = self._unauthenticated if is_unauthenticated else self._known
        if is_unauthenticated:
            if self._bucket.wait_s(now()) > 0:
                self._skipped += 1
                return False
            self._bucket.consume(1)
            if self._skipped:
                outcome = f"{outcome[: TEXT_MAX // 2]} (and {self._skipped} more calls before)"
                self._skipped = 0
        line = _line(who=who, role=role, peer=peer, verb=verb, subject=subject, outcome=outcome)
        file.add(line)
        return True

    def last(self, count: int) -> list[AuditLine]:
        """Read the newest lines of both files, oldest first. Blocks."""
        most = min(count or LAST, LAST_MAX)
        both = (_last(self._known.path, most), _last(self._unauthenticated.path, most))
        return list(heapq.merge(*both, key=attrgetter("time")))[-most:]

    def close(self) -> None:
        """Close the files; a later line opens them again."""
        self._known.close()
        self._unauthenticated.close()


class _AuditFile:
    """Appends lines to a file, and renames one that is full.

    The file stays open while it is the one at the path and nobody else has written, so an operator
    or logrotate may rename it at any time.
    """

    def __init__(self, path: Path, bytes_max: int, *, may_create: bool = True) -> None:
        self.path = path
        self._bytes_max = bytes_max
        self._flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        if may_create:
            self._flags |= os.O_CREAT
        self._file: int | None = None
        self._seen: tuple[int, int, int] | None = None  # device, inode and size after the last line
        self._is_torn = False

    def add(self, line: dict[str, str]) -> None:
        """Append a line; report one that cannot be written."""
        try:
            file = self._current()
            text = (b"\n" if self._is_torn else b"") + msgspec.json.encode(line) + b"\n"
            if os.write(file, text) < len(text):
                raise OSError(errno.ENOSPC, "written in part: no space left")
        except OSError as error:
            self.close()
            log.error("audit.not_written", reason=str(error), **line)  # noqa: TRY400 - no traceback needed
            return
        assert self._seen is not None
        device, inode, size = self._seen
        self._seen, self._is_torn = (device, inode, size + len(text)), False
        if size + len(text) > self._bytes_max:
            self.close()
            with suppress(OSError):  # the next line tries again
                self.path.replace(_older(self.path))

    def close(self) -> None:
        """Close the file; the next line opens it."""
        if self._file is not None:
            os.close(self._file)
        self._file = self._seen = None

    def _current(self) -> int:
        """Return the descriptor of the file at the path. Raises OSError."""
        if self._file is not None and self._seen == _identity(self.path):
            return self._file
        self.close()
        file = self._file = os.open(self.path, self._flags, 0o600)
        status = os.fstat(file)
        self._seen = (status.st_dev, status.st_ino, status.st_size)
        self._is_torn = status.st_size > 0 and os.pread(file, 1, status.st_size - 1) != b"\n"
        return file


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino, status.st_size


def _last(path: Path, count: int) -> list[AuditLine]:
    """Read the newest lines of a file and of the one that it replaced, oldest first."""
    kept: deque[AuditLine] = deque(maxlen=count)
    for part in (_older(path), path):
        with suppress(FileNotFoundError), part.open("rb") as file:
            for line in deque(file, maxlen=count):
                # A line may be torn, when the disk was full.
                with suppress(msgspec.DecodeError, RecursionError):
                    kept.append(msgspec.json.decode(line, type=AuditLine))
    return list(kept)


def _older(path: Path) -> Path:
    return path.with_name(f"{path.name}.1")


def _line(
    *, who: str, role: str, peer: str, verb: str, subject: str, outcome: str
) -> dict[str, str]:
    return {
        "at": datetime.fromtimestamp(unix_now(), UTC).isoformat(timespec="milliseconds"),
        "who": who[:TEXT_MAX],
        "role": role,
        "from": peer,
        "verb": verb,
        "object": subject[:TEXT_MAX],
        "outcome": outcome[:TEXT_MAX],
    }
