"""Watch the free space on the disk of a state directory: without it, new work is refused.

A *ballast*, a file of some megabytes in that directory, is deleted when a commit finds no space at
all. So running work goes on to its end. The ballast is made again when there is space. A refusal
says how much is free and how much is needed. No restart is needed when space comes back.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from koala.common.runtime.structured_log import get_logger

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a full disk, or of an exceeded disk quota."""
BALLAST = "ballast"
START_BYTES = 1_000_000  # indexes and first pages of databases, and a few small files
POLL_S = 1.0
MB = 1_000_000
log = get_logger()


class DiskSpace:
    """Space on the disk of a state directory; 0 disables `low_bytes` or `ballast_bytes`."""

    def __init__(self, state_dir: Path, *, low_bytes: int, ballast_bytes: int) -> None:
        self._state_dir = state_dir
        self._low_bytes = low_bytes
        self._ballast_bytes = ballast_bytes
        self._ballast = state_dir / BALLAST
        self._was_low = False

    @property
    def free_bytes(self) -> int:
        """Free space that this account may use."""
        status = os.statvfs(self._state_dir)
        return status.f_bavail * status.f_frsize

    @property
    def room_bytes(self) -> int:
        """Space for users' files: free space without the reserve for our own records."""
        return max(0, self.free_bytes - self._low_bytes)

    @property
    def is_low(self) -> bool:
        """True when there is too little space for new jobs."""
        return self.free_bytes < self._low_bytes

    @property
    def shortage(self) -> str:
        """Describe free and needed space if there is too little for new work; else empty."""
        free_bytes = self.free_bytes
        if free_bytes >= self._low_bytes:
            return ""
        return (
            f"{free_bytes / MB:.1f} MB are free at {self._state_dir},"
            f" {self._low_bytes / MB:.1f} MB are needed"
        )

    def give_up_ballast(self) -> bool:
        """Delete the ballast, for a commit that found no space; True if there was one."""
        try:
            self._ballast.unlink()
        except OSError:
            return False
        log.error("disk.ballast_given_up", state_dir=str(self._state_dir))
        return True

    def make_room_to_start(self) -> None:
        """Delete the ballast if there is too little space to open the directory's databases."""
        with suppress(FileNotFoundError):  # it is the first start
            if self.free_bytes < START_BYTES:
                self.give_up_ballast()

    def write_with_ballast(self, write: Callable[[], None]) -> None:
        """Write something small that must be written, in place of the ballast if need be.

        Raises OSError.
        """
        try:
            write()
        except OSError as error:
            if error.errno != errno.ENOSPC or not self.give_up_ballast():
                raise
            write()

    async def run(self, *, changed: Callable[[], None] = lambda: None) -> None:
        """Poll the free space until cancelled; call `changed` when it becomes low or recovers."""
        while True:
            if self.poll():
                changed()
            await asyncio.sleep(POLL_S)

    def poll(self) -> bool:
        """Log a change between low and recovered, and return True for one; restore the ballast."""
        free_bytes = self.free_bytes
        is_low = free_bytes < self._low_bytes
        has_changed = is_low != self._was_low
        if has_changed:
            emit = log.error if is_low else log.info
            emit(
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
            log.warning("disk.ballast_not_made", reason=str(error))
            with suppress(OSError):
                part.unlink()
