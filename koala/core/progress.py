"""What a progress policy is told about a running job, and what it answers (SQ 4.3).

Clocks count seconds since the job began. A component's virtual time runs with its real time while
it gets what was agreed, ahead of it or behind it else.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from koala.core.values import Seconds


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
