"""Detection of two agents that run for one site, with exponential back-off between them.

Two agents run after a state directory was copied. Each new session replaces the other agent's, and
each replacement journals all facts of the site.

- The newest session wins: an agent that reconnects may have left a dead connection behind. So the
  first few replacements happen at once.
- After that the open session keeps its place for a pause; newer ones are refused meanwhile. The
  pause doubles with each replacement.
- A dead connection times out by its silence before the pause is long.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from koala.core.model.values import Instant, Seconds, SiteName

CONTENDED_S = 60.0
CONTENDED_AT = 5
"""Two agents contend for a site after `CONTENDED_AT` replacements of an open session within
`CONTENDED_S` plus the pauses."""
PAUSE_MIN_S = 1.0
PAUSE_MAX_S = 300.0

WORDS = "two agents run with one identity or with copies of one state directory"


@dataclass(slots=True)
class _Replaced:
    """Latest replacements of a site's sessions, and the number of pauses that they caused."""

    at: deque[Instant] = field(default_factory=lambda: deque(maxlen=CONTENDED_AT))
    pauses: int = 0
    tried_at: Instant = 0.0  # of the latest replacement, done or refused

    @property
    def pause_s(self) -> Seconds:
        if self.pauses == 0:
            return 0.0
        return min(PAUSE_MAX_S, PAUSE_MIN_S * 2.0 ** min(self.pauses - 1, 30))

    def is_contended(self, now: Instant) -> bool:
        window_s = CONTENDED_S + CONTENDED_AT * self.pause_s
        return len(self.at) == CONTENDED_AT and self.at[0] > now - window_s


class DuplicateAgents:
    """Replacements of sessions at all sites; refuses those that come too soon."""

    def __init__(self) -> None:
        self._replaced: dict[SiteName, _Replaced] = {}

    def note(self, site: SiteName, now: Instant) -> None:
        """Record that a newer session replaced an open one."""
        replaced = self._replaced.setdefault(site, _Replaced())
        replaced.at.append(now)
        replaced.tried_at = now
        replaced.pauses = replaced.pauses + 1 if replaced.is_contended(now) else 0

    def is_contended(self, site: SiteName, now: Instant) -> bool:
        """Check for two agents: sessions replace each other repeatedly, or are refused for it."""
        replaced = self._replaced.get(site, _Replaced())
        return replaced.is_contended(now) and now < replaced.tried_at + CONTENDED_S

    def objection(self, site: SiteName, now: Instant) -> str:
        """Return the reason to refuse a new session in favour of the open one; empty to accept it.

        The text is constant while the open session stays, so the refused agent logs it once.
        """
        replaced = self._replaced.get(site, _Replaced())
        if not replaced.is_contended(now) or now >= replaced.at[-1] + replaced.pause_s:
            return ""
        replaced.tried_at = now
        return (
            f"another session of {site} keeps its place for {replaced.pause_s:g} s, since they"
            f" replace each other again and again, as when {WORDS}"
        )
