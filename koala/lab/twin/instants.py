"""Instants and durations as batch systems write them."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta, tzinfo
from typing import TypeVar
from zoneinfo import ZoneInfo

from koala.errors import ConfigError

Value = TypeVar("Value")
NEVER = frozenset({"", "Unknown", "None", "N/A", "-/-", "undefined", "NONE"})
UNLIMITED = frozenset({"", "UNLIMITED", "Partition_Limit", "INVALID", "INFINITY", "NONE", "N/A"})
DIGITS_MAX = 12
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the 0 of qacct in any zone
LATEST_AT = 32_503_680_000
"""The year 3000: later instants are damage, and larger than a date can be."""
LONGEST_S = 1000 * 365 * 86_400
"""A thousand years: limits of some hundred stand for no limit at some sites."""
_DURATION = re.compile(
    r"(?:(?P<days>\d{1,6})-)?(?:(?:(?P<hours>\d{1,9}):)?(?P<minutes>\d{1,9}):)?"
    r"(?P<seconds>\d{1,12})(?:\.\d*)?"
)
_WRITTEN = ("%a %b %d %H:%M:%S %Y", "%m/%d/%Y %H:%M:%S.%f", "%m/%d/%Y %H:%M:%S")
"""Forms of qacct, of several versions."""


def zone_of(name: str | None) -> tzinfo | None:
    """Return a time zone by its name, such as Europe/Amsterdam; None is this machine's. Raises
    ConfigError for an unknown one."""
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        raise ConfigError(
            f"--timezone {name} (expected a name such as Europe/Amsterdam or UTC)"
        ) from None


Readings = tuple[int, int]
"""An instant, and the same an hour later where clocks repeat the hour; equal everywhere else."""


def instant(text: str, zone: tzinfo | None) -> Readings | None:
    """Read an instant; None where nothing is known. An instant without an offset is of the zone.
    Raises ValueError."""
    text = text.strip()
    if text in NEVER:
        return None
    if text.isdecimal() and len(text) <= DIGITS_MAX:
        seconds = int(text)
        return (_usual(seconds, text),) * 2 if seconds else None
    found = _parsed(text)
    if found.tzinfo is None:
        found = found.replace(tzinfo=zone)
    if abs(found.replace(tzinfo=None) - _EPOCH) <= timedelta(days=1):
        return None
    first = _usual(found.timestamp(), text)
    # In the hour that clocks leave out, the second reading is the earlier one.
    return first, max(first, _usual(found.replace(fold=1).timestamp(), text))


def _usual(seconds: float, text: str) -> int:
    if not 0 < seconds < LATEST_AT:
        raise ValueError(f"{text} (expected an instant from 1970 to 2999)")
    return int(seconds)


def _parsed(text: str) -> datetime:
    if text[:4].isdecimal():
        with suppress(ValueError):
            return datetime.fromisoformat(text)
    for form in _WRITTEN:
        with suppress(ValueError):
            return datetime.strptime(text, form)  # noqa: DTZ007 - the zone is the caller's
    raise ValueError(
        f"{text!r} (expected an instant such as 2026-10-25T14:30:00, seconds since 1970, or"
        " Unknown)"
    )


def duration_s(text: str) -> int | None:
    """Read a duration, [DAYS-][[HOURS:]MINUTES:]SECONDS; None where it is unlimited or not known.
    Raises ValueError."""
    text = text.strip()
    if text in UNLIMITED:
        return None
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} (expected a duration such as 1-12:00:00, or UNLIMITED)")
    parts = {name: int(value or 0) for name, value in found.groupdict().items()}
    hours = parts["hours"] + 24 * parts["days"]
    found_s = parts["seconds"] + 60 * (parts["minutes"] + 60 * hours)
    if found_s > LONGEST_S:
        raise ValueError(f"{text} (expected 1000 years or less)")
    return found_s


def ordered(
    start: Readings,
    end: Readings | None,
    *,
    submit: Readings | None = None,
    elapsed_s: int | None = None,
) -> tuple[int, int | None, bool]:
    """Return start and end of a job, which starts after its submission and ends after its start.
    True if the hour that clocks repeat had to be told apart. Raises ValueError if it ends before it
    starts."""
    if end is None:
        return start[0], None, False
    choices = list(dict.fromkeys([(start[0], end[0]), (start[0], end[1]), (start[1], end[1])]))
    usable = [(begin, over) for begin, over in choices if over >= begin]
    if not usable:
        raise ValueError("ends before it starts")
    if submit is not None:
        usable = [span for span in usable if span[0] >= submit[0]] or usable
    chosen = usable[0]
    if elapsed_s is not None:
        chosen = min(usable, key=lambda span: abs(span[1] - span[0] - elapsed_s))
    return *chosen, len(choices) > 1


def column(name: str, read: Callable[[str], Value], text: str) -> Value:
    """Read the value of a column. Raises ValueError that names the column."""
    try:
        return read(text)
    except ValueError as error:
        raise ValueError(f"{name} {error}") from None


def whole(text: str) -> int:
    """Read a whole number. Raises ValueError."""
    if not (text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX):
        raise ValueError(f"{text!r} (expected a whole number)")
    return int(text)
