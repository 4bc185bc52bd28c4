"""Data types of runs: settings, levels of load, efforts, outcomes and quantities.

What makes a run imports these and nothing of claims and figures. So a stored run stays valid when
the text of a report changes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

Setting = Hashable
"""One point of a paper's experiment: a frozen dataclass of that paper's module whose `str` is what
tables call it. Neither seed nor length of the run are in it, see `Run` and `Effort`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A load at which claims are tested. A paper's levels ascend. Those near saturation are the
    loads of its charts; a claim must hold there to hold at all."""

    name: str
    is_near: bool = False

    def __str__(self) -> str:
        return self.name


ANY = Level(name="any load", is_near=True)
"""Level of claims to which no load matters."""


def changes(reading: Any, number: str = "") -> str:  # noqa: ANN401 - a dataclass
    """Name the fields of a reading that differ from their defaults; `number` is the format of those
    that are no words."""
    found = [
        f"{one.name} {value if isinstance(value, str) else format(value, number)}"
        for one in fields(reading)
        if (value := getattr(reading, one.name)) != one.default
    ]
    return ", ".join(found) or "as read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """Length and number of runs, and the levels at which claims are tested."""

    name: str
    replications: int
    length: float
    """Length of one run, in the unit of the paper: jobs or simulated seconds."""
    levels: tuple[Level, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run. Equal seeds mean the same job stream in every setting (common random numbers)."""

    setting: Setting
    seed: int
    effort: Effort


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Measurements of a run by the name of the metric; nan where nothing of the kind happened."""

    values: Mapping[str, float]
    is_saturated: bool = False
    is_stopped: bool = False
    """The run was stopped, since none of the jobs that waited would have started."""
    notes: tuple[str, ...] = ()
    """Remarks beside the numbers: what was left out, why jobs had not ended."""


def most_are_saturated(outcomes: Sequence[Outcome]) -> bool:
    """True if more than half of the replications are saturated."""
    return 2 * sum(outcome.is_saturated for outcome in outcomes) > len(outcomes)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A metric at a setting: the unit that figures draw and claims compare."""

    setting: Setting
    metric: str
    name: str = ""
    """Name in tables; the setting and the metric without one."""

    def __str__(self) -> str:
        return self.name or f"{self.metric} of {self.setting}"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The setting of values that need no simulation."""

    def __str__(self) -> str:
        return "arithmetic"


ARITHMETIC = Arithmetic()
