"""When each claim's last ping was answered, and which claims silence has made certainly dead.

Pure. A starter's lease counts from the sending of the newest ping that was answered, so it is over
`run_lease_s` after that answer left here at the latest; the fence adds what clocks and stopping may
take (`Parameters.fence_s`, or that of an earlier, longer lease: `Claim.fence_s`). A daemon that
starts takes its start as the last answer to every ping (design: Fence). Of a claim that was not
released nothing can pass; it is fenced as well, after the shorter hold lease, where its site is
away and cannot say that it is gone.
"""

from __future__ import annotations

from collections.abc import Mapping

from koala.core.events import ClaimFenced
from koala.core.grid import Site
from koala.core.job import Claim
from koala.core.values import ClaimId, Instant, Seconds, SiteName


class Leases:
    """Last answers by claim; claims that left the ledger are forgotten by `overdue`."""

    __slots__ = ("_answered", "_started_at")

    def __init__(self, started_at: Instant) -> None:
        self._started_at = started_at
        self._answered: dict[ClaimId, Instant] = {}

    def answer(self, claim: ClaimId, now: Instant) -> None:
        """A ping of this claim is being answered."""
        self._answered[claim] = now

    def overdue(
        self,
        ledger: Mapping[ClaimId, Claim],
        sites: Mapping[SiteName, Site],
        *,
        fence_s: Seconds,
        hold_fence_s: Seconds,
        now: Instant,
    ) -> list[ClaimFenced]:
        """The claims whose fence time has come, in the ledger's order."""
        self._answered = {claim: at for claim, at in self._answered.items() if claim in ledger}
        return [
            ClaimFenced(claim=claim.id)
            for claim in ledger.values()
            if (claim.released or _is_away(sites, claim.site))
            and now
            >= self.fence_at(claim, sites, fence_s=fence_s, hold_fence_s=hold_fence_s, now=now)
        ]

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
