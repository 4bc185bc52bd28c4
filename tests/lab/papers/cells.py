"""Lengths of the cells in a report's tables."""

from __future__ import annotations

import re

CELL_MAX = 200
"""Characters that a reader sees in a cell; addresses of links do not count."""


def longest_cell(report: str) -> int:
    """Return the length of the longest cell of all tables."""
    rows = [line for line in report.splitlines() if line.startswith("| ")]
    shown = (re.sub(r"\]\([^)]*\)", "]", cell) for row in rows for cell in row.split(" | "))
    return max(map(len, shown))
