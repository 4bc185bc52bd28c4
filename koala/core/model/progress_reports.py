"""What a progress policy is told about a running job, and what it answers (SQ 4.3).

Clocks count seconds since the job began. A component's virtual time runs with its real time while
it gets what was agreed, ahead of it or behind it else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from koala.core.model.values import Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberProgress:
    """How far a component that still runs has come (VT), the weight that it has now and the one it
    was admitted with, and how much weight its dummy holds, which is what it can be given.
    """

    component: int
    virtual_s: Seconds
    weight: float
    admitted: float
    spare: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressQuestion:
    """The reports of all components of a job at real time `real_s` (RT), and the windows that the
    job allows: `asynchrony_s` (SY) between its fastest and its slowest component, `deviation_s`
    (OV) of their mean from real time. A deviation of `quanta` seconds moves a whole weight.
    """

    real_s: Seconds
    members: tuple[MemberProgress, ...]
    asynchrony_s: Seconds
    deviation_s: Seconds = inf
    quanta: float = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """The weight that a component gets from its dummy, or, below 0, gives to it."""

    component: int
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberReport:
    """What a component has done since it passed: processor-seconds that its starter counted, or
    work that its program told (`is_told`). `can_pace`: its starter can slow it down.
    """

    component: int
    work: float
    is_told: bool = False
    can_pace: bool = True


POINTS_MAX = 128
SHARE_LEAST = 0.02
"""Live, so that a component comes back within seconds: a weight grows by a part of itself."""
SHARE_CHANGE_LEAST = 0.02
"""A share that would change by less than this part of itself stays: it would cost a record in the
journal and a message, and move nothing that can be measured."""


@dataclass(slots=True, kw_only=True, eq=False)
class ProgressHistory:
    """How a running attempt has advanced: the share of its time that each component may run, where
    that is not all, and (real time, skew) at instants that get rarer the longer it lasts.
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
        """A point of the skew over time; when there are too many, every second one goes."""
        self.largest_s = max(self.largest_s, skew_s)
        if self.is_due(cycle):
            self.cycle = cycle
            self.points.append((real_s, skew_s))
        if len(self.points) > POINTS_MAX:
            del self.points[1::2]
            self.every *= 2

    def is_due(self, cycle: int) -> bool:
        """Whether this cycle makes a point."""
        return not self.points or cycle >= self.cycle + self.every
