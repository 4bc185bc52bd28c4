"""Formatting of amounts for people."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str = "") -> str:
    """Format a count with its noun; the plural has an s unless another one is given."""
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def size(size_bytes: float) -> str:
    """Format a number of bytes in the unit that leaves one to three digits."""
    amount = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 999.5 or unit == "TB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError(size_bytes)


def duration(seconds: float) -> str:
    """Format a duration in two units at most."""
    if seconds < 0:
        return f"−{duration(-seconds)}"
    if seconds < 0.0995:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit_s, unit, below, less in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min")):
        if whole >= unit_s:
            rest = whole % unit_s // below
            return (
                f"{whole // unit_s} {unit} {rest} {less}" if rest else f"{whole // unit_s} {unit}"
            )
    return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
