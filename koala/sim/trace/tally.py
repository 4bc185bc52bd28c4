"""Tally of a replay: measures each job as it ends, in bounded memory."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SLOWDOWN_BOUND_S = 10
"""Jobs shorter than this count as if they had run so long (Feitelson et al., JSSPP 1997)."""
PERCENTILES = (50, 90, 95, 99)

_EXACT = 4_096
_DIGITS = 12
"""Binary digits that are kept of a larger value: 0.05 %."""

Ended = tuple[tuple[int, int, int, int, int], int, int]
"""A job as it arrived, its start and its end."""


@dataclass(slots=True)
class Distribution:
    """Distribution of whole numbers of at least 0. The mean and the largest are exact. Of each
    value only the first twelve binary digits are kept, so percentiles are exact up to 4,096 and at
    most 0.05 % too low above."""

    count: int = 0
    total: float = 0
    largest: int = 0
    values: Counter[int] = field(default_factory=Counter)

    def add(self, values: list[int]) -> None:
        """Add values of several jobs."""
        if not values:
            return
        self.count += len(values)
        self.total += sum(values)
        self.largest = max(self.largest, *values)
        self.values.update([v if v < _EXACT else _rounded(v) for v in values])

    def percentile(self, percent: float) -> int:
        """Return the smallest value that at least so many percent do not exceed."""
        needed = max(1, math.ceil(self.count * percent / 100))
        for value in sorted(self.values):
            needed -= self.values[value]
            if needed <= 0:
                return value
        return self.largest

    def document(self, *, unit: int = 1) -> dict[str, float | None]:
        """Return the document for JSON; `unit` is the meaning of 1."""
        if not self.count:
            return dict.fromkeys(("mean", *map(_label, PERCENTILES), "max"))
        percentiles = {_label(p): self.percentile(p) / unit for p in PERCENTILES}
        found = {"mean": self.total / self.count / unit, **percentiles, "max": self.largest / unit}
        return {name: round(value, 6) for name, value in found.items()}

    def kept(self) -> dict[str, Any]:
        """Return it as plain values, for a checkpoint."""
        return {
            "count": self.count,
            "total": self.total,
            "largest": self.largest,
            "values": sorted(self.values.items()),
        }

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Distribution:
        """Restore it from `kept`."""
        values = Counter(dict(kept["values"]))
        return cls(kept["count"], kept["total"], kept["largest"], values)


_SLOWDOWN_UNIT = 10_000


@dataclass(slots=True)
class Tally:
    """Measures of the jobs that have ended. `area` is in processor-seconds."""

    waits: Distribution = field(default_factory=Distribution)
    responses: Distribution = field(default_factory=Distribution)
    slowdowns: Distribution = field(default_factory=Distribution)
    area: int = 0
    last_end: int = 0

    def add(self, ended: list[Ended]) -> None:
        """Add jobs that ended."""
        if not ended:
            return
        responses = [end - job[0] for job, _, end in ended]
        self.waits.add([start - job[0] for job, start, _ in ended])
        self.responses.add(responses)
        runs = [end - start for _, start, end in ended]
        self.slowdowns.add([*map(_slowdown, responses, runs)])
        self.area += sum([job[2] * (end - start) for job, start, end in ended])
        self.last_end = ended[-1][2]

    def kept(self) -> dict[str, Any]:
        """Return it as plain values, for a checkpoint."""
        return {
            "waits": self.waits.kept(),
            "responses": self.responses.kept(),
            "slowdowns": self.slowdowns.kept(),
            "area": self.area,
            "last_end": self.last_end,
        }

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Tally:
        """Restore it from `kept`."""
        return cls(
            Distribution.of(kept["waits"]),
            Distribution.of(kept["responses"]),
            Distribution.of(kept["slowdowns"]),
            kept["area"],
            kept["last_end"],
        )

    @property
    def jobs(self) -> int:
        """Number of jobs that have ended."""
        return self.waits.count

    def document(self) -> dict[str, Any]:
        """Return the document for JSON."""
        return {
            "wait": self.waits.document(),
            "response": self.responses.document(),
            "bounded_slowdown": self.slowdowns.document(unit=_SLOWDOWN_UNIT),
        }


def _slowdown(response: int, run: int) -> int:
    bounded = run if run > SLOWDOWN_BOUND_S else SLOWDOWN_BOUND_S  # noqa: FURB136 - quicker
    return response * _SLOWDOWN_UNIT // bounded if response > bounded else _SLOWDOWN_UNIT


def _rounded(value: int) -> int:
    dropped = value.bit_length() - _DIGITS
    return value >> dropped << dropped


def _label(percent: int) -> str:
    return f"p{percent}"
