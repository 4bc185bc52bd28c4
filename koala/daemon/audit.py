"""Who did what: one JSON line for each call that changes something, and for each that was refused.

    {"at": "2026-11-21T15:00:00Z", "who": "ann", "role": "user", "from": "ipv4:10.0.0.7:50412",
     "verb": "Cancel", "object": "j17", "outcome": "done"}

What is done with the state directory itself, without a call (a backup, a restore, a start that
accepts a loss), is in it with the account that did it, the role "account" and no address.

The file is this user's alone and only ever appended to; when it is full it becomes `audit.jsonl.1`,
and the one before is dropped. Lines are handed to the kernel at once, so they survive the daemon
but perhaps not the machine: what was accepted is in the journal, this says who asked. A line that
cannot be written is told in the daemon's log, and the call is answered all the same.
"""

from __future__ import annotations

import getpass
import os
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import structlog

from koala.daemon.clock import wall_s
from koala.daemon.enrolments import USER
from koala.wire.private import check_private

FILE = "audit.jsonl"
BYTES_MAX = 64 * 1024 * 1024
TEXT_MAX = 400
LAST = 1_000
LAST_MAX = 100_000

log = structlog.get_logger()

_APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


def note(state_dir: Path, *, verb: str, subject: str) -> None:
    """A line about what this process's account has done with a state directory, also while a
    daemon runs there. As with calls, one that cannot be written is told in the log."""
    line = _line(who=account(), role="account", peer="", verb=verb, subject=subject, outcome="done")
    try:
        # One that somebody else made, as root may, would keep the daemon from starting.
        is_ours = state_dir.stat().st_uid == os.geteuid()
        opened = os.open(state_dir / FILE, _APPENDING | (os.O_CREAT if is_ours else 0), 0o600)
        try:
            os.write(opened, msgspec.json.encode(line) + b"\n")
        finally:
            os.close(opened)
    except OSError as error:
        log.error("audit.not_written", reason=str(error), **line)  # noqa: TRY400 - told whole


def account() -> str:
    """The name of this process's account, its number where that has none that users may have."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        name = ""
    return name if USER.fullmatch(name) else f"u{os.geteuid()}"


class Audit:
    """The audit log of a state directory."""

    def __init__(self, state_dir: Path, *, bytes_max: int = BYTES_MAX) -> None:
        """Raises ConfigError when others may read or change it."""
        self._path = state_dir / FILE
        self._bytes_max = bytes_max
        self._file = self._open()

    def write(
        self, *, who: str, role: str, peer: str, verb: str, subject: str, outcome: str
    ) -> None:
        """Add a line."""
        line = _line(who=who, role=role, peer=peer, verb=verb, subject=subject, outcome=outcome)
        try:
            os.write(self._file, msgspec.json.encode(line) + b"\n")
            if os.fstat(self._file).st_size > self._bytes_max:
                self._turn_over()
        except OSError as error:
            log.error("audit.not_written", reason=str(error), **line)  # noqa: TRY400 - told whole

    def last(self, count: int) -> list[dict[str, Any]]:
        """The newest lines, oldest first. Blocks."""
        kept: deque[bytes] = deque(maxlen=min(count or LAST, LAST_MAX))
        for path in (self._older, self._path):
            if path.exists():
                with path.open("rb") as file:
                    kept.extend(file)
        return [msgspec.json.decode(line) for line in kept if line.endswith(b"}\n")]

    def close(self) -> None:
        """No line is written any more."""
        os.close(self._file)

    @property
    def _older(self) -> Path:
        return self._path.with_name(f"{FILE}.1")

    def _open(self) -> int:
        opened = os.open(self._path, _APPENDING | os.O_CREAT, 0o600)
        check_private(self._path)
        return opened

    def _turn_over(self) -> None:
        os.close(self._file)
        self._path.replace(self._older)
        self._file = self._open()


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
