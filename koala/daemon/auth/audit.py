"""Audit log: one JSON line for each call that changes something, and for each that was refused.

    {"at": "2026-11-21T15:00:00Z", "who": "ann", "role": "user", "from": "ipv4:10.0.0.7:50412",
     "verb": "Cancel", "object": "j17", "outcome": "done"}

- Operations on the state directory itself, without a call (a backup, a restore, a start that
  accepts a loss), are logged with the account that ran them, the role "account" and no address.
- The file is private to this user and append-only. A full file becomes `audit.jsonl.1`, and the
  previous one is dropped.
- Refused calls of unauthenticated callers go to a smaller file (`audit.strangers.jsonl`), so they
  can displace only each other. They are rate-limited; the next line states how many were skipped.
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
from pathlib import Path
from typing import Any

import msgspec
import structlog

from koala.daemon.auth.enrolments import USER
from koala.daemon.clock import wall_s
from koala.identity.private_files import check_private

FILE = "audit.jsonl"
BYTES_MAX = 64 * 1024 * 1024
STRANGERS_FILE = "audit.strangers.jsonl"
STRANGERS_BYTES_MAX = 8 * 1024 * 1024
STRANGERS_PER_S = 10
TEXT_MAX = 400
LAST = 1_000
LAST_MAX = 100_000

log = structlog.get_logger()

_APPENDING = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


def note(state_dir: Path, *, verb: str, subject: str) -> None:
    """Add a line about an operation of this process's account on a state directory.

    A daemon may run there. A line that cannot be written is reported in the log.
    """
    line = _line(who=account(), role="account", peer="", verb=verb, subject=subject, outcome="done")
    try:
        # A file made by another account, such as root, would keep the daemon from starting.
        is_ours = state_dir.stat().st_uid == os.geteuid()
        opened = os.open(state_dir / FILE, _APPENDING | (os.O_CREAT if is_ours else 0), 0o600)
        try:
            _append(opened, line)
        finally:
            os.close(opened)
    except OSError as error:
        log.error("audit.not_written", reason=str(error), **line)  # noqa: TRY400 - no traceback needed


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
        """Open the files. Raises ConfigError when other accounts may read or change them."""
        self._known = _Lines(state_dir / FILE, bytes_max)
        self._unauthenticated = _Lines(
            state_dir / STRANGERS_FILE, min(bytes_max, STRANGERS_BYTES_MAX)
        )
        self._second = 0
        self._calls = 0  # of unauthenticated callers in that second
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
        if is_unauthenticated:
            if not self._is_within_rate():
                self._skipped += 1
                return False
            if self._skipped:
                outcome = f"{outcome[: TEXT_MAX // 2]} (and {self._skipped} more calls before)"
                self._skipped = 0
        line = _line(who=who, role=role, peer=peer, verb=verb, subject=subject, outcome=outcome)
        try:
            (self._unauthenticated if is_unauthenticated else self._known).add(line)
        except OSError as error:
            log.error("audit.not_written", reason=str(error), **line)  # noqa: TRY400 - no traceback needed
        return True

    def last(self, count: int) -> list[dict[str, Any]]:
        """Read the newest lines of both files, oldest first. Blocks."""
        most = min(count or LAST, LAST_MAX)
        both = (self._known.last(most), self._unauthenticated.last(most))
        return list(heapq.merge(*both, key=lambda line: str(line.get("at", ""))))[-most:]

    def close(self) -> None:
        """Close the files."""
        self._known.close()
        self._unauthenticated.close()

    def _is_within_rate(self) -> bool:
        """Count a call of an unauthenticated caller; False beyond the rate limit."""
        second = int(wall_s())
        if second != self._second:
            self._second, self._calls = second, 0
        self._calls += 1
        return self._calls <= STRANGERS_PER_S


class _Lines:
    """Log file of bounded size, and the previous one that it replaced."""

    def __init__(self, path: Path, bytes_max: int) -> None:
        self._path = path
        self._older = path.with_name(f"{path.name}.1")
        self._bytes_max = bytes_max
        self._file = self._open()

    def add(self, line: dict[str, str]) -> None:
        """Append a line; rotate a full file. Raises OSError."""
        _append(self._file, line)
        if os.fstat(self._file).st_size > self._bytes_max:
            self._rotate()

    def last(self, count: int) -> list[dict[str, Any]]:
        """Read the newest lines, oldest first."""
        kept: deque[dict[str, Any]] = deque(maxlen=count)
        for path in (self._older, self._path):
            with suppress(FileNotFoundError), path.open("rb") as file:
                for line in deque(file, maxlen=count):
                    with suppress(
                        msgspec.DecodeError, RecursionError
                    ):  # a torn line, written while the disk was full
                        kept.append(msgspec.json.decode(line, type=dict[str, Any]))
        return list(kept)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _open(self) -> int:
        opened = os.open(self._path, _APPENDING | os.O_CREAT, 0o600)
        try:
            check_private(self._path)
        except BaseException:
            os.close(opened)
            raise
        return opened

    def _rotate(self) -> None:
        """Rename the full file and open a new one.

        The descriptor changes last: if this fails, lines go on to the old file, and the next line
        tries again.
        """
        with suppress(FileNotFoundError):  # an operator has moved it
            self._path.replace(self._older)
        opened = self._open()
        os.close(self._file)
        self._file = opened


def _append(file: int, line: dict[str, str]) -> None:
    """Append a line; after a torn line, start with a line break. Raises OSError."""
    size = os.fstat(file).st_size
    is_torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
    text = (b"\n" if is_torn else b"") + msgspec.json.encode(line) + b"\n"
    if os.write(file, text) < len(text):
        raise OSError(errno.ENOSPC, "written in part: there is no room")


def _line(
    *, who: str, role: str, peer: str, verb: str, subject: str, outcome: str
) -> dict[str, str]:
    return {
        "at": datetime.fromtimestamp(wall_s(), UTC).isoformat(timespec="milliseconds"),
        "who": who[:TEXT_MAX],
        "role": role,
        "from": peer,
        "verb": verb,
        "object": subject[:TEXT_MAX],
        "outcome": outcome[:TEXT_MAX],
    }
