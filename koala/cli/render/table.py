"""Aligned columns as text: fast for thousands of rows, stable in pipes, fitted to a terminal.

Only the phase or state column is coloured, and only on request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple


class Screen(NamedTuple):
    """Place where a text is shown: the characters of its lines, and whether it has colours."""

    width: int | None = None
    """None: no limit, as in a file."""
    is_coloured: bool = False

    @property
    def for_drawing(self) -> Screen:
        """The part that a drawing fills."""
        return self._replace(width=min(self.width or DRAWN, 120))


FILE = Screen()
DRAWN = 78
"""Characters of a drawing in a file."""
GAP = "  "
TONES = {
    "Waiting": "90",
    "Delayed": "90",
    "Placing": "33",
    "Claiming": "36",
    "Queued": "36",
    "Starting": "36",
    "Releasing": "35",
    "Running": "34",
    "Stopping": "33",
    "Finished": "32",
    "Failed": "31",
    "Cancelled": "31",
    "usable": "32",
    "probing": "33",
    "drained": "33",
    "unusable": "31",
    "disconnected": "31",
    "revoked": "31",
    "expired": "31",
}
"""Terminal colour codes of phases and states."""


NOTHING = "-"
LAST_MIN = 24
"""Characters of a text in the last column before it is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Column of a table: its title, and the cell of a row.

    Columns with the highest rank are dropped first where the terminal is too narrow; the first
    column never is. An optional column is shown only if one of its cells has something.
    """

    title: str
    of: Callable[[Any], object]
    is_number: bool = False
    rank: int = 0
    is_optional: bool = False

    @property
    def name(self) -> str:
        """Name in lists of columns."""
        return self.title.lower().replace(" ", "_")

    def cell(self, row: Any) -> str:  # noqa: ANN401 - a record, or a row of cells
        """Format the cell: no value is `-`, lists have commas."""
        value = self.of(row)
        if isinstance(value, (list, tuple)):
            value = ", ".join(map(str, value))
        return clean(str(value)) if value not in (None, "") else NOTHING


def column(
    title: str,
    of: str | Callable[[Any], object],
    *,
    rank: int = 0,
    is_optional: bool = False,
) -> Column:
    """Make a column; `of` is an attribute of the rows, or a key of plain ones, or makes the cell.
    Numbers, whose title begins with `>`, are right-aligned."""
    return Column(
        title=title.removeprefix(">"),
        of=partial(_value, of) if isinstance(of, str) else of,
        is_number=title.startswith(">"),
        rank=rank,
        is_optional=is_optional,
    )


def _value(name: str, row: object) -> object:
    return row[name] if isinstance(row, Mapping) else getattr(row, name)


def columns(*titles: str) -> tuple[Column, ...]:
    """Make columns of rows that are lists of cells."""
    return tuple(column(title, itemgetter(index)) for index, title in enumerate(titles))


def table(heads: Sequence[Column], records: Iterable[Any], screen: Screen = FILE) -> str:
    """Format a line for each row below the titles.

    Where they are wider than the screen, drop the least important columns, and say so below.
    """
    width = screen.width
    rows = [[head.cell(record) for head in heads] for record in records]
    shown = [
        index
        for index, head in enumerate(heads)
        if not head.is_optional or any(row[index] != NOTHING for row in rows)
    ]
    widths = [
        max(len(head.title), *(len(row[index]) for row in rows), 0)
        for index, head in enumerate(heads)
    ]
    dropped = []
    while width is not None and len(shown) > 1 and _least(shown, widths, heads) > width:
        least = max(shown[1:], key=lambda index: (heads[index].rank, index))
        shown.remove(least)
        dropped.append(heads[least].title)
    lines = []
    for number, row in enumerate([[head.title for head in heads], *rows]):
        line = GAP.join(
            row[index].rjust(widths[index])
            if heads[index].is_number
            else row[index].ljust(widths[index])
            for index in shown
        ).rstrip()
        line = cut(line, width)
        lines.append(_painted(line, row) if screen.is_coloured and number else line)
    if dropped:
        lines.append(cut(f"(too narrow for {', '.join(dropped)})", width))
    return "\n".join(lines)


def _least(shown: Sequence[int], widths: Sequence[int], heads: Sequence[Column]) -> int:
    """Return the width that these columns need; a text in the last one may be cut."""
    last = shown[-1]
    needed = [widths[index] for index in shown]
    if not heads[last].is_number:
        needed[-1] = min(needed[-1], LAST_MIN)
    return sum(needed) + len(GAP) * (len(shown) - 1)


def cut(line: str, width: int | None) -> str:
    """Cut a line to `width` characters, the last one an ellipsis."""
    return line if width is None or len(line) <= width else f"{line[: width - 1]}…"


def clean(text: str) -> str:
    """Make one line without control characters: names and messages come from untrusted sources."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))


def painted(word: str) -> str:
    """Colour a phase or a site's state."""
    tone = TONES.get(word)
    return f"\x1b[{tone}m{word}\x1b[0m" if tone else word


def _painted(line: str, row: Sequence[str]) -> str:
    """Colour the first word of the row that has a colour, without its padding.

    Of a site's state with two words, the first counts.
    """
    words = (cell.partition(", ")[0] for cell in row)
    word = next((word for word in words if word in TONES), None)
    return line if word is None else line.replace(word, painted(word), 1)
