"""Tally of a replay: measures each job as it ends, in bounded memory."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from koala.lab.workload.arrivals import Arrival

SLOWDOWN_BOUND_S = 10
"""Jobs shorter than this count as if they had run so long (Feitelson et al., JSSPP 1997)."""
PERCENTILES = (50, 90, 95, 99)

_EXACT = 4_096
_DIGITS = 12
"""Binary digits that are kept of a larger value: 0.05 %."""

Ended = tuple[int, int, Arrival, int]
"""End of a job, its number among the arrivals, the job as it arrived, and its start."""


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
        self.values.update(
            [v if v < _EXACT else v >> (n := v.bit_length() - _DIGITS) << n for v in values]
        )

    def percentiles(self, percents: Sequence[float]) -> list[int]:
        """Return for each percentage the smallest value that so many percent do not exceed."""
        values = sorted(self.values)
        counts = [*accumulate([self.values[value] for value in values])]
        needed = [max(1, math.ceil(self.count * percent / 100)) for percent in percents]
        places = [bisect_left(counts, number) for number in needed]
        return [values[place] if place < len(values) else self.largest for place in places]

    def document(self, *, unit: int = 1) -> dict[str, float | None]:
        """Return the document for JSON; `unit` is the meaning of 1."""
        if not self.count:
            return dict.fromkeys(("mean", *map(_label, PERCENTILES), "max"))
        percentiles = [value / unit for value in self.percentiles(PERCENTILES)]
        found = {
            "mean": self.total / self.count / unit,
            **dict(zip(map(_label, PERCENTILES), percentiles, strict=True)),
            "max": self.largest / unit,
        }
        return {name: round(value, 6) for name, value in found.items()}


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
        """Add jobs that ended. No function is called for a job: that would cost as much as what it
        does."""
        if not ended:
            return
        responses = [end - job[0] for end, _, job, _ in ended]
        runs = [end - start for end, _, _, start in ended]
        self.waits.add([start - job[0] for _, _, job, start in ended])
        self.responses.add(responses)
        least, unit = SLOWDOWN_BOUND_S, _SLOWDOWN_UNIT
        self.slowdowns.add(
            [
                response * unit // bounded
                if response > (bounded := run if run > least else least)  # noqa: FURB136 - quicker
                else unit
                for response, run in zip(responses, runs, strict=True)
            ]
        )
        self.area += sum([job[2] * run for (_, _, job, _), run in zip(ended, runs, strict=True)])
        self.last_end = ended[-1][0]

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


def _label(percent: int) -> str:
    return f"p{percent}"
