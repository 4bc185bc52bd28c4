"""Durations as a report writes them."""

from __future__ import annotations

from math import isfinite

MINUTE_S = 60.0
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
UNITS = ((2 * DAY_S, DAY_S, "d"), (2 * HOUR_S, HOUR_S, "h"), (2 * MINUTE_S, MINUTE_S, "min"))


def duration(seconds: float) -> str:
    """Write a duration in its usual unit."""
    if not isfinite(seconds):
        return "-"
    unit_s, name = unit_of(seconds)
    return f"{seconds / unit_s:.1f}".removesuffix(".0") + f" {name}"


def unit_of(seconds: float) -> tuple[float, str]:
    """Return the usual unit of a duration: its seconds and its name."""
    return next(
        ((unit_s, name) for limit_s, unit_s, name in UNITS if abs(seconds) >= limit_s), (1.0, "s")
    )
