"""Two agents for one site, as after a copy of a state directory: each session takes the place of
the other's, and each that does is an event of the journal with all the site's facts.

The newest session wins, for an agent that dials again may have left one behind whose connection
died unnoticed. So the first few take the place of the one before at once. After these the one that
is open keeps its place for a pause, which doubles with each that takes it; others are refused.
A connection that is dead ends by its silence before the pause is long.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from koala.core.model.values import Instant, Seconds, SiteName

CONTENDED_S = 60.0
CONTENDED_AT = 5
"""So many sessions of one site within that time, and the pauses, each of which took the place of
one that was open: two agents are at it."""
PAUSE_MIN_S = 1.0
PAUSE_MAX_S = 300.0

WORDS = "two agents run with one identity or with copies of one state directory"


@dataclass(slots=True)
class _Replaced:
    """When sessions of a site last were, by newer ones; how many pauses that made."""

    at: deque[Instant] = field(default_factory=lambda: deque(maxlen=CONTENDED_AT))
    pauses: int = 0
    tried_at: Instant = 0.0  # when one last was, or was refused

    @property
    def pause_s(self) -> Seconds:
        if self.pauses == 0:
            return 0.0
        return min(PAUSE_MAX_S, PAUSE_MIN_S * 2.0 ** min(self.pauses - 1, 30))

    def is_contended(self, now: Instant) -> bool:
        window_s = CONTENDED_S + CONTENDED_AT * self.pause_s
        return len(self.at) == CONTENDED_AT and self.at[0] > now - window_s


class DuplicateAgents:
    """Of all sites."""

    def __init__(self) -> None:
        self._replaced: dict[SiteName, _Replaced] = {}

    def note(self, site: SiteName, now: Instant) -> None:
        """A session that was open was replaced by a newer one."""
        replaced = self._replaced.setdefault(site, _Replaced())
        replaced.at.append(now)
        replaced.tried_at = now
        replaced.pauses = replaced.pauses + 1 if replaced.is_contended(now) else 0

    def is_contended(self, site: SiteName, now: Instant) -> bool:
        """Whether its sessions replace each other again and again, or would."""
        replaced = self._replaced.get(site, _Replaced())
        return replaced.is_contended(now) and now < replaced.tried_at + CONTENDED_S

    def objection(self, site: SiteName, now: Instant) -> str:
        """Why no session may take the place of the one that is open now; empty when it may. It is
        the same for as long as that one stays, so that the refused agent's log says it once."""
        replaced = self._replaced.get(site, _Replaced())
        if not replaced.is_contended(now) or now >= replaced.at[-1] + replaced.pause_s:
            return ""
        replaced.tried_at = now
        return (
            f"another session of {site} keeps its place for {replaced.pause_s:g} s, since they"
            f" replace each other again and again, as when {WORDS}"
        )
