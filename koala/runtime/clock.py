"""Clocks of this machine. No other module reads them, except those of the starter, which imports
nothing from here; event loops have a clock of their own for timeouts.

Safety rests on durations, each measured on one machine (CLOCK_BOOTTIME, which counts through a
suspend and is never set). The daemon's time, which starters estimate from answered pings, decides
only how even a start is. Instants and durations are in seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable


def now() -> float:
    """Return seconds since this machine started, suspends included; monotonic."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def unix_now() -> float:
    """Return wall-clock time, for people, ages of files, and the expiry of certificates and
    tokens only; it may jump."""
    return time.time()


class Clock:
    """Tell the daemon's time: epoch seconds that never run backwards.

    The wall clock is read once, at the start. From then on the time since boot counts. If the wall
    clock was set back, the next start begins at `not_before`, the last journaled instant. Tests
    that simulate time give functions of their own in place of the machine's two clocks.
    """

    __slots__ = ("_base", "_boot")

    def __init__(
        self,
        not_before: float = 0.0,
        *,
        wall: Callable[[], float] = unix_now,
        boot: Callable[[], float] = now,
    ) -> None:
        self._base = max(wall(), not_before) - boot()
        self._boot = boot

    def now(self) -> float:
        """Return the daemon's time."""
        return self._base + self._boot()
