"""Question and answer of a progress policy, and the progress history of a running job (SQ 4.3).

Clocks count seconds since the job began. A component's virtual time equals real time while it gets
the agreed rate; otherwise it runs ahead or behind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from koala.core.model.values import Seconds


class MemberProgress(NamedTuple):
    """Progress of a running component: its virtual time (VT), its current and admitted weight, and
    `spare`, the weight that its dummy holds and could give it.

    A named tuple, because a simulation makes a million of them.
    """

    component: int
    virtual_s: Seconds
    weight: float
    admitted: float
    spare: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressQuestion:
    """Reports of all components of a job at real time `real_s` (RT), and the windows it allows.

    `asynchrony_s` (SY) bounds the gap between its fastest and its slowest component, `deviation_s`
    (OV) that of their mean from real time. A deviation of `quanta` seconds moves a whole weight.
    """

    real_s: Seconds
    members: tuple[MemberProgress, ...]
    asynchrony_s: Seconds
    deviation_s: Seconds = inf
    quanta: float = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """Weight that a component gets from its dummy or, if negative, gives to it."""

    component: int
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberReport:
    """Work of a component since it passed: processor-seconds counted by its starter, or work
    reported by its program (`is_told`). `can_pace`: its starter can slow it down.
    """

    component: int
    work: float
    is_told: bool = False
    can_pace: bool = True


POINTS_MAX = 128
SHARE_LEAST = 0.02
"""Floor of a share in live runs. A weight grows in proportion to itself, so this floor lets a
component recover within seconds."""
SHARE_CHANGE_LEAST = 0.02
"""A share changes by at least this part of itself. A smaller change would cost a journal record
and a message without a measurable effect."""


@dataclass(slots=True, kw_only=True, eq=False)
class ProgressHistory:
    """Progress history of an attempt: the share of the time for which each slowed component may
    run, and points of (real time, skew), which get sparser as the attempt goes on.
    """

    attempt: int
    policy: str
    every: int = 1  # cycles between two points
    cycle: int = 0  # of the newest point
    points: list[tuple[Seconds, Seconds]] = field(default_factory=list)
    largest_s: Seconds = 0.0
    corrections: int = 0
    shares: dict[int, float] = field(default_factory=dict)

    def add(self, cycle: int, real_s: Seconds, skew_s: Seconds) -> None:
        """Add a point of the skew over time; drop every second point when there are too many."""
        self.largest_s = max(self.largest_s, skew_s)
        if self.is_due(cycle):
            self.cycle = cycle
            self.points.append((real_s, skew_s))
        if len(self.points) > POINTS_MAX:
            del self.points[1::2]
            self.every *= 2

    def is_due(self, cycle: int) -> bool:
        """Return True if this cycle adds a point."""
        return not self.points or cycle >= self.cycle + self.every
