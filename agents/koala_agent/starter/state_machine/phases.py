"""Phases of a starter, each with exactly its data."""

from __future__ import annotations

from koala_agent.starter.compat import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from koala_agent.starter.events import ProcessesCounted
    from koala_agent.starter.messages import End


@dataclass(frozen=True, kw_only=True)
class Holding:
    """Before the barrier; `is_adopted` once the agent has adopted the starter."""

    is_adopted: bool = False


@dataclass(frozen=True, kw_only=True)
class Running:
    """Past the barrier; the program runs until `wall_until` at most."""

    wall_until: float


@dataclass(frozen=True, kw_only=True)
class Ending:
    """All that was started is being ended; by KILL at `kill_at`, None before TERM was sent."""

    kind: str
    reason: str
    kill_at: float | None
    poll_at: float
    is_dismissed: bool = False


@dataclass(frozen=True, kw_only=True)
class Delivering:
    """All processes ended; logs and outputs are sent to the agent until `until`."""

    kind: str
    reason: str
    used: ProcessesCounted
    until: float


@dataclass(frozen=True, kw_only=True)
class Over:
    """All is done; the end is sent until the agent has acknowledged it."""

    until: float
    end: End


@dataclass(frozen=True, kw_only=True)
class Exited:
    """The starter has exited; terminal."""


if TYPE_CHECKING:
    Phase: TypeAlias = "Holding | Running | Ending | Delivering | Over | Exited"


def changed(phase: Ending, **changes: object) -> Ending:
    """Return an Ending with other values in some fields."""
    return Ending(**{**vars(phase), **changes})
