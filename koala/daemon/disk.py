"""Room on the journal's disk: when it runs low, new jobs are refused and the others go on.

A *ballast*, a file of some megabytes beside the journal, is given up when a commit finds no room at
all, so that what runs can be brought to its end; it is made again when there is room. A refusal
says how much is free and how much is needed. Nothing has to be restarted when space comes back.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import structlog

from koala.errors import ExhaustedError

BALLAST = "ballast"
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
    def is_low(self) -> bool:
        """Too little for new jobs."""
        return self.free_bytes < self._low_bytes

    def require_room(self) -> None:
        """Raise ExhaustedError when there is too little for new jobs."""
        free_bytes = self.free_bytes
        if free_bytes < self._low_bytes:
            raise ExhaustedError(
                f"the daemon's disk is nearly full: {free_bytes / MB:.1f} MB are free at"
                f" {self._state_dir}, {self._low_bytes / MB:.1f} MB are needed for new jobs. Jobs"
                f" that were accepted go on; try again when there is room"
            )

    def give_up_ballast(self) -> bool:
        """Whether that made room; for a commit that found none."""
        try:
            self._ballast.unlink()
        except OSError:
            return False
        log.error("disk.ballast_given_up", state_dir=str(self._state_dir))
        return True

    async def run(self) -> None:
        """Look after it until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_S)

    def look(self) -> None:
        """Say when it has become low, or not any more; keep the ballast when there is room."""
        free_bytes = self.free_bytes
        is_low = free_bytes < self._low_bytes
        if is_low != self._was_low:
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
