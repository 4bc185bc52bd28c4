"""Checks of what comes over the wire: the value, or SpecError that names the field, its value and
what is allowed."""

from __future__ import annotations

import re

from koala.core.model.values import ClaimId, SiteName, TransferId
from koala.errors import SpecError
from koala.protocol import names
from koala.protocol.limits import AMOUNT_MAX, BYTES_MAX, INSTANT_MAX, NAME_MAX, PORT_MAX

_HOST = re.compile(r"[^\s:/]+|[0-9A-Fa-f:]+")
_ENDPOINT = re.compile(r"(?:[^\s:/]+|\[[0-9A-Fa-f:]+\]):(?P<port>[0-9]{1,5})")


def claim(value: str) -> ClaimId:
    """A claim's name."""
    return ClaimId(_matching("claim", value, names.CLAIM))


def transfer(value: str) -> TransferId:
    """A transfer's name."""
    return TransferId(_matching("transfer", value, names.TRANSFER))


def site(value: str, name: str = "site") -> SiteName:
    """A site's name, in the field `name`."""
    return SiteName(_matching(name, value, names.SITE))


def text(name: str, value: str, length_max: int = NAME_MAX) -> str:
    """A text of bounded length."""
    if len(value) > length_max:
        raise SpecError(f"{name} has {len(value)} characters: allowed are at most {length_max}")
    return value


def printable(field: str, value: str) -> str:
    """A name of bounded length, without control characters: people see it, and programs get it."""
    if not value.isprintable():
        raise SpecError(f"{field} = {value[:80]!r}: control characters are not allowed")
    return text(field, value)


def host(field: str, value: str) -> str:
    """The name or number of a machine; empty means none."""
    if value and not _HOST.fullmatch(printable(field, value)):
        raise SpecError(f"{field} = {value[:80]!r}: allowed is the name or number of a machine")
    return value


def endpoint(field: str, value: str) -> str:
    """Check an address to reach something at; empty means none."""
    found = _ENDPOINT.fullmatch(printable(field, value))
    if value and (found is None or not 1 <= int(found["port"]) <= PORT_MAX):
        raise SpecError(
            f"{field} = {value[:80]!r}: allowed is HOST:PORT with a port from 1 to {PORT_MAX}"
        )
    return value


def count(name: str, value: int, value_max: int = BYTES_MAX) -> int:
    """A number that the journal can hold. The messages' integers have no sign."""
    if value > value_max:
        raise SpecError(f"{name} = {value}: allowed is at most {value_max}")
    return value


def instant(name: str, value: float) -> float:
    """An instant that has a date; zero and earlier mean none."""
    if not -INSTANT_MAX <= value <= INSTANT_MAX:
        raise SpecError(f"{name} = {value}: allowed is an instant up to {INSTANT_MAX:g} s")
    return value


def amount(name: str, value: float) -> float:
    """A finite number that is not negative."""
    if not 0 <= value <= AMOUNT_MAX:
        raise SpecError(f"{name} = {value}: allowed is 0 to {AMOUNT_MAX:g}")
    return value


def _matching(name: str, value: str, pattern: re.Pattern[str]) -> str:
    if not pattern.fullmatch(value):
        raise SpecError(f"{name} = {value[:80]!r}: allowed is {pattern.pattern}")
    return value
