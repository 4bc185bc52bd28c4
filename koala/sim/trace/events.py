"""Events of a replay: failing and returning processors, and breakpoints; and files of them in TOML,
a table `[[event]]` each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from koala.errors import ConfigError
from koala.runtime.paths import written_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Change at one instant: so many processors fail or come back, or a breakpoint.

    Idle processors fail first. Then jobs lose theirs, the youngest first, no more than needed.
    These jobs are killed, or put back at the head of the queue in the order of their start, to run
    again from their beginning.
    """

    at: int
    failing: int = 0
    returning: int = 0
    is_requeued: bool = False
    is_breakpoint: bool = False
    is_stop: bool = False
    """A breakpoint at which the replay stops for now."""

    def document(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


def check_changes(changes: Iterable[Change], processors: int) -> None:
    """Check the changes. Raises ConfigError for one that is impossible on a site with so many
    processors."""
    available = processors
    for change in changes:
        if change.failing > available:
            text = f"{change.failing} processors fail; {available} are in order"
            raise ConfigError(f"event at {change.at}: {text}")
        available -= change.failing
        if change.returning > processors - available:
            text = f"{change.returning} processors return; {processors - available} have failed"
            raise ConfigError(f"event at {change.at}: {text}")
        available += change.returning


EVENTS_MAX = 10_000_000
"""Limit on the characters of a file of events: some hundred thousand events."""


class _Event(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"back": "return"}):
    at: Annotated[int, msgspec.Meta(ge=0)]
    fail: Annotated[int, msgspec.Meta(ge=1)] | None = None
    back: Annotated[int, msgspec.Meta(ge=1)] | None = None
    breakpoint: Literal["show", "stop"] | None = None
    jobs: Literal["kill", "requeue"] = "kill"


class _Events(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    event: tuple[_Event, ...] = ()


def read_events(path: Path) -> tuple[Change, ...]:
    """Read a file of events in order of time; breakpoints come last at an instant. Raises
    ConfigError when something in it is wrong."""
    try:
        text = written_text(path, characters_max=EVENTS_MAX)
        found = msgspec.toml.decode(text, type=_Events).event
    except (msgspec.DecodeError, ValueError, RecursionError) as error:  # of its numbers and depth
        raise ConfigError(f"{path}: {error}") from error
    changes = [_change(path, event) for event in found]
    return tuple(sorted(changes, key=lambda change: (change.at, change.is_breakpoint)))


def _change(path: Path, event: _Event) -> Change:
    if sum(given is not None for given in (event.fail, event.back, event.breakpoint)) != 1:
        text = f"the event at {event.at} needs one of fail, return and breakpoint"
        raise ConfigError(f"{path}: {text}")
    return Change(
        at=event.at,
        failing=event.fail or 0,
        returning=event.back or 0,
        is_requeued=event.jobs == "requeue",
        is_breakpoint=event.breakpoint is not None,
        is_stop=event.breakpoint == "stop",
    )
