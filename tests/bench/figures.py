"""Figures of a benchmark, each with its unit and how it was measured, as JSON and table."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number. `limit` is what must hold (an upper one, or a lower one when `is_least`);
    `reference` is what bounds the number from below or above on this machine, measured beside it.
    """

    name: str
    value: float
    unit: str
    how: str
    limit: float | None = None
    is_least: bool = False
    reference: float | None = None
    reference_name: str = ""

    @property
    def holds(self) -> bool:
        """True when the limit is kept; figures without one always hold."""
        if self.limit is None:
            return True
        return self.value >= self.limit if self.is_least else self.value <= self.limit


Measurement = Callable[[Path, bool], list[Figure]]
"""Measures in a folder of its own; the flag asks for a quick run."""


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which this share of the values lies; the nearest one that was measured."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(values: Sequence[float]) -> float:
    """The middle one."""
    return statistics.median(values)


def machine() -> dict[str, Any]:
    """Describe this machine in a few words."""
    load = os.getloadavg()
    return {
        "processors": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_before": [round(value, 2) for value in load],
    }


def document(figures: Sequence[Figure], *, at: str, is_quick: bool) -> dict[str, Any]:
    """All of a run as JSON has it."""
    return {
        "at": at,
        "is_quick": is_quick,
        "machine": machine(),
        "figures": [{**asdict(figure), "holds": figure.holds} for figure in figures],
    }


def table(figures: Sequence[Figure]) -> str:
    """Format the figures for a page, in Markdown."""
    rows = [_HEAD, ("---",) * len(_HEAD), *map(_row, figures)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def columns(figures: Sequence[Figure]) -> str:
    """Format the figures for a terminal; how each was measured is in the JSON."""
    rows = [row[:-1] for row in (_HEAD, *map(_row, figures))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join(lines) + "\n"


_HEAD = ("figure", "value", "limit", "beside it", "how it was measured")


def _row(figure: Figure) -> tuple[str, ...]:
    """Cells of a figure, under `_HEAD`."""
    limit = ""
    if figure.limit is not None:
        sign = "≥" if figure.is_least else "≤"
        verdict = "" if figure.holds else " **missed**"
        limit = f"{sign} {_number(figure.limit)} {figure.unit}{verdict}"
    beside = ""
    if figure.reference is not None:
        beside = f"{_number(figure.reference)} {figure.unit} {figure.reference_name}"
    value = f"{_number(figure.value)} {figure.unit}"
    return (figure.name, value, limit, beside, figure.how)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
