"""Translation of agents' reports into events of the core. Pure.

- Only changes become events: agents repeat everything at each registration, and the journal needs
  no repetitions.
- A report about another site's claim is ignored.
- A site can report a failed transfer only of itself and of the transfer's other end.
- Instants are clamped to plausible ones, because users are charged by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from koala.common.protocol import messages
from koala.common.protocol.limits import ENDLESS_S
from koala.common.protocol.names import AWAY, SILENT
from koala.core.model import events as ev
from koala.core.model.claim import Claim
from koala.core.model.grid import Site, SiteFacts
from koala.core.model.replicas import Transfer
from koala.core.model.values import Instant, Seconds, SiteName, TransferId
from koala.core.scheduler import Scheduler
from koala.daemon.agents.replica_reports import ReplicaReports
from koala.daemon.agents.site_facts import facts_of

CLOCK_ERROR_S = 60.0
"""Greatest accepted difference between a site's instants and the daemon's own."""
TOOK_S_MIN = 1e-4
"""Shortest duration of a copy; a shorter one would make the link infinitely fast."""


def registration_events(
    registration: messages.Register,
    inventory: Sequence[messages.AgentReport],
    scheduler: Scheduler,
    replica_reports: ReplicaReports,
    now: Instant,
) -> Iterator[ev.Event]:
    """Yield the events of a registration and its inventory; handle each before the next."""
    name = registration.site
    site = scheduler.sites.get(name)
    if site is not None and site.is_connected:
        yield ev.SiteDisconnected(site=name)  # the newest session wins
    facts = facts_of(registration.facts)
    if site is not None:  # until its first report says more
        gate = facts.gate or site.facts.gate
        facts = replace(facts, resources=site.facts.resources, gate=gate)
    yield ev.SiteRegistered(site=name, facts=facts, idle=min(registration.idle, facts.processors))
    replica_reports.reset(name)
    for report in inventory:
        if isinstance(report, messages.FileFound | messages.FileRemoved):
            yield from replica_reports.events_of(report, name, scheduler)
        else:
            yield from report_events(report, name, scheduler, rtt_s=0.0, now=now)
    for file, replica in tuple(scheduler.replicas.items()):
        if name in replica.sites and not replica_reports.is_reported(name, file):
            yield from replica_reports.events_of(messages.FileRemoved(file=file), name, scheduler)


def report_events(
    report: messages.AgentReport,
    site: SiteName,
    scheduler: Scheduler,
    *,
    rtt_s: Seconds,
    now: Instant,
) -> Iterator[ev.Event]:
    """Yield the events of one report; handle each before asking for the next.

    Reports of files are `ReplicaReports`' part.
    """
    match report:
        case messages.Report():
            claim = scheduler.ledger.get(report.claim)
            if claim is not None and claim.site == site:
                yield from _of_claim(_plausible(report, claim, now), claim)
        case messages.PathsReport():
            claim = scheduler.ledger.get(report.claim)
            if claim is not None and claim.site == site:
                yield ev.PathsTried(
                    claim=claim.id,
                    problem=report.problem,
                    reached=report.reached,
                    ports=report.ports,
                )
        case messages.PortsUsed():
            claim = scheduler.ledger.get(report.claim)
            if claim is not None and claim.site == site:
                yield ev.PortsUsed(claim=claim.id, ports=report.ports)
        case messages.SiteFigures():
            yield from _of_site(report, site, scheduler, rtt_s)
        case messages.TransferProgress() | messages.TransferFinished() | messages.TransferFailed():
            yield from _of_copy(report, site, scheduler, now)
        case _:
            pass


def is_foreign(report: messages.Report, site: SiteName, scheduler: Scheduler) -> bool:
    """Return True when the claim belongs to another site."""
    claim = scheduler.ledger.get(report.claim)
    return claim is not None and claim.site != site


def _plausible(report: messages.Report, claim: Claim, now: Instant) -> messages.Report:
    """Clamp the instants of a report to between claiming and now, give or take clock errors, and
    its statuses to the number of processes."""
    end = report.end
    if end is not None:
        end = replace(end, statuses=end.statuses[: claim.processors])
    if end is not None and end.ended_at is not None:
        end = replace(end, ended_at=_between(claim.asked_at, end.ended_at, now))
    passed_at = report.passed_at
    if passed_at is not None:
        passed_at = _between(claim.asked_at, passed_at, now)
    return replace(report, passed_at=passed_at, end=end)


def _between(asked_at: Instant, at: Instant, now: Instant) -> Instant:
    return min(max(at, asked_at - CLOCK_ERROR_S), now + CLOCK_ERROR_S)


def _of_claim(report: messages.Report, claim: Claim) -> Iterator[ev.Event]:
    is_held = report.state in (
        messages.ReportState.GRANTED,
        messages.ReportState.ARMED,
        messages.ReportState.PASSED,
    )
    if (is_held or report.passed_at is not None) and claim.grant is None:
        yield ev.ClaimGranted(
            claim=claim.id,
            nonce=report.nonce,
            batch_job=report.batch_job,
            address=report.address,
            hosts=report.hosts,
        )
    if report.state is messages.ReportState.ARMED and report.armed is not None:
        yield ev.ClaimArmed(claim=claim.id, number=report.armed)
    if report.passed_at is not None and claim.passed_at is None:
        yield ev.ClaimPassed(claim=claim.id, passed_at=report.passed_at)
    if report.end is not None:
        yield ev.ClaimGone(claim=claim.id, end=report.end, batch_job=report.batch_job)


def contradicts_facts(report: messages.SiteFigures, facts: SiteFacts) -> bool:
    """Return True if a site's figures name another size, other resources, or another gate than its
    facts."""
    is_resized = report.processors not in (0, facts.processors)
    return is_resized or (report.resources, report.gate) != (facts.resources, facts.gate)


def _of_site(
    report: messages.SiteFigures, name: SiteName, scheduler: Scheduler, rtt_s: Seconds
) -> Iterator[ev.Event]:
    site = scheduler.sites.get(name)
    # An agent whose batch system has not answered yet knows its configuration alone.
    is_silent = bool(report.trouble) and report.resources == messages.NO_RESOURCES
    if site is not None and is_silent:
        report = replace(report, resources=site.facts.resources, gate=site.facts.gate)
    if site is not None and contradicts_facts(report, site.facts):
        processors = report.processors or site.facts.processors
        facts = replace(
            site.facts, processors=processors, resources=report.resources, gate=report.gate
        )
        yield ev.SiteRegistered(site=name, facts=facts, idle=report.idle)
    yield ev.SiteReported(
        site=name,
        idle=report.idle,
        through=report.through,
        rtt_s=rtt_s,
        local=report.local_processors,
        idle_gpus=min(report.idle_gpus, report.resources.gpus),
        tells_resources=not is_silent,
        silence=report.trouble if SILENT in report.trouble or AWAY in report.trouble else "",
        queued=report.foreign_queued,
        asleep=report.asleep,
        wake_s=report.wake_s,
        holes=tuple((hole.processors, hole.for_s) for hole in report.holes),
        taken=tuple(
            (figure.claim, figure.processors)
            for figure in report.taken
            if (claim := scheduler.ledger.get(figure.claim)) is not None
            and claim.site == name
            and claim.processors != figure.processors > 0
        ),
        starts=tuple(
            (wait.claim, wait.start_in_s)
            for wait in report.waits
            if (claim := scheduler.ledger.get(wait.claim)) is not None and claim.site == name
        ),
        outlook=tuple((row.processors, row.run_s, row.start_in_s) for row in report.outlook),
        reservations=report.reservations if report.lists_reservations else None,
    )


def with_round_trip(
    report: messages.SiteFigures, site: Site, rtt_s: Seconds, now: Instant
) -> ev.SiteReported:
    """Return the last report of a site with another round trip; what counts time from that report
    on is as the core knows it."""
    return ev.SiteReported(
        site=site.name,
        idle=report.idle,
        through=report.through,
        rtt_s=rtt_s,
        local=report.local_processors,
        idle_gpus=report.idle_gpus,
        tells_resources=False,  # the report itself did
        silence=site.silence,
        queued=report.foreign_queued,
        outlook=site.outlook,
        asleep=site.reported_asleep,
        wake_s=site.wake_s,
        holes=tuple((count, min(until - now, ENDLESS_S)) for count, until in site.holes),
        reservations=site.reservations,
    )


def _of_copy(
    report: messages.CopyReports, site: SiteName, scheduler: Scheduler, now: Instant
) -> Iterable[ev.Event]:
    """Return the event of a report of a copy; none for a repetition. Either end may report a
    failure, only the target anything else."""
    transfer = scheduler.files.transfers.get(TransferId(report.transfer))
    if transfer is None or site not in (transfer.source, transfer.target):
        return ()
    if isinstance(report, messages.TransferFailed):
        at = next((end for end in (transfer.source, transfer.target) if end == report.at), None)
        return (ev.TransferFailed(transfer=transfer.id, at=at, reason=report.reason),)
    took_s = _possible(report.took_s, transfer, now)
    size_bytes = min(report.size_bytes, transfer.size_bytes)
    if site != transfer.target:
        return ()
    if isinstance(report, messages.TransferFinished):
        return (ev.TransferFinished(transfer=transfer.id, size_bytes=size_bytes, took_s=took_s),)
    if transfer.is_done or size_bytes == transfer.moved_bytes:
        return ()
    return (ev.TransferProgressed(transfer=transfer.id, size_bytes=size_bytes, took_s=took_s),)


def _possible(took_s: Seconds, transfer: Transfer, now: Instant) -> Seconds:
    """Clamp a duration to between what a clock can measure and the transfer's age."""
    return min(max(took_s, TOOK_S_MIN), max(now - transfer.started_at, TOOK_S_MIN))
