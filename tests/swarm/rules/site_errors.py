"""Check of promise 7 from outside: counts each site's errors, and checks that the site rests for
them."""

from __future__ import annotations

from koala.core.model.events import ClaimFenced, ClaimGone, Event, SiteResumed, TransferFailed
from koala.core.model.job import SITE_FAULTS, ClaimEnd, EndKind
from koala.core.model.parameters import Parameters
from koala.core.model.values import ClaimId, Instant, SiteName, UserName
from koala.core.scheduler import Scheduler
from tests.swarm.breach import require


class Errors:
    """Consecutive errors of each site, counted again from the events (KOALA 3.4): of each job, or
    of any. A lost lease may be the daemon's own fault, and a transfer may be known as failed
    already. So these count in `most` only, and not in `least`."""

    def __init__(self, counted: str) -> None:
        self.counted = counted
        self.asked: dict[ClaimId, SiteName] = {}
        self.most: dict[SiteName, list[str]] = {}  # the job of each error
        self.least: dict[SiteName, list[str]] = {}
        self.launches: set[SiteName] = set()  # where a batch job was over before its starter ran
        self._rests: dict[SiteName, Instant | None] = {}  # until when, as seen last
        self._proofs: list[tuple[Event, SiteName]] = []  # not durable yet
        self._gone: set[ClaimId] = set()
        self._durable: list[Event] = []
        self.is_known = True  # no backup was restored, which may know of fewer

    def durable(self, event: Event) -> None:
        """Keep the event: it survives a crash."""
        self._durable.append(event)
        proven = [site for cause, site in self._proofs if cause is event]
        self._durable += [SiteResumed(site=site, by=UserName("")) for site in proven]

    def crashed(self) -> None:
        """Discard events that were not durable."""
        self.most, self.least = {}, {}
        self.launches = set()
        self._gone = set()
        self._proofs = []
        for event in self._durable:
            self.heard(event)

    def heard(self, event: Event) -> None:
        """Count the event for or against a site."""
        match event:
            case ClaimGone(claim=claim, end=end):
                self._ended(claim, end)
            case ClaimFenced(claim=claim):
                self._ended(claim, ClaimEnd(kind=EndKind.FENCED))
            case TransferFailed(at=site, transfer=transfer) if site is not None:
                self.most.setdefault(site, []).append(transfer.partition("/")[0])
            case SiteResumed(site=site):
                self._well(site)
            case _:
                pass

    def _ended(self, claim: ClaimId, end: ClaimEnd) -> None:
        site = self.asked.get(claim)
        if site is None or claim in self._gone:
            return
        self._gone.add(claim)
        job = claim.partition("/")[0]
        if end.succeeded:
            self._well(site)
        elif end.kind in SITE_FAULTS:
            self.most.setdefault(site, []).append(job)
            if end.kind is EndKind.LAUNCH:
                self.launches.add(site)
            elif end.kind is not EndKind.LEASE:
                self.least.setdefault(site, []).append(job)

    def _well(self, site: SiteName) -> None:
        self.most.pop(site, None)
        self.least.pop(site, None)
        self.launches.discard(site)

    def _count(self, jobs: list[str]) -> int:
        return len(set(jobs)) if self.counted == "jobs" else len(jobs)

    def require_rests(
        self, scheduler: Scheduler, event: Event, parameters: Parameters, now: Instant
    ) -> None:
        """Check promise 7: a site becomes unusable after so many consecutive errors, or one batch
        job that was over before its starter ran, and only then. After its rest it is usable again
        by a claim that ended well, or that was made then and has run as long as a rest."""
        threshold = parameters.consecutive_errors_max
        for name, site in scheduler.sites.items() if self.is_known else ():
            until, rested = site.unusable_until, self._rests.get(name)
            if until is not None and rested is None:
                found = self._count(self.most.get(name, []))
                is_due = found >= threshold or name in self.launches
                require(is_due, 7, f"{name} rests after {found} errors in a row")
            least = self._count(self.least.get(name, []))
            if until is None and rested is not None and least >= threshold:
                proofs = [
                    claim
                    for claim in scheduler.ledger.values()
                    if (claim.site == name and claim.asked_at >= rested)
                    if (passed_at := claim.passed_at) is not None
                    if now >= passed_at + parameters.probe_after_s
                ]
                require(bool(proofs), 7, f"{name} is usable after {least} errors")
                self._well(name)
                self._proofs.append((event, name))
            else:
                require(until is not None or least < threshold, 7, f"{name} is usable: {least}")
            self._rests[name] = until
