"""Refusals and errors: count them against the site, and keep the job away from it (back-off).

- Every end of a claim that is the site's fault counts against the site; so many in a row make it
  unusable for a while (the circuit breaker in `koala.core.sites`). A refusal is no error.
- A site may refuse a job permanently: an account, a program or a limit, which waiting does not
  change. Such a refusal comes long before the end of the grace time and has a reason.
- A job may fail with a site, by the fault of either. Where jobs are counted (`errors_counted`),
  one job does not close a site to the others, so the job itself goes elsewhere.
- A program may fail at one site alone. A malleable job goes on without it, and grows elsewhere.
- Back-off is exponential: each further trouble with a site doubles the pause, from twice the pause
  after a setback up to the longest time between two scans. Other sites are tried meanwhile.
- A site that registers or is resumed may have been repaired: it may be asked again at once.
"""

from __future__ import annotations

from koala.core.model.charges import Refusal, Trouble
from koala.core.model.claim import Claim
from koala.core.model.grid import GridView, Site
from koala.core.model.job import SITE_FAULTS, ClaimEnd, EndKind, Job, Placing
from koala.core.model.timers import TimerKind
from koala.core.model.values import Instant, JobId, SiteName
from koala.core.sites import record_error, record_launch_failure, reset_errors
from koala.core.state import State


def count_end_for_site(state: State, site: Site, claim: Claim, end: ClaimEnd, now: Instant) -> None:
    """Count the end for or against its site."""
    if end.succeeded:
        if reset_errors(site):
            state.announce_site(site, "usable again: a component ended well", now)
        return
    # A lease may expire because the daemon was down, which is no error of a site.
    is_ours = end.kind is EndKind.LEASE and now - state.started_at < state.parameters.run_lease_s
    if end.kind in SITE_FAULTS and not is_ours:
        reason = end.describe()
        note_error(state, state.jobs[claim.job], site.name, reason, now, since=claim.asked_at)
        count_error(state, site, claim.job, reason, now, kind=end.kind)
    elif claim.is_preempting and claim.grant is None and is_refusal(claim, end, now):
        site.no_preempt_until = now + state.parameters.preempt_rest_s


def is_refusal(claim: Claim, end: ClaimEnd, now: Instant) -> bool:
    """Return True if the claim did not start within its grace time. If the daemon notices first,
    its Stop overtakes the refusal of the site."""
    is_overdue = end.kind is EndKind.STOPPED and now >= claim.grace_until
    return end.kind is EndKind.REFUSED or is_overdue


def count_error(
    state: State, site: Site, job: JobId, reason: str, now: Instant,
    kind: EndKind = EndKind.FAILED,
) -> None:  # fmt: skip
    """Count an error of a site with a job; it may make the site unusable."""
    if site.erring:  # jobs that are over and without claims cannot err again
        owing = {claim.job for claim in state.ledger.values()} | {job}
        site.erring = {
            job_id: times
            for job_id, times in site.erring.items()
            if job_id in owing or (job_id in state.jobs and not state.jobs[job_id].has_ended)
        }
    if kind is EndKind.LAUNCH:
        rests_until = record_launch_failure(site, state.parameters, now)
    else:
        rests_until = record_error(site, job, state.parameters, now)
    if rests_until is not None:
        text = f"unusable after {site.errors} consecutive errors; the last: {reason}"
        state.announce_site(site, text, now)
        state.timers.set(rests_until, TimerKind.PROBE, site.name)


def is_permanent_refusal(claim: Claim, end: ClaimEnd, now: Instant) -> bool:
    """Return True if a claim was refused for another reason than its wait in the site's queue."""
    grace_s = claim.grace_until - claim.asked_at
    is_early = now - claim.asked_at < grace_s / 2
    return end.kind is EndKind.REFUSED and end.reason != "" and is_early


def note_refusal(state: State, job: Job, claim: Claim, end: ClaimEnd, now: Instant) -> None:
    """Back off from a site that refused the job, for longer than the last time."""
    if is_permanent_refusal(claim, end, now):
        _leave(state, job, claim.site, Trouble.REFUSED, end.reason, now, since=claim.asked_at)


def note_error(
    state: State, job: Job, site: SiteName, reason: str, now: Instant, *, since: Instant,
    trouble: Trouble = Trouble.ERRED,
) -> None:  # fmt: skip
    """Back off from a site after an error with a claim or copy that began at `since`. Where each
    error counts against the site, its rest is the only pause, as in the paper."""
    if state.parameters.errors_counted == "jobs" and not job.has_ended:
        _leave(state, job, site, trouble, reason, now, since=since)


def note_failed_program(
    state: State, job: Job, site: SiteName, reason: str, now: Instant, *, since: Instant
) -> None:
    """Back off from a site where a component of a job that goes on has failed: a malleable job
    would join there again at once, and fail again."""
    _leave(state, job, site, Trouble.FAILED, reason, now, since=since)


def _leave(
    state: State, job: Job, site: SiteName, trouble: Trouble, reason: str, now: Instant, *,
    since: Instant,
) -> None:  # fmt: skip
    limits = state.parameters
    last = job.refusals.get(site)
    pause_s = limits.claiming_step_min_s
    if last is not None and _counts(state, job, site):
        if since <= last.at:
            return  # another component of the same try
        pause_s = last.pause_s
    pause_s = min(2 * pause_s, max(limits.claiming_step_min_s, limits.scan_interval_s))
    refusal = Refusal(at=now, pause_s=pause_s, reason=reason, trouble=trouble)
    job.refusals[site] = refusal
    state.timers.set(refusal.again_at, TimerKind.AGAIN, job.id)


def on_back_off_over(state: State, job: Job) -> None:
    """Try a queued job again when the pause of a site is over; a running one may grow there."""
    if job.id in state.malleable:
        state.request_scan()
    if isinstance(job.phase, Placing) and job.deadline_at is None:
        state.request_try(job)


def reset_refusals(job: Job) -> None:
    """Reset refusals once all components are claimed; errors may still come again."""
    for site, refusal in tuple(job.refusals.items()):
        if refusal.trouble is Trouble.REFUSED:
            del job.refusals[site]


def has_refused(state: State, job: Job, site: SiteName) -> bool:
    """Return True if the last trouble with the site was a refusal that still counts."""
    refusal = job.refusals.get(site)
    return refusal is not None and refusal.trouble is Trouble.REFUSED and _counts(state, job, site)


def _counts(state: State, job: Job, site: SiteName) -> bool:
    """Return True if the site was not renewed since the last trouble with it."""
    refusal = job.refusals.get(site)
    return refusal is not None and refusal.at >= state.sites[site].renewed_at


def avoided_sites(state: State, job: Job, now: Instant) -> dict[SiteName, Refusal]:
    """Return the sites from which the job backs off now, for any kind of trouble."""
    return {
        site: refusal
        for site, refusal in job.refusals.items()
        if now < refusal.again_at and _counts(state, job, site)
    }


def sites_closed_to(state: State, job: Job, now: Instant) -> dict[SiteName, Refusal]:
    """Return the sites at which the job is not placed now, because of back-off."""
    return {
        site: refusal
        for site, refusal in avoided_sites(state, job, now).items()
        if refusal.trouble is not Trouble.UNSENT
    }


def without_closed_sites(state: State, job: Job, view: GridView, now: Instant) -> GridView:
    """Remove the sites from which the job backs off from a view of the grid."""
    left = avoided_sites(state, job, now)
    if not left:
        return view
    own = view.copy()
    own.exclude_sources(site for site, refusal in left.items() if refusal.trouble is Trouble.UNSENT)
    own.close(site for site, refusal in left.items() if refusal.trouble is not Trouble.UNSENT)
    return own
