"""CSV file with one line for each job or task of a run."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

S = TypeVar("S")
R = TypeVar("R")
Record = Callable[[Any], None]
"""Receives the outcome of each job."""


@contextmanager
def recorded(path: Path, fields: Sequence[str]) -> Iterator[Record]:
    """Yield a function that writes an outcome as a line, its values in the order of `fields`.
    Tuples are written with blanks between their parts."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(fields)

        def record(outcome: Iterable[object]) -> None:
            writer.writerow(
                " ".join(map(str, value)) if isinstance(value, tuple) else value
                for value in outcome
            )

        yield record


def simulate_to_file(
    simulate: Callable[[S, int, Record | None], R],
    fields: Sequence[str],
    setting: S,
    path: Path,
    first: int,
    seed: int,
) -> R:
    """Simulate; the run with the seed `first` writes a line of CSV for each job."""
    if seed != first:
        return simulate(setting, seed, None)
    with recorded(path, fields) as record:
        return simulate(setting, seed, record)
