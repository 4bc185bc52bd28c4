"""Names and units of what runs measure, for axes and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

_TIMES = frozenset({"wait", "wait_split", "local_wait", "response", "makespan", "run", "estimate"})
_NAMES = {
    "wait_split": "wait of split jobs",
    "waiting": "wait",
    "response": "response time",
    "run": "run time",
    "running": "run time",
    "held_processor": "held processor time",
    "running_processor": "running processor time",
    "processor_gained": "processor time gained",
    "processor_wasted": "processor time wasted",
}
_STATISTICS = {"mean": "mean {}", "median": "median {}", "max": "largest {}", "min": "smallest {}"}
_UNITS = (("s", 1, 300), ("min", 60, 3 * 3_600), ("h", 3_600, 4 * 86_400), ("days", 86_400, 0))
"""Units of times with their seconds, and up to how many seconds each is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A measure in words. Its numbers are divided by `divisor` to be of the unit."""

    name: str
    unit: str = ""
    divisor: float = 1.0

    def __str__(self) -> str:
        return f"{self.name} ({self.unit})" if self.unit else self.name

    def scaled(self, values: Iterable[float | None]) -> Measure:
        """Return it in the unit that suits these values."""
        known = (abs(one) for one in values if one is not None and isfinite(one))
        largest = max(known, default=0.0)
        if self.unit == "s":
            unit, divisor = next(
                (unit, divisor) for unit, divisor, most in _UNITS if largest < most or not most
            )
        elif self.unit == "processor-s" and largest >= 3 * 3_600:
            unit, divisor = "processor-h", 3_600
        else:
            return self
        return Measure(name=self.name, unit=unit, divisor=divisor)


def measure_of(path: str) -> Measure:
    """Return the words and unit of a metric, column or setting, such as `wait.mean`."""
    first, *rest = path.split(".")
    name, unit = first, ""
    if match := re.fullmatch(r"(\w+)_(mean|median|max)", name):
        name, rest = match[1], [match[2], *rest]
    if name in _TIMES and (not rest or _is_statistic(rest[-1])):  # others have units of papers
        unit = "s"
    elif match := re.fullmatch(r"(\w+?)_(s|at|percent|bytes)", name):
        unit = {"percent": "%", "bytes": "bytes"}.get(match[2], "s")
        name = name if match[2] == "at" else match[1]
        if unit == "s" and "processor" in name.split("_"):
            unit = "processor-s"
    words = _NAMES.get(name, name.replace("_", " "))
    for one in rest:
        if one in _STATISTICS:
            words = _STATISTICS[one].format(words)
        elif match := re.fullmatch(r"p(\d+)", one):
            words = f"{match[1]}th percentile of {words}"
        elif one != "all":
            words = f"{words}, {one.replace('_', ' ')}"
    return Measure(name=words, unit=unit)


def _is_statistic(word: str) -> bool:
    return word in _STATISTICS or re.fullmatch(r"p\d+", word) is not None


def setting_name(path: str) -> str:
    """Return the words of a setting, such as `workload.stretch`: its last part, with its unit."""
    return str(measure_of(path.rpartition(".")[2]))
