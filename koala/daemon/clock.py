"""The daemon's clock: epoch seconds that never run backwards.

The wall clock is read once, at the start. From then on CLOCK_BOOTTIME counts, which cannot be set
and includes suspends. If the wall clock was set back, the next start begins at the last journaled
instant. This is the only module of the daemon that reads a clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from koala.core.model.values import Instant


def boot_s() -> float:
    """Return the seconds since this machine booted, suspends included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wall_s() -> float:
    """Return the wall clock in epoch seconds; only for the expiry of certificates and tokens."""
    return time.time()


class Clock:
    """Monotonic clock that starts no earlier than `not_before`, the last journaled instant.

    The machine's two clocks are arguments so that tests can simulate time.
    """

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
        """Return the daemon's time."""
        return self._base + self._boot()
