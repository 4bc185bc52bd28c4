"""Awaited passes: released claims that tell neither a pass nor an end. Pure.

A starter passes by D or never, and tells at once what it did. One that is silent after D is frozen,
or cut off from its agent: the other components would run without it until its lease ends. So its
claim is stopped, and the attempt with it, as a partial start. A claim that had passed unheard is
stopped all the same: the Stop is pending until it is gone.

Silence counts only while the site's agent is heard. An agent that was away, or a daemon that stood
still, may have the report in a queue: it has the whole time again. A site that is away is left to
`koala.core.leases`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from koala.core.model.claim import Released
from koala.core.model.events import ClaimFenced
from koala.core.model.values import ClaimId, Instant, Seconds, SiteName
from koala.core.queries import member_of
from koala.core.state import State

REPORT_S: Seconds = 5.0
"""Least time for the report of a pass, where `pause_max_s` is shorter: agents write it down first,
and machines are busy."""


class AwaitedPasses:
    """The instants from which released claims have been silent, by claim."""

    __slots__ = ("_looked_at", "_silent_from")

    def __init__(self, started_at: Instant) -> None:
        self._looked_at = started_at
        self._silent_from: dict[ClaimId, Instant] = {}

    def overdue(
        self, state: State, *, is_heard: Callable[[SiteName, Instant], bool], now: Instant
    ) -> Iterator[ClaimFenced]:
        """Yield the claims whose passes are overdue. Call it every second or so; handle each before
        the next, because handling stops the other claims of the job."""
        stood_still = now - self._looked_at > REPORT_S
        self._looked_at = now
        limits = state.parameters
        before, self._silent_from = self._silent_from, {}
        for claim in tuple(state.ledger.values()):
            if not isinstance(claim.phase, Released):
                continue
            current = member_of(state, claim)
            release = (current and current[1].joined) or state.jobs[claim.job].release
            if release is None:
                continue
            site = state.sites[claim.site]
            is_there = site.is_connected and is_heard(claim.site, now) and not stood_still
            silent_from = before.get(claim.id, 0.0) if is_there else now
            self._silent_from[claim.id] = silent_from
            since = max(release.at + limits.late_max_s, silent_from)
            if now >= since + max(limits.pause_max_s, REPORT_S) + site.rtt_s:
                yield ClaimFenced(claim=claim.id)
