"""Constraints on fields of messages, as metadata of their types.

A constraint returns the value, or raises SpecError naming the field, its value and what is allowed.
Integers of the link have no sign, so none is checked.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from koala.common.protocol import names
from koala.common.protocol.limits import (
    AMOUNT_MAX,
    BYTES_MAX,
    INSTANT_MAX,
    NAME_MAX,
    PORT_MAX,
    RATE_MIN,
)
from koala.errors import SpecError

_HOST = re.compile(r"[^\s:/]+|[0-9A-Fa-f:]+")
_ENDPOINT = re.compile(r"(?:[^\s:/]+|\[[0-9A-Fa-f:]+\]):(?P<port>[0-9]{1,5})")


class Constraint(Protocol):
    """Check of one field's value."""

    def check(self, name: str, value: Any) -> Any:
        """Return the value of the field `name`, or raise SpecError."""


# Names and texts ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Claim:
    """Id of a claim: job/attempt/component/n."""

    def check(self, name: str, value: str) -> str:
        """Check the id; the text names no field."""
        if names.CLAIM.fullmatch(value) is None:
            raise SpecError(f"{value[:200]!r} is not a claim (expected job/attempt/component/n)")
        return value


@dataclass(frozen=True, slots=True)
class Matching:
    """Text that a pattern describes; also an empty one if it says so."""

    pattern: re.Pattern[str]
    empty: bool = False

    def check(self, name: str, value: str) -> str:
        """Check the whole text."""
        if not self.pattern.fullmatch(value) and (value or not self.empty):
            raise SpecError(f"{name} = {value[:80]!r} (expected {self.pattern.pattern})")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Text of bounded length; not empty if it says so."""

    most: int = NAME_MAX
    least: int = 0

    def check(self, name: str, value: str) -> str:
        """Check the length."""
        if not self.least <= len(value) <= self.most:
            allowed = f"{self.least} to {self.most}" if self.least else f"at most {self.most}"
            raise SpecError(f"{name} has {len(value)} characters (expected {allowed})")
        return value


@dataclass(frozen=True, slots=True)
class Printable:
    """Name without control characters: people see it, and programs get it."""

    def check(self, name: str, value: str) -> str:
        """Check the characters and the length."""
        if not value.isprintable():
            raise SpecError(f"{name} = {value[:80]!r}: control characters are not allowed")
        if len(value) > NAME_MAX:
            raise SpecError(f"{name} has {len(value)} characters (expected at most {NAME_MAX})")
        return value


_PRINTABLE = Printable()


@dataclass(frozen=True, slots=True)
class Host:
    """Name or number of a machine; empty means none."""

    def check(self, name: str, value: str) -> str:
        """Check the form."""
        if value and not _HOST.fullmatch(_PRINTABLE.check(name, value)):
            raise SpecError(f"{name} = {value[:80]!r} (expected the name or number of a machine)")
        return value


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address of a server; empty means none."""

    def check(self, name: str, value: str) -> str:
        """Check the form and the port."""
        found = _ENDPOINT.fullmatch(_PRINTABLE.check(name, value))
        if value and (found is None or not 1 <= int(found["port"]) <= PORT_MAX):
            raise SpecError(
                f"{name} = {value[:80]!r} (expected HOST:PORT with a port from 1 to {PORT_MAX})"
            )
        return value


@dataclass(frozen=True, slots=True)
class Truncated:
    """Text, list or number of which only the first part, or so much, is taken."""

    most: int

    def check(self, name: str, value: Any) -> Any:
        """Cut off what is more."""
        return min(value, self.most) if isinstance(value, int) else value[: self.most]


@dataclass(frozen=True, slots=True)
class OneOf:
    """Word of an enumeration, one of these members."""

    members: tuple[StrEnum, ...]

    def check(self, name: str, value: str) -> StrEnum:
        """Return the member."""
        for member in self.members:
            if member == value:
                return member
        raise SpecError(f"{name} = {value[:40]!r} (expected one of {', '.join(self.members)})")


@dataclass(frozen=True, slots=True)
class Distinct:
    """List of names, each once and in order, whatever was sent."""

    most: int

    def check(self, name: str, value: tuple[str, ...]) -> tuple[str, ...]:
        """Check the length, and sort."""
        if len(value) > self.most:
            raise SpecError(f"{len(value)} {name} (expected at most {self.most})")
        return tuple(sorted(set(value)))


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes of bounded length."""

    most: int

    def check(self, name: str, value: bytes) -> bytes:
        """Check the length."""
        if len(value) > self.most:
            raise SpecError(f"{name} has {len(value)} bytes (expected at most {self.most})")
        return value


# Numbers -----------------------------------------------------------------------------------------


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
            raise SpecError(f"{name} = {value} (expected a duration above 0 s)")
        return value


@dataclass(frozen=True, slots=True)
class Finite:
    """Finite number."""

    def check(self, name: str, value: float) -> float:
        """Check that the number is neither infinite nor NaN."""
        if not math.isfinite(value):
            raise SpecError(f"{name} = {value} (expected a finite number)")
        return value


@dataclass(frozen=True, slots=True)
class Instant:
    """Instant that has a date; zero and earlier mean none."""

    def check(self, name: str, value: float) -> float | None:
        """Check the instant."""
        if not -INSTANT_MAX <= value <= INSTANT_MAX:
            raise SpecError(f"{name} = {value} (expected an instant up to {INSTANT_MAX:g} s)")
        return value if value > 0 else None


@dataclass(frozen=True, slots=True)
class Amount:
    """Finite number that is not negative."""

    most: float = AMOUNT_MAX

    def check(self, name: str, value: float) -> float:
        """Check the amount."""
        if not 0 <= value <= self.most:
            raise SpecError(f"{name} = {value} (expected 0 to {self.most:g})")
        return value


@dataclass(frozen=True, slots=True)
class Count:
    """Number, size or offset that the journal can hold."""

    most: int = BYTES_MAX

    def check(self, name: str, value: int) -> int:
        """Check the number."""
        if value > self.most:
            raise SpecError(f"{name} = {value} (expected at most {self.most})")
        return value


@dataclass(frozen=True, slots=True)
class Rate:
    """Rate in bytes a second, or 0."""

    def check(self, name: str, value: float) -> float:
        """Check the rate against the lowest one."""
        if value != 0 and not RATE_MIN <= value < math.inf:
            raise SpecError(
                f"{name} = {value} (expected 0, or at least {RATE_MIN:g} bytes a second)"
            )
        return value


@dataclass(frozen=True, slots=True)
class Port:
    """TCP port."""

    def check(self, name: str, value: int) -> int:
        """Check the port; the text calls every such field `port`."""
        if not 1 <= value <= PORT_MAX:
            raise SpecError(f"port = {value} (expected 1 to {PORT_MAX})")
        return value


@dataclass(frozen=True, slots=True)
class Share:
    """Share of the time: above 0, at most 1."""

    def check(self, name: str, value: float) -> float:
        """Check the share."""
        if not 0 < value <= 1:
            raise SpecError(f"{name} = {value} (expected more than 0, at most 1)")
        return value
