"""Events of a replay: failing and returning processors, and breakpoints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from koala.errors import ConfigError


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
