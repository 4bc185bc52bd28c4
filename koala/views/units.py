"""Formatting of amounts for people."""

from __future__ import annotations


def size(size_bytes: float) -> str:
    """Format a number of bytes in the unit that leaves one to three digits."""
    amount = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 999.5 or unit == "TB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError(size_bytes)
