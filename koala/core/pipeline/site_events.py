"""Handlers of events of sites and transfers."""

from __future__ import annotations

from koala.common.protocol.limits import ENDLESS_S
from koala.core.model import events as ev
from koala.core.model.actions import CancelTransfer
from koala.core.model.charges import Trouble
from koala.core.model.claim import Claim, Passed
from koala.core.model.grid import Site
from koala.core.model.job import ClaimEnd, Claiming, EndKind, Queued, Running, Starting
from koala.core.model.timers import TimerKind
from koala.core.model.values import FOREVER, Instant, SiteName
from koala.core.pipeline.claim_end import on_gone
from koala.core.pipeline.claiming import reschedule_claiming_try
from koala.core.pipeline.refusals import count_error, note_error
from koala.core.pipeline.requeueing import set_back
from koala.core.pipeline.resizing.growth import advance_growth, lose_addition
from koala.core.pipeline.start_barrier import advance_start
from koala.core.pipeline.tickets.plans import plan_where_cleared
from koala.core.pipeline.tickets.ticket_events import (
    leave_silent_site,
    leave_without_files,
    on_starts_told,
)
from koala.core.queries import claims_of, copies_under_way, live_attempt
from koala.core.sites import is_probe, note_report, reset_errors
from koala.core.state import State


def on_transfer_finished(state: State, event: ev.TransferFinished, now: Instant) -> None:
    """Mark a copy as complete; its job proceeds when the last input file is there."""
    transfer = state.files.transfers.get(event.transfer)
    if transfer is None or transfer.is_done:
        return
    transfer = state.files.finish(
        transfer, size_bytes=event.size_bytes, took_s=event.took_s, now=now
    )
    if transfer.booked_bps:
        state.request_scan()  # the bandwidth of the link is free again
    attempt = live_attempt(state, transfer.job, transfer.attempt)
    if attempt is None:
        return
    job = state.jobs[transfer.job]
    attempt.copied.append(transfer)
    attempt.fetch_bytes += event.size_bytes
    attempt.fetch_s = max(attempt.fetch_s, now - transfer.started_at)
    for member in attempt.members:
        if event.transfer in member.transfers:
            member.is_fetched = not copies_under_way(state, member, member.site)
    if not any(member.lacks_file for member in attempt.present):
        attempt.fetched_at = now
        state.announce(job, "input files are there", now)
    if isinstance(job.phase, Starting):
        advance_start(state, job.phase, now)
    elif isinstance(job.phase, Running):
        advance_growth(state, attempt, now)
    else:
        reschedule_claiming_try(state, job, now)


def on_transfer_progressed(state: State, event: ev.TransferProgressed, now: Instant) -> None:
    """Handle a progress report of a copy; the claims of its job follow the estimated arrival."""
    transfer = state.files.transfers.get(event.transfer)
    if transfer is None or transfer.is_done:
        return
    state.files.advance(transfer, size_bytes=event.size_bytes, took_s=event.took_s, now=now)
    if live_attempt(state, transfer.job, transfer.attempt) is not None:
        reschedule_claiming_try(state, state.jobs[transfer.job], now)


def on_transfer_failed(state: State, event: ev.TransferFailed, now: Instant) -> None:
    """Count a failed copy against the site at fault, and set its job back unless it was
    released."""
    transfer = state.files.transfers.get(event.transfer)
    if transfer is None or transfer.is_done:
        return
    del state.files.transfers[event.transfer]
    # Tell both ends that the failure is known: the source drops its order, the target its record.
    state.actions.append(
        CancelTransfer(transfer=transfer.id, source=transfer.source, target=transfer.target)
    )
    route = f"from {transfer.source} to {transfer.target}"
    text = f"transfer of {transfer.file} {route} failed: {event.reason}"
    site = state.sites.get(event.at) if event.at is not None else None
    if site is not None:
        trouble = Trouble.UNSENT if site.name == transfer.source else Trouble.ERRED
        note_error(
            state, state.jobs[transfer.job], site.name, text, now,
            since=transfer.started_at, trouble=trouble,
        )  # fmt: skip
        count_error(state, site, transfer.job, text, now)
    phase = state.jobs[transfer.job].phase
    if isinstance(phase, Queued):
        leave_without_files(state, phase.attempt, transfer, text, now)
    elif isinstance(phase, Claiming | Starting):
        set_back(state, phase.attempt, text, now)
    elif isinstance(phase, Running):
        for member in phase.attempt.joining:
            if event.transfer in member.transfers:
                lose_addition(state, phase.attempt, member, text, now)


def on_registered(state: State, event: ev.SiteRegistered, now: Instant) -> None:
    """Mark a site as connected, with the facts that its agent reports, and request a scan."""
    site = state.sites.get(event.site)
    if site is None:
        site = Site(name=event.site, facts=event.facts)
        state.sites[event.site] = site
        state.sites = dict(sorted(state.sites.items()))
    site.facts = event.facts
    site.is_connected = True
    site.renewed_at = now
    site.reported_idle = event.idle
    site.reported_gpus = min(site.reported_gpus, event.facts.resources.gpus)
    gpus = event.facts.resources.gpus
    more = f" and {gpus} GPUs" if gpus else ""
    state.announce_site(site, f"connected with {event.facts.processors} processors{more}", now)
    state.request_scan(site.name)


def on_disconnected(state: State, name: SiteName, now: Instant) -> None:
    """Mark a site as disconnected; its silence starts the timer of the hold fence."""
    site = state.sites.get(name)
    if site is None or not site.is_connected:
        return
    site.is_connected = False
    site.silence = ""
    site.disconnected_at = now
    state.announce_site(site, "disconnected", now)
    state.timers.set(now + state.parameters.hold_fence_s, TimerKind.SILENT, name)


def on_silent(state: State, name: SiteName, now: Instant) -> None:
    """Set back unreleased jobs at a site that was disconnected for longer than a hold lease: their
    claims there are certainly dead.
    """
    site = state.sites[name]
    if site.is_connected:
        return
    silent_at = site.disconnected_at + state.parameters.hold_fence_s
    if silent_at > now:  # it disconnected again since, or leases are longer now
        state.timers.set(silent_at, TimerKind.SILENT, name)
        return
    for attempt in tuple(state.placed.values()):
        phase = state.jobs[attempt.job].phase
        if not any(claim.site == name for claim in claims_of(state, attempt.present)):
            continue
        if isinstance(phase, Queued):
            leave_silent_site(state, attempt, name, now)
        elif isinstance(phase, Claiming | Starting):
            set_back(state, attempt, f"{name} has been silent past the hold lease", now)


def on_reported(state: State, event: ev.SiteReported, now: Instant) -> None:
    """Update a site's figures and the expected starts of its tickets; request a scan if more of it
    is idle than before."""
    site = state.sites.get(event.site)
    if site is None or not site.is_connected:
        return
    if bool(event.silence) != bool(site.silence):
        text = f"unusable: {event.silence}" if event.silence else "usable: its batch system answers"
        state.announce_site(site, text, now)
    site.silence = event.silence
    site.rtt_s = event.rtt_s
    is_emptier = event.local < site.reported_local or event.queued < site.reported_queued
    site.reported_local = event.local
    site.reported_queued = event.queued
    site.outlook = event.outlook
    site.reported_asleep, site.wake_s = event.asleep, event.wake_s
    is_more_idle = max(event.holes, default=(0,))[0] > max(site.holes, default=(0,))[0]
    site.holes = tuple(
        [
            (processors, now + for_s if for_s < ENDLESS_S else FOREVER)
            for processors, for_s in event.holes
        ]
    )
    for name, processors in event.taken:
        if (claim := state.ledger.get(name)) is not None and claim.site == site.name:
            claim.processors = processors
    site.has_told_resources |= event.tells_resources
    is_more_idle |= bool(set(event.reservations or ()) - set(site.reservations or ()))
    site.reservations = event.reservations
    gpus = event.idle_gpus
    is_more_idle |= note_report(site, idle=event.idle, through=event.through, idle_gpus=gpus)
    if is_more_idle:
        state.request_scan(site.name)
    on_starts_told(state, event.starts, now)
    if is_more_idle or is_emptier:
        plan_where_cleared(state, site, now)


def on_drained(state: State, event: ev.SiteDrained, now: Instant) -> None:
    """Stop new claims at a site."""
    site = state.sites.get(event.site)
    if site is not None and not site.is_drained:
        site.is_drained = True
        site.drained_at = now
        state.announce_site(site, f"drained by {event.by or 'an operator'}", now)


def on_resumed(state: State, event: ev.SiteResumed, now: Instant) -> None:
    """Allow new claims at a site again, reset its errors, and request a scan."""
    site = state.sites.get(event.site)
    if site is None:
        return
    site.is_drained = False
    site.renewed_at = now
    reset_errors(site)
    state.announce_site(site, f"resumed by {event.by or 'an operator'}", now)
    state.request_scan()


def on_declared_lost(state: State, event: ev.SiteDeclaredLost, now: Instant) -> None:
    """Fence all claims of a site at once, by an operator's word that nothing of Koala runs
    there."""
    site = state.sites.get(event.site)
    if site is None:
        return
    state.announce_site(site, f"declared lost by {event.by or 'an operator'}", now)
    end = ClaimEnd(kind=EndKind.FENCED, reason="its site was declared lost", ended_at=now)
    for claim in [c.id for c in state.ledger.values() if c.site == event.site]:
        on_gone(state, ev.ClaimGone(claim=claim, end=end), now)


def on_rested(state: State, name: SiteName, now: Instant) -> None:
    """Let the next claim probe a site whose rest after errors is over, or end the probation by one
    that has run as long as a rest: it may run for days."""
    site = state.sites[name]
    if site.unusable_until is None or site.unusable_until > now:
        return
    if not site.is_probing:
        site.is_probing = True
        state.announce_site(site, "rested; the next claim is a probe", now)
    elif any(_is_proof(state, claim, site, now) for claim in state.ledger.values()):
        reset_errors(site)
        state.announce_site(site, "usable again: its probe runs well", now)
    else:
        return
    state.request_scan()


def _is_proof(state: State, claim: Claim, site: Site, now: Instant) -> bool:
    """Return True if a claim is a probe of the site that has run as long as a rest."""
    if claim.site != site.name or not isinstance(claim.phase, Passed) or not is_probe(claim, site):
        return False
    return now >= claim.phase.passed_at + state.parameters.probe_after_s
