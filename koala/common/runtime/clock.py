"""Clocks of this machine. No other module reads them, except those of the starter, which imports
nothing from here; event loops have a clock of their own for timeouts.

Safety rests on durations, each measured on one machine (CLOCK_BOOTTIME, which counts through a
suspend and is never set). The daemon's time, which starters estimate from answered pings, decides
only how even a start is. Instants and durations are in seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def now() -> float:
    """Return seconds since this machine started, suspends included; monotonic."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Return what tells this boot of the machine from any other."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def unix_now() -> float:
    """Return wall-clock time, for people, ages of files, begins of bookings, and the expiry of
    certificates and tokens only; it may jump."""
    return time.time()


class Clock:
    """Tell the daemon's time: epoch seconds that never run backwards.

    The wall clock is read once, at the start. From then on the time since boot counts. A clock that
    goes on has the `base` of an earlier one on the same boot, and reads no wall clock. In any case
    time begins at `not_before` at the earliest, the last journaled instant. Tests that simulate
    time give functions of their own in place of the machine's two clocks.
    """

    __slots__ = ("_boot", "base")

    def __init__(
        self,
        not_before: float = 0.0,
        *,
        base: float | None = None,
        wall: Callable[[], float] = unix_now,
        boot: Callable[[], float] = now,
    ) -> None:
        began_at = boot()
        self.base = max(wall() - began_at if base is None else base, not_before - began_at)
        """The daemon's time when the machine started."""
        self._boot = boot

    def now(self) -> float:
        """Return the daemon's time."""
        return self.base + self._boot()
