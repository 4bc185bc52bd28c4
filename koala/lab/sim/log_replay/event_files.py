"""Files of events in TOML, a table `[[event]]` each; a replay without one does not load msgspec."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from koala.common.runtime.paths import written_text
from koala.errors import ConfigError
from koala.lab.sim.log_replay.events import Change

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
