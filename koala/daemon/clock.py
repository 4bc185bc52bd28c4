"""The daemon's clock: seconds that look like the epoch's and never run back.

The wall clock is read once, at the start; from there on CLOCK_BOOTTIME counts, which nobody sets
and which goes on through a suspend. A start after the wall clock was set back begins at the last
journaled instant. This is the one module of the daemon that reads a clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from koala.core.model.values import Instant


def boot_s() -> float:
    """Seconds since this machine started, suspends included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wall_s() -> float:
    """The wall clock, epoch seconds: what certificates and tokens expire by, and nothing else."""
    return time.time()


class Clock:
    """`now()` is not before `not_before`, the last instant that an earlier life journaled. The
    machine's two clocks are arguments for those that have none: machines in simulated time."""

    __slots__ = ("_base", "_boot")

    def __init__(
        self,
        not_before: Instant = 0.0,
        *,
        wall: Callable[[], Instant] = time.time,
        boot: Callable[[], Instant] = boot_s,
    ) -> None:
        self._base = max(wall(), not_before) - boot()
        self._boot = boot

    def now(self) -> Instant:
        """The daemon's time."""
        return self._base + self._boot()
