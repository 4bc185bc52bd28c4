"""Constraints on fields of messages, as metadata of their types.

A constraint returns the value, or raises SpecError naming the field, its value and what is allowed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from koala.errors import SpecError
from koala.protocol.limits import BYTES_MAX, PORT_MAX, RATE_MIN
from koala.protocol.names import CLAIM


class Constraint(Protocol):
    """Check of one field's value."""

    def check(self, name: str, value: Any) -> Any:
        """Return the value of the field `name`, or raise SpecError."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Id of a claim: job/attempt/component/n."""

    def check(self, name: str, value: str) -> str:
        """Check the id; the text names no field."""
        if CLAIM.fullmatch(value) is None:
            raise SpecError(f"{value[:200]!r} is no claim; allowed is job/attempt/component/n")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration:
    """Finite duration above 0 s; also 0 or infinite if it says so."""

    zero: bool = False
    infinite: bool = False

    def check(self, name: str, value: float) -> float:
        """Check the duration; NaN is none."""
        is_allowed = (
            0 < value < math.inf
            or (value == 0 and self.zero)
            or (value == math.inf and self.infinite)
        )
        if not is_allowed:
            raise SpecError(f"{name} = {value}: allowed is a duration above 0 s")
        return value


@dataclass(frozen=True, slots=True)
class Finite:
    """Finite number."""

    def check(self, name: str, value: float) -> float:
        """Check that the number is neither infinite nor NaN."""
        if not math.isfinite(value):
            raise SpecError(f"{name} = {value}: allowed is a finite number")
        return value


@dataclass(frozen=True, slots=True)
class Offset:
    """Offset or size in a file, small enough for a read."""

    def check(self, name: str, value: int) -> int:
        """Check the offset; integers of the link have no sign."""
        if value > BYTES_MAX:
            raise SpecError(f"{name} = {value}: allowed is at most {BYTES_MAX}")
        return value


@dataclass(frozen=True, slots=True)
class Rate:
    """Rate in bytes a second, or 0."""

    def check(self, name: str, value: float) -> float:
        """Check the rate against the lowest one."""
        if value != 0 and not RATE_MIN <= value < math.inf:
            raise SpecError(
                f"{name} = {value}: allowed is 0, or at least {RATE_MIN:g} bytes a second"
            )
        return value


@dataclass(frozen=True, slots=True)
class Port:
    """TCP port."""

    def check(self, name: str, value: int) -> int:
        """Check the port; the text calls every such field `port`."""
        if not 1 <= value <= PORT_MAX:
            raise SpecError(f"port = {value}: allowed are 1 to {PORT_MAX}")
        return value


@dataclass(frozen=True, slots=True)
class Share:
    """Share of the time: above 0, at most 1."""

    def check(self, name: str, value: float) -> float:
        """Check the share."""
        if not 0 < value <= 1:
            raise SpecError(f"{name} = {value}: allowed is more than 0, at most 1")
        return value
