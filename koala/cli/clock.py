"""The command line's one look at a clock: durations of waiting, never instants of the grid."""

from __future__ import annotations

import time


def now_s() -> float:
    """Seconds of a clock that never runs back."""
    return time.monotonic()
