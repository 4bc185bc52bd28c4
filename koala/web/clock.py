"""Clocks of the web process: one for ages of sessions and pauses, one for the pictures of jobs."""

from __future__ import annotations

import time


def now_s() -> float:
    """Read the monotonic clock, in seconds."""
    return time.monotonic()


def wall_at() -> float:
    """Read the wall clock, in seconds of the epoch."""
    return time.time()
