"""Room on the disk of a state directory, the daemon's or an agent's: when it runs low, what is new
is refused and the rest goes on.

A *ballast*, a file of some megabytes in that directory, is given up when a commit finds no room at
all, so that what runs can be brought to its end; it is made again when there is room. A refusal
says how much is free and how much is needed. Nothing has to be restarted when space comes back.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import structlog

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a disk, or of an account's share of it, that is full."""
BALLAST = "ballast"
START_BYTES = 1_000_000  # indexes and first pages of databases, and a few small files
LOOK_S = 1.0
MB = 1_000_000
log = structlog.get_logger()


class Disk:
    """The disk of a state directory; `low_bytes` and `ballast_bytes` of 0 ask for nothing."""

    def __init__(self, state_dir: Path, *, low_bytes: int, ballast_bytes: int) -> None:
        self._state_dir = state_dir
        self._low_bytes = low_bytes
        self._ballast_bytes = ballast_bytes
        self._ballast = state_dir / BALLAST
        self._was_low = False

    @property
    def free_bytes(self) -> int:
        """What we may still write."""
        found = os.statvfs(self._state_dir)
        return found.f_bavail * found.f_frsize

    @property
    def room_bytes(self) -> int:
        """What others' files may take: all but what is kept free for our own records."""
        return max(0, self.free_bytes - self._low_bytes)

    @property
    def is_low(self) -> bool:
        """Too little for new jobs."""
        return self.free_bytes < self._low_bytes

    @property
    def shortage(self) -> str:
        """How much is free and how much is needed, when there is too little for what is new; else
        empty."""
        free_bytes = self.free_bytes
        if free_bytes >= self._low_bytes:
            return ""
        return (
            f"{free_bytes / MB:.1f} MB are free at {self._state_dir},"
            f" {self._low_bytes / MB:.1f} MB are needed"
        )

    def give_up_ballast(self) -> bool:
        """Whether that made room; for a commit that found none."""
        try:
            self._ballast.unlink()
        except OSError:
            return False
        log.error("disk.ballast_given_up", state_dir=str(self._state_dir))
        return True

    def make_room_to_start(self) -> None:
        """Give the ballast up when less is free than it takes to open what is in the directory."""
        with suppress(FileNotFoundError):  # it is the first start
            if self.free_bytes < START_BYTES:
                self.give_up_ballast()

    def write_surely(self, write: Callable[[], None]) -> None:
        """Write what is small and must be written, if need be where the ballast was. Raises
        OSError."""
        try:
            write()
        except OSError as error:
            if error.errno != errno.ENOSPC or not self.give_up_ballast():
                raise
            write()

    async def run(self, *, changed: Callable[[], None] = lambda: None) -> None:
        """Look after it until cancelled; `changed` is called when it has become low, or not any
        more."""
        while True:
            if self.look():
                changed()
            await asyncio.sleep(LOOK_S)

    def look(self) -> bool:
        """Say when it has become low, or not any more, and answer whether it has; keep the ballast
        when there is room."""
        free_bytes = self.free_bytes
        is_low = free_bytes < self._low_bytes
        has_changed = is_low != self._was_low
        if has_changed:
            say = log.error if is_low else log.info
            say(
                "disk.low" if is_low else "disk.recovered",
                state_dir=str(self._state_dir),
                free_bytes=free_bytes,
                low_bytes=self._low_bytes,
            )
        self._was_low = is_low
        if (
            self._ballast_bytes
            and free_bytes >= self._low_bytes + self._ballast_bytes
            and not self._ballast.exists()
        ):
            self._make_ballast()
        return has_changed

    def _make_ballast(self) -> None:
        part = self._ballast.with_suffix(".new")
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, self._ballast_bytes)
            finally:
                os.close(descriptor)
            part.rename(self._ballast)
        except OSError as error:
            log.warning("disk.no_ballast", reason=str(error))
            with suppress(OSError):
                part.unlink()
