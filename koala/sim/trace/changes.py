"""What happens to a site from outside while a log is replayed: processors fail and come back; and
where to stop and look."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from koala.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """At one instant, so many processors fail, or come back; or somebody looks.

    Processors that fail are idle ones first; then jobs lose theirs, the youngest first, no more
    than needed. These jobs are killed, or put back at the head of the queue to run again from their
    beginning, the one that started first foremost.
    """

    at: int
    failing: int = 0
    returning: int = 0
    is_requeued: bool = False
    is_breakpoint: bool = False
    is_stop: bool = False
    """A breakpoint at which the replay ends for this time."""

    def document(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def check_changes(changes: Iterable[Change], processors: int) -> None:
    """Raises ConfigError when one of them is impossible on a site with so many processors."""
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
