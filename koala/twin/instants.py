"""Instants and durations as batch systems write them."""

from __future__ import annotations

import re
from datetime import datetime, tzinfo
from zoneinfo import ZoneInfo

from koala.errors import ConfigError

NEVER = frozenset({"", "Unknown", "None", "N/A", "-/-", "undefined", "NONE"})
UNLIMITED = frozenset({"", "UNLIMITED", "Partition_Limit", "INVALID", "INFINITY", "NONE", "N/A"})
DIGITS_MAX = 12
LATEST_AT = 32_503_680_000
"""The year 3000: later instants are damage, and larger than a date can be."""
LONGEST_S = 1000 * 365 * 86_400
"""A thousand years: limits of some hundred stand for no limit at some sites."""
_DURATION = re.compile(
    r"(?:(?P<days>\d{1,6})-)?(?:(?:(?P<hours>\d{1,9}):)?(?P<minutes>\d{1,9}):)?"
    r"(?P<seconds>\d{1,12})(?:\.\d*)?"
)
_WRITTEN = ("%a %b %d %H:%M:%S %Y", "%m/%d/%Y %H:%M:%S.%f", "%m/%d/%Y %H:%M:%S")
"""Forms of qacct: of Grid Engine, and of later versions by Univa."""


def zone_of(name: str | None) -> tzinfo | None:
    """Return a time zone by its name, such as Europe/Amsterdam; None is this machine's. Raises
    ConfigError for an unknown one."""
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        raise ConfigError(
            f"--timezone {name}: allowed are names such as Europe/Amsterdam or UTC"
        ) from None


def instant(text: str, zone: tzinfo | None, *, is_second: bool = False) -> int | None:
    """Read an instant; None where nothing is known. An instant without an offset is of the zone;
    in the hour that clocks repeat it is the first one, or the second one. Raises ValueError."""
    text = text.strip()
    if text in NEVER:
        return None
    if text.isdecimal() and len(text) <= DIGITS_MAX:
        return _usual(int(text), text) if int(text) else None
    found = _parsed(text)
    if found.tzinfo is None:
        found = found.replace(tzinfo=zone, fold=int(is_second))
    seconds = found.timestamp()
    return _usual(seconds, text)


def _usual(seconds: float, text: str) -> int:
    if not 0 < seconds < LATEST_AT:
        raise ValueError(f"{text}: allowed are instants from 1970 to 2999")
    return int(seconds)


def _parsed(text: str) -> datetime:
    if text[:4].isdecimal():
        return datetime.fromisoformat(text)
    for form in _WRITTEN:
        try:
            return datetime.strptime(text, form)  # noqa: DTZ007 - the zone is the caller's
        except ValueError:
            continue
    raise ValueError(text)


def duration_s(text: str) -> int | None:
    """Read a duration, [DAYS-][[HOURS:]MINUTES:]SECONDS; None where it is unlimited or not known.
    Raises ValueError."""
    text = text.strip()
    if text in UNLIMITED:
        return None
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(text)
    parts = {name: int(value or 0) for name, value in found.groupdict().items()}
    hours = parts["hours"] + 24 * parts["days"]
    found_s = parts["seconds"] + 60 * (parts["minutes"] + 60 * hours)
    if found_s > LONGEST_S:
        raise ValueError(f"{text}: allowed are 1000 years or less")
    return found_s


def ordered(
    start: str, end: str, zone: tzinfo | None, *, elapsed_s: int | None
) -> tuple[int | None, int | None, bool]:
    """Read start and end of a job, which ends after it starts. True if the hour that clocks repeat
    had to be told apart. Raises ValueError if it ends before it starts."""
    begin, over = instant(start, zone), instant(end, zone)
    if begin is None or over is None:
        return begin, over, False
    later_begin = instant(start, zone, is_second=True)
    later_over = instant(end, zone, is_second=True)
    if later_begin is None or later_over is None or (later_begin, later_over) == (begin, over):
        later_begin, later_over = begin, over
    choices = [(begin, over), (begin, later_over), (later_begin, later_over)]
    usable = [one for one in choices if one[1] >= one[0]]
    if not usable:
        raise ValueError(f"{end} is before {start}")
    chosen = usable[0]
    if elapsed_s is not None:
        chosen = min(usable, key=lambda one: abs(one[1] - one[0] - elapsed_s))
    return *chosen, len(set(choices)) > 1
