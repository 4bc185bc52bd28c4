"""Finished runs as plain values and as JSON lines. They are exact: what is read is what was
written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf, isfinite, isnan, nan
from pathlib import Path
from typing import Any, Protocol

from koala.common.runtime.atomic_file import write_atomically
from koala.errors import ConfigError
from koala.lab.sim.runs import Outcome

INFINITE = {"inf": inf, "-inf": -inf}


class Timed(Protocol):
    """Result of a run, with its processor time."""

    @property
    def cpu_s(self) -> float:
        """Processor time of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """Outcome of a run and the processor time that it took, in its first place."""

    outcome: Outcome
    cpu_s: float
    is_stored: bool = False
    """True if it came from a store or from another machine."""


def as_plain(outcome: Outcome) -> dict[str, Any]:
    """Convert an outcome for JSON: null is not a number, "inf" infinity."""
    return {
        "saturated": outcome.is_saturated,
        **({"stopped": True} if outcome.is_stopped else {}),
        "notes": list(outcome.notes),
        "values": {name: _plain(value) for name, value in outcome.values.items()},
    }


def from_plain(found: Mapping[str, Any]) -> Outcome:
    """Convert it back. Raises KeyError, TypeError or ValueError for anything else."""
    return Outcome(
        values={name: _number(value) for name, value in found["values"].items()},
        is_saturated=bool(found["saturated"]),
        is_stopped=bool(found.get("stopped")),
        notes=tuple(found["notes"]),
    )


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a file of JSON lines, whole or not at all."""
    text = "".join(f"{json.dumps(row, allow_nan=False, ensure_ascii=False)}\n" for row in rows)
    write_atomically(path, text)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Read a file of JSON lines. Raises ConfigError with the line."""
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                try:
                    found = json.loads(line)
                except ValueError as error:
                    raise ConfigError(f"{path}:{number}: invalid JSON: {error}") from error
                if not isinstance(found, dict):
                    raise ConfigError(f"{path}:{number}: not a record (expected a JSON object)")
                yield found
    except (OSError, UnicodeDecodeError) as error:
        detail = error.strerror if isinstance(error, OSError) else "no text in UTF-8"
        raise ConfigError(f"{path}: cannot be read: {detail}") from error


def _plain(value: float) -> float | str | None:
    if isfinite(value):
        return value
    return None if isnan(value) else "inf" if value > 0 else "-inf"


def _number(value: float | str | None) -> float:
    if value is None:
        return nan
    return INFINITE[value] if isinstance(value, str) else value
