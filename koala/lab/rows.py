"""Rows of a table: a sequence of dictionaries, which pandas and polars take as it is."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from koala.common.runtime.atomic_file import atomic_file
from koala.lab.measures import measure_of, setting_name
from koala.lab.sim.statistics import Interval

if TYPE_CHECKING:
    import pandas
    import pyarrow

Row = dict[str, Any]
INTERVAL = "_ci95"
"""End of the name of a column with half-widths of confidence intervals."""
SHOWN_MAX = 20
"""Rows that a notebook or a terminal shows."""


class Rows(Sequence[Row]):
    """Rows with the same columns. A missing value is None or nan."""

    def __init__(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str] = ()) -> None:
        self._rows = [dict(row) for row in rows]
        names = dict.fromkeys(columns)
        for row in self._rows:
            names.update(dict.fromkeys(row))
        self.columns = tuple(names)

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> Rows: ...
    def __getitem__(self, place: int | slice) -> Row | Rows:
        """Return a row, or some rows."""
        if isinstance(place, slice):
            return Rows(self._rows[place], self.columns)
        return self._rows[place]

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and self._rows == other._rows

    __hash__ = None  # type: ignore[assignment]  # rows can change

    def column(self, name: str) -> list[Any]:
        """Return a column. Raises KeyError for an unknown name, with the known ones."""
        if name not in self.columns:
            raise KeyError(f"{name!r}: columns are {', '.join(self.columns)}")
        return [row.get(name) for row in self._rows]

    def where(self, **values: Any) -> Rows:  # noqa: ANN401 - values of any column
        """Return the rows with these values."""
        kept = [row for row in self if all(row.get(n) == value for n, value in values.items())]
        return Rows(kept, self.columns)

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns by name, of which pandas, polars and pyarrow make tables, such as
        `polars.DataFrame(rows.to_dict())`."""
        return {name: self.column(name) for name in self.columns}

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas data frame. Raises ModuleNotFoundError without pandas."""
        import pandas  # noqa: PLC0415 - optional

        return pandas.DataFrame(self.to_dict(), columns=list(self.columns))

    def to_arrow(self) -> pyarrow.Table:
        """Return an Arrow table, of which most data frames are made without a copy. A column with
        values of several kinds becomes text. Raises ModuleNotFoundError without pyarrow."""
        import pyarrow  # noqa: PLC0415 - optional

        arrays = []
        for values in self.to_dict().values():
            try:
                arrays.append(pyarrow.array(values))
            except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
                arrays.append(pyarrow.array([None if one is None else str(one) for one in values]))
        return pyarrow.table(arrays, names=list(self.columns))

    def to_csv(self, path: str | Path) -> None:
        """Write a CSV file, whole or not at all."""
        with atomic_file(Path(path)) as part, part.open("w", encoding="utf-8", newline="") as file:
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow(self.columns)
            lines.writerows([_cell(value) for value in cells] for cells in self.cells())

    def cells(self) -> Iterator[list[Any]]:
        """Yield the values of each row, in the order of the columns."""
        for row in self._rows:
            yield [row.get(name) for name in self.columns]

    def latex(self, *columns: str) -> str:
        """Format these columns, or all, as a table of LaTeX for the package booktabs. A mean and
        its half-width are one cell. Raises KeyError for an unknown column."""
        chosen = columns or tuple(
            name
            for name in self.columns
            if name.removesuffix(INTERVAL) not in self.columns or not name.endswith(INTERVAL)
        )
        cells = [[self._latex_cell(row, name) for name in chosen] for row in self._rows]
        kinds = ["r" if self._is_number(name) else "l" for name in chosen]
        head = [_latex(_heading(name)) for name in chosen]
        return "\n".join(
            [
                f"\\begin{{tabular}}{{{''.join(kinds)}}}",
                "\\toprule",
                " & ".join(head) + r" \\",
                "\\midrule",
                *(" & ".join(row) + r" \\" for row in cells),
                "\\bottomrule",
                "\\end{tabular}",
                "",
            ]
        )

    def _is_number(self, name: str) -> bool:
        values = [one for one in self.column(name) if one is not None]
        return all(isinstance(one, int | float) for one in values)

    @staticmethod
    def _latex_cell(row: Row, name: str) -> str:
        value = row.get(name)
        if name + INTERVAL in row and isinstance(value, int | float):
            found = str(Interval(mean=value, ci95=row[name + INTERVAL], values=0))
            return "$" + found.replace("±", r"\pm") + "$"
        return f"${text(value)}$" if isinstance(value, float) else _latex(text(value))

    def _shown(self) -> tuple[list[list[str]], str]:
        rows = [[text(value) for value in cells] for cells in self[:SHOWN_MAX].cells()]
        more = len(self) - len(rows)
        return rows, f"... and {more} more rows" if more else ""

    def __repr__(self) -> str:
        rows, more = self._shown()
        widths = [
            max(len(name), *(len(row[place]) for row in rows)) if rows else len(name)
            for place, name in enumerate(self.columns)
        ]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in ([*self.columns], *rows)
        ]
        return "\n".join([*lines, more] if more else lines)

    def _repr_html_(self) -> str:
        rows, more = self._shown()
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
        )
        return f"<table><tr>{head}</tr>{body}</table>{escape(more)}"


def text(value: object) -> str:
    """Format a value for a table."""
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return "-" if value is None or value != value else str(value)  # noqa: PLR0124 - nan
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def short(value: object) -> str:
    """Format a value with three digits."""
    if isinstance(value, float):
        return f"{value:.3g}" if isfinite(value) else "-"
    return str(value)


def markdown(
    columns: Iterable[str], rows: Iterable[Iterable[str]], *, are_numbers: bool = False
) -> str:
    """Format a table in Markdown; all its columns but the first may be numbers."""
    names = list(columns)
    rules = ["---", *["--:" if are_numbers else "---"] * (len(names) - 1)]
    return "\n".join(f"| {' | '.join(map(_escaped, row))} |" for row in (names, rules, *rows))


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


_FIELDS = frozenset({"workload", "faults", "grid", "parameters"})
"""Begin the paths of settings; all else is a measure."""
_LATEX = {
    **{one: f"\\{one}" for one in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def _latex(words: str) -> str:
    """Escape what LaTeX would read as commands."""
    return "".join(_LATEX.get(one, one) for one in words)


def _heading(column: str) -> str:
    """Return the words of a column, with its unit."""
    is_setting = column.partition(".")[0] in _FIELDS
    return setting_name(column) if is_setting else str(measure_of(column))


def _cell(value: object) -> object:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return "" if value is None or value != value else value  # noqa: PLR0124 - nan
