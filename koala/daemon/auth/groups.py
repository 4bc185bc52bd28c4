"""Groups of users, and the limits of users and groups as administrators state them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from koala.core.model.allowances import NO_LIMITS, Allowance
from koala.errors import RejectedError, SpecError

NONE = "none"
COUNT_MAX = 10_000_000
SHARES_MAX = 1e6
_COUNTS = ("processors", "gpus", "jobs")
NAMES = (*_COUNTS, "hold_s", "shares")
"""Limits by name: those of `Allowance`."""


class GroupRecord(msgspec.Struct, kw_only=True):
    """A group with its members, in order of name, and its limits."""

    name: str
    by: str
    added_at: float
    members: tuple[str, ...] = ()
    limits: Allowance = NO_LIMITS


def with_limits(allowance: Allowance, changes: Mapping[str, str]) -> Allowance:
    """Return the limits with some of them changed; `none` takes a limit away. Raises SpecError."""
    values: dict[str, Any] = {name: _value(name, text) for name, text in changes.items()}
    return replace(allowance, **values)


def _value(name: str, text: str) -> float | int | None:
    if name not in NAMES:
        raise SpecError(f"limit {name[:40]!r} is unknown (expected one of {', '.join(NAMES)})")
    if text == NONE:
        return NO_LIMITS.shares if name == "shares" else None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if name in _COUNTS:
        if not (number.is_integer() and 0 <= number <= COUNT_MAX):
            raise _wrong(name, text, f"a whole number from 0 to {COUNT_MAX}")
        return int(number)
    if name == "shares" and not 0 < number <= SHARES_MAX:
        raise _wrong(name, text, f"a number above 0, up to {SHARES_MAX:g}")
    if not 0 <= number < math.inf:
        raise _wrong(name, text, "a number of seconds, 0 or more")
    return number


def _wrong(name: str, text: str, expected: str) -> SpecError:
    return SpecError(f"{name} = {text[:40]!r} (expected {expected}, or {NONE})")


def group_of(groups: Mapping[str, GroupRecord], user: str, wanted: str, default: str) -> str:
    """Return the group that a job of this user counts for: the one that it names, else the user's
    default; empty for none. Raises RejectedError for a group that the user is not in."""
    own = [name for name, group in groups.items() if user in group.members]
    if wanted and wanted not in own:
        known = f"expected one of {', '.join(sorted(own))}" if own else "expected no group"
        raise RejectedError(f"group {wanted[:80]!r}: {user} is not a member ({known})")
    return wanted or (default if default in own else "")
