"""Clocks of this machine, for agents, commands and the web process; the daemon has its own.

Safety rests on durations, each measured on one machine (CLOCK_BOOTTIME, which counts through a
suspend and is never set). The daemon's time, which starters estimate from answered pings, decides
only how even a start is. Instants and durations are in seconds.
"""

from __future__ import annotations

import time


def now() -> float:
    """Return seconds since this machine started, suspends included; monotonic."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def unix_now() -> float:
    """Return wall-clock time, for people and file ages only; it may jump."""
    return time.time()
