"""What an agent tells, as events of the core. Pure.

Only what is news becomes an event: agents say everything again at each registration, and a journal
of repetitions helps nobody. A report about another site's claim is nobody's event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from koala.core import events as ev
from koala.core.job import Claim, ClaimPhase
from koala.core.scheduler import Scheduler
from koala.core.values import Seconds, SiteName
from koala.wire.codec import (
    ClaimNews,
    FileNews,
    News,
    PathsNews,
    Registration,
    SiteNews,
    TransferNews,
)


def of_registration(
    registration: Registration, inventory: Sequence[News], scheduler: Scheduler
) -> Iterator[ev.Event]:
    """A registration and its whole inventory; to be handled one by one while they are taken."""
    name = registration.site
    site = scheduler.sites.get(name)
    if site is not None and site.is_connected:
        yield ev.SiteDisconnected(site=name)  # the newest session wins
    yield ev.SiteRegistered(
        site=name,
        facts=registration.facts,
        idle=min(registration.idle, registration.facts.processors),
    )
    for news in inventory:
        yield from of_news(news, name, scheduler, rtt_s=0.0)
    held = {news.file for news in inventory if isinstance(news, FileNews) and not news.is_removed}
    for file, replica in tuple(scheduler.replicas.items()):
        if name in replica.sites and file not in held:
            yield ev.ReplicaRemoved(file=file, site=name)


def of_news(
    news: News, site: SiteName, scheduler: Scheduler, *, rtt_s: Seconds
) -> Iterator[ev.Event]:
    """The events of one report; each is to be handled before the next is asked for."""
    match news:
        case ClaimNews():
            claim = scheduler.ledger.get(news.claim)
            if claim is not None and claim.site == site:
                yield from _of_claim(news, claim)
        case PathsNews():
            claim = scheduler.ledger.get(news.claim)
            if claim is not None and claim.site == site:
                yield ev.PathsTried(claim=claim.id, problem=news.problem)
        case SiteNews():
            yield from _of_site(news, site, scheduler, rtt_s)
        case TransferNews():
            yield from _of_transfer(news, site, scheduler)
        case FileNews():
            yield from _of_file(news, site, scheduler)
        case _:
            pass


def is_foreign(news: ClaimNews, site: SiteName, scheduler: Scheduler) -> bool:
    """The claim is another site's."""
    claim = scheduler.ledger.get(news.claim)
    return claim is not None and claim.site != site


def _of_claim(news: ClaimNews, claim: Claim) -> Iterator[ev.Event]:
    is_held = news.phase in (ClaimPhase.GRANTED, ClaimPhase.ARMED, ClaimPhase.PASSED)
    if (is_held or news.passed_at is not None) and claim.phase is ClaimPhase.ASKED:
        yield ev.ClaimGranted(
            claim=claim.id,
            nonce=news.nonce,
            batch_job=news.batch_job,
            address=news.address,
            hosts=news.hosts,
        )
    if news.phase is ClaimPhase.ARMED and news.armed is not None:
        yield ev.ClaimArmed(claim=claim.id, number=news.armed)
    if news.passed_at is not None and claim.passed_at is None:
        yield ev.ClaimPassed(claim=claim.id, passed_at=news.passed_at)
    if news.end is not None:
        yield ev.ClaimGone(claim=claim.id, end=news.end, batch_job=news.batch_job)


def _of_site(
    news: SiteNews, name: SiteName, scheduler: Scheduler, rtt_s: Seconds
) -> Iterator[ev.Event]:
    site = scheduler.sites.get(name)
    if site is not None and news.processors not in (0, site.facts.processors):
        facts = replace(site.facts, processors=news.processors)
        yield ev.SiteRegistered(site=name, facts=facts, idle=news.idle)
    yield ev.SiteReported(
        site=name,
        idle=news.idle,
        through=news.through,
        rtt_s=rtt_s,
        local=news.local_processors,
    )


def _of_transfer(news: TransferNews, site: SiteName, scheduler: Scheduler) -> Iterable[ev.Event]:
    transfer = scheduler.files.transfers.get(news.transfer)
    if transfer is None or site not in (transfer.source, transfer.target):
        return ()
    if not news.is_finished:
        return (ev.TransferFailed(transfer=news.transfer, at=news.at, reason=news.reason),)
    if site != transfer.target:
        return ()  # only who fetched it knows that it is whole
    return (
        ev.TransferFinished(transfer=news.transfer, size_bytes=news.size_bytes, took_s=news.took_s),
    )


def _of_file(news: FileNews, site: SiteName, scheduler: Scheduler) -> Iterable[ev.Event]:
    known = scheduler.replicas.get(news.file)
    is_known = known is not None and site in known.sites
    if news.is_removed:
        return (ev.ReplicaRemoved(file=news.file, site=site),) if is_known else ()
    if known is not None and is_known:
        is_same = (known.size_bytes, known.checksum) == (news.size_bytes, news.checksum)
        if is_same:
            return ()
    return (
        ev.ReplicaAdded(
            file=news.file, site=site, size_bytes=news.size_bytes, checksum=news.checksum
        ),
    )
