"""When each claim's last ping was answered, and which claims silence has made certainly dead.

Pure. A starter's lease counts from the sending of the newest ping that was answered, so it is over
`run_lease_s` after that answer left here at the latest; the fence adds what clocks and stopping may
take (`Parameters.fence_s`, or that of an earlier, longer lease: `Claim.fence_s`). A daemon that
starts takes its start as the last answer to every ping (design: Fence). Of a claim that was not
released nothing can pass; it is fenced as well, after the shorter hold lease, where its site is
away and cannot say that it is gone.

A site that is there can say it, and can end what a lease cannot: a starter that is stopped, or what
is left of one that was killed. So it is told to stop the claim first, and has as long again as the
fence time to answer, and `ANSWER_S` at least; longer while pings of the claim come from there, for
they say that something of it lives, or that outputs of a program that had ended are on their way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from koala.core.model.events import ClaimFenced
from koala.core.model.grid import Site
from koala.core.model.job import Claim, ClaimPhase
from koala.core.model.values import ClaimId, Instant, Seconds, SiteName

ANSWER_S = 60.0
"""An agent asks its starter first, then its batch system, again and again."""


def answer_s(claim: Claim, fence_s: Seconds) -> Seconds:
    """How long a site that is there is waited for, once it was told to stop a silent claim."""
    return max(fence_s, claim.fence_s, ANSWER_S)


class Leases:
    """Last answers by claim; claims that left the ledger are forgotten by `overdue`."""

    __slots__ = ("_answered", "_asked_at", "_started_at")

    def __init__(self, started_at: Instant) -> None:
        self._started_at = started_at
        self._answered: dict[ClaimId, Instant] = {}
        # Since when sites that are there are waited for, by claims that they were told to stop.
        self._asked_at: dict[ClaimId, Instant] = {}

    def answer(self, claim: ClaimId, now: Instant) -> None:
        """A ping of this claim is being answered."""
        self._answered[claim] = now

    def note_unanswered(self, claim: ClaimId, now: Instant) -> None:
        """A ping of this claim came, and is not answered: it renews no lease, and is no silence."""
        if claim in self._asked_at:
            self._asked_at[claim] = now

    def overdue(
        self,
        ledger: Mapping[ClaimId, Claim],
        sites: Mapping[SiteName, Site],
        *,
        fence_s: Seconds,
        hold_fence_s: Seconds,
        now: Instant,
    ) -> Iterator[ClaimFenced]:
        """The claims whose fence time has come, in the ledger's order. Each is to be handled before
        the next is asked for: it may have others of its job stopped, which begins their time to be
        answered for."""
        self._answered = {claim: at for claim, at in self._answered.items() if claim in ledger}
        asked_at: dict[ClaimId, Instant] = {}
        for claim in tuple(ledger.values()):
            if claim.id not in ledger:
                continue
            is_away = _is_away(sites, claim.site)
            if not claim.released and not is_away:
                continue
            if now < self.fence_at(
                claim, sites, fence_s=fence_s, hold_fence_s=hold_fence_s, now=now
            ):
                continue
            if not is_away and claim.phase is ClaimPhase.STOPPING:
                asked_at[claim.id] = self._asked_at.get(claim.id, now)
                if now < asked_at[claim.id] + answer_s(claim, fence_s):
                    continue
            yield ClaimFenced(claim=claim.id)
        self._asked_at = asked_at

    def fence_at(
        self,
        claim: Claim,
        sites: Mapping[SiteName, Site],
        *,
        fence_s: Seconds,
        hold_fence_s: Seconds,
        now: Instant,
    ) -> Instant:
        """From when on nothing of the claim can live, as far as is known now."""
        lease_s = max(fence_s, claim.fence_s) if claim.released else hold_fence_s
        return self._alive_until(claim, sites, now) + lease_s

    def _alive_until(self, claim: Claim, sites: Mapping[SiteName, Site], now: Instant) -> Instant:
        """The last instant at which a lease of the claim can have begun."""
        begun_at = max(self._started_at, claim.asked_at, self._answered.get(claim.id, 0.0))
        if claim.granted_at is not None:
            return max(begun_at, claim.granted_at)
        # Without a barrier and not known as granted: a starter may check in while the agent knows
        # the claim, which an agent that is connected does, and one that was cut did till then.
        site = sites.get(claim.site)
        heard_at = now if site is None or site.is_connected else site.disconnected_at
        return max(begun_at, heard_at + (site.facts.grace_s if site is not None else 0.0))


def _is_away(sites: Mapping[SiteName, Site], name: SiteName) -> bool:
    site = sites.get(name)
    return site is not None and not site.is_connected
