"""Sites that a job leaves alone for a while.

Some will not have it: an account, a program or a limit, which no waiting in a queue changes. A
refusal that comes long before the grace time is over and says why is of that kind. With others it
failed, by their fault or its own: what one job meets does not close a site to the rest of them,
where jobs are counted (`errors_counted`), and so it is the job that goes elsewhere.

Asked anew once a second, the site would say the same for as long as somebody needs to change it. So
each trouble with a site in a row makes the job leave it alone for twice as long, from twice the
pause after a setback up to the longest time between two scans; other sites are tried meanwhile. A
site that registers or is resumed may have been changed: it is asked again at once.
"""

from __future__ import annotations

from koala.core.model.charges import Refusal, Trouble
from koala.core.model.grid import GridView
from koala.core.model.job import Claim, ClaimEnd, EndKind, Job, Placing
from koala.core.model.timers import TimerKind
from koala.core.model.values import Instant, SiteName
from koala.core.state import State


def is_for_good(claim: Claim, end: ClaimEnd, now: Instant) -> bool:
    """Whether a claim was refused for another reason than its wait in the site's queue."""
    grace_s = claim.grace_until - claim.asked_at
    is_early = now - claim.asked_at < grace_s / 2
    return end.kind is EndKind.REFUSED and end.reason != "" and is_early


def note_refusal(state: State, job: Job, claim: Claim, end: ClaimEnd, now: Instant) -> None:
    """The site is left alone by the job for a while, and for longer than the last time."""
    if is_for_good(claim, end, now):
        _leave(state, job, claim.site, Trouble.REFUSED, end.reason, now, since=claim.asked_at)


def note_error(
    state: State, job: Job, site: SiteName, reason: str, now: Instant, *, since: Instant,
    trouble: Trouble = Trouble.ERRED,
) -> None:  # fmt: skip
    """The same after an error with a claim or a copy that is as old as `since`. Where each error
    counts against the site, its rest is the only pause, as in the paper."""
    if state.parameters.errors_counted == "jobs" and not job.is_over:
        _leave(state, job, site, trouble, reason, now, since=since)


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


def on_again(state: State, job: Job) -> None:
    """A site that refused it may be asked again."""
    if isinstance(job.phase, Placing) and job.deadline_at is None:
        state.ask_scan_for(job)


def forgive(job: Job) -> None:
    """All components are claimed: refusals are over; errors may yet come again."""
    for site, refusal in tuple(job.refusals.items()):
        if refusal.trouble is Trouble.REFUSED:
            del job.refusals[site]


def has_refused(state: State, job: Job, site: SiteName) -> bool:
    """Its last word to the job was a refusal, and nobody has changed the site since, as far as is
    known."""
    refusal = job.refusals.get(site)
    return refusal is not None and refusal.trouble is Trouble.REFUSED and _counts(state, job, site)


def _counts(state: State, job: Job, site: SiteName) -> bool:
    """The site was not renewed since the last trouble with it."""
    refusal = job.refusals.get(site)
    return refusal is not None and refusal.at >= state.sites[site].renewed_at


def left_alone(state: State, job: Job, now: Instant) -> dict[SiteName, Refusal]:
    """The sites that the job leaves alone now, in whatever way."""
    return {
        site: refusal
        for site, refusal in job.refusals.items()
        if now < refusal.again_at and _counts(state, job, site)
    }


def closed_to(state: State, job: Job, now: Instant) -> dict[SiteName, Refusal]:
    """Those of them where it is not placed now."""
    return {
        site: refusal
        for site, refusal in left_alone(state, job, now).items()
        if refusal.trouble is not Trouble.UNSENT
    }


def open_to(state: State, job: Job, picture: GridView, now: Instant) -> GridView:
    """The picture without what is closed to the job."""
    left = left_alone(state, job, now)
    if not left:
        return picture
    own = picture.copy()
    own.mute(site for site, refusal in left.items() if refusal.trouble is Trouble.UNSENT)
    own.close(site for site, refusal in left.items() if refusal.trouble is not Trouble.UNSENT)
    return own
