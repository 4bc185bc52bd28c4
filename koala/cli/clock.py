"""Monotonic clock of the command line, for waiting times; never for instants of the grid."""

from __future__ import annotations

import time


def now_s() -> float:
    """Read the monotonic clock, in seconds."""
    return time.monotonic()
