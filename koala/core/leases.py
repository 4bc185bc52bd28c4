"""Leases of claims: the last answered ping of each claim, and the fencing of expired ones. Pure.

- A starter's lease counts from the sending of the newest answered ping. It is over at most
  `run_lease_s` after the daemon sent that answer.
- The fence adds the time for clock drift and stopping (`Parameters.fence_s`, or that of an earlier,
  longer lease: `Claim.fence_s`).
- A daemon that starts counts its start as the last answer to every ping.
- A claim that was not released cannot pass. If its site is disconnected, it is fenced after the
  shorter hold lease.

A connected site can report the end itself. It can also end what a lease cannot: a stopped starter,
or the remains of a killed one. So it first gets a Stop, and then as long as the fence time to
answer, at least `ANSWER_S`. Pings of the claim extend that time: something of it lives, or outputs
of a program that ended are still on their way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from koala.core.model.claim import Asked, Claim, Stopped
from koala.core.model.events import ClaimFenced
from koala.core.model.grid import Site
from koala.core.model.values import ClaimId, Instant, Seconds, SiteName

ANSWER_S = 60.0
"""Least time for an answer: an agent asks its starter first, then its batch system, repeatedly."""


def answer_s(claim: Claim, fence_s: Seconds) -> Seconds:
    """Time that a connected site has to answer the Stop of a silent claim."""
    return max(fence_s, claim.fence_s, ANSWER_S)


class Leases:
    """Leases by claim. `overdue` drops the claims that left the ledger."""

    __slots__ = ("_answered", "_asked_at", "_started_at")

    def __init__(self, started_at: Instant) -> None:
        self._started_at = started_at
        self._answered: dict[ClaimId, Instant] = {}
        # Instants from which connected sites have not answered the Stop of a silent claim.
        self._asked_at: dict[ClaimId, Instant] = {}

    def answer(self, claim: ClaimId, now: Instant) -> None:
        """Renew the lease of a claim whose ping is being answered."""
        self._answered[claim] = now

    def note_unanswered(self, claim: ClaimId, now: Instant) -> None:
        """Note a ping that gets no answer: it renews no lease, but the claim is not silent."""
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
        """Yield the claims whose fence time has come, in the ledger's order. The caller handles
        each one before it asks for the next: handling may stop other claims of the job, which
        starts their time to answer."""
        self._answered = {claim: at for claim, at in self._answered.items() if claim in ledger}
        asked_at: dict[ClaimId, Instant] = {}
        for claim in tuple(ledger.values()):
            if claim.id not in ledger:
                continue
            if claim.is_ticket and isinstance(claim.phase, Asked):
                continue  # it waits in the local queue, whether its agent is away or not
            is_away = _is_away(sites, claim.site)
            if not claim.may_run and not is_away:
                continue
            if now < self.fence_at(
                claim, sites, fence_s=fence_s, hold_fence_s=hold_fence_s, now=now
            ):
                continue
            if not is_away and isinstance(claim.phase, Stopped):
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
        """Return the instant after which the claim is certainly dead, as far as is known now."""
        lease_s = max(fence_s, claim.fence_s) if claim.may_run else hold_fence_s
        return self._alive_until(claim, sites, now) + lease_s

    def _alive_until(self, claim: Claim, sites: Mapping[SiteName, Site], now: Instant) -> Instant:
        """Return the last instant at which a lease of the claim can have begun."""
        begun_at = max(self._started_at, claim.asked_at, self._answered.get(claim.id, 0.0))
        if claim.grant is not None:
            return max(begun_at, claim.grant.at)
        # Without a barrier and not known as granted: a starter may check in while the agent knows
        # the claim. A connected agent does; a disconnected one did until it was cut.
        site = sites.get(claim.site)
        heard_at = now if site is None or site.is_connected else site.disconnected_at
        grace_s = 0.0 if site is None else site.facts.grace_s + claim.wake_s
        return max(begun_at, heard_at + grace_s)


def _is_away(sites: Mapping[SiteName, Site], name: SiteName) -> bool:
    site = sites.get(name)
    return site is not None and not site.is_connected
