"""A grid without faults, as seen by the core: what its sites would say next."""

from __future__ import annotations

from collections.abc import Iterator

from koala.core.model import events as ev
from koala.core.model.claim import Asked, Claim, Passed, Stopped
from koala.core.model.job import ClaimEnd, EndKind
from koala.core.model.values import Instant, SiteName
from koala.core.scheduler import Scheduler


def next_events(scheduler: Scheduler, now: Instant) -> Iterator[ev.Event]:
    """Generate events of all claims and copies, each once; none when all wait for an instant."""
    for claim in list(scheduler.ledger.values()):
        found = _of_claim(scheduler, claim, now)
        if claim.id in scheduler.ledger and found is not None:
            yield found
    for transfer in list(scheduler.files.transfers.values()):
        if not transfer.is_done:
            yield ev.TransferFinished(
                transfer=transfer.id, size_bytes=transfer.size_bytes, took_s=0.1
            )


def report(scheduler: Scheduler, name: SiteName) -> ev.SiteReported:
    """Report all processors of a site that nobody claims as idle."""
    site = scheduler.sites[name]
    idle = site.facts.processors - _held(scheduler, name)
    return ev.SiteReported(site=name, idle=max(0, idle), through=site.asks)


def _held(scheduler: Scheduler, name: SiteName) -> int:
    claims = [c for c in scheduler.ledger.values() if c.site == name]
    return sum(claim.processors for claim in claims if not isinstance(claim.phase, Asked))


def _of_claim(scheduler: Scheduler, claim: Claim, now: Instant) -> ev.Event | None:
    arming = scheduler.jobs[claim.job].arming
    match claim.phase:
        case Stopped():
            return ev.ClaimGone(claim=claim.id, end=ClaimEnd(kind=EndKind.STOPPED))
        case Asked():
            room = scheduler.sites[claim.site].facts.processors - _held(scheduler, claim.site)
            if room >= claim.processors:
                return ev.ClaimGranted(claim=claim.id, nonce=f"{claim.id}#1")
            return ev.ClaimGone(claim=claim.id, end=ClaimEnd(kind=EndKind.REFUSED))
        case Passed():
            end = ClaimEnd(kind=EndKind.EXITED, statuses=(0,), ended_at=now)
            return ev.ClaimGone(claim=claim.id, end=end)
        case _ if arming is not None and claim.id in arming.waiting:
            return ev.ClaimArmed(claim=claim.id, number=arming.number)
        case _ if claim.may_run:
            return ev.ClaimPassed(claim=claim.id, passed_at=now)
        case _:
            return None
