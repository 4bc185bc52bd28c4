"""Sites that will not have a job: an account, a program or a limit, which no waiting in a queue
changes.

A refusal that comes long before the grace time is over and says why is of that kind. Asked anew
once a second, the site would say the same for as long as somebody needs to change it. So each one
of a site in a row makes the job leave it alone for twice as long, from twice the pause after a
setback up to the longest time between two scans; other sites are tried meanwhile. A site that
registers or is resumed may have been changed: it is asked again at once.
"""

from __future__ import annotations

from koala.core.charges import Refusal
from koala.core.grid import GridView
from koala.core.job import Claim, ClaimEnd, EndKind, Job, Placing
from koala.core.state import State
from koala.core.timers import Bell
from koala.core.values import Instant, SiteName


def is_for_good(claim: Claim, end: ClaimEnd, now: Instant) -> bool:
    """Whether a claim was refused for another reason than its wait in the site's queue."""
    grace_s = claim.grace_until - claim.asked_at
    is_early = now - claim.asked_at < grace_s / 2
    return end.kind is EndKind.REFUSED and end.reason != "" and is_early


def note_refusal(state: State, job: Job, claim: Claim, end: ClaimEnd, now: Instant) -> None:
    """The site is left alone by the job for a while, and for longer than the last time."""
    if not is_for_good(claim, end, now):
        return
    limits = state.parameters
    last = job.refusals.get(claim.site)
    pause_s = limits.claiming_step_min_s
    if last is not None and has_refused(state, job, claim.site):
        if claim.asked_at <= last.at:
            return  # another component of the same try
        pause_s = last.pause_s
    pause_s = min(2 * pause_s, max(limits.claiming_step_min_s, limits.scan_interval_s))
    refusal = Refusal(at=now, pause_s=pause_s, reason=end.reason)
    job.refusals[claim.site] = refusal
    state.timers.set(refusal.again_at, Bell.AGAIN, job.id)


def on_again(state: State, job: Job) -> None:
    """A site that refused it may be asked again."""
    if isinstance(job.phase, Placing) and job.deadline_at is None:
        state.ask_scan_for(job)


def has_refused(state: State, job: Job, site: SiteName) -> bool:
    """Its last word to the job was such a one, and nobody has changed the site since, as far as is
    known."""
    refusal = job.refusals.get(site)
    return refusal is not None and refusal.at >= state.sites[site].renewed_at


def closed_to(state: State, job: Job, now: Instant) -> dict[SiteName, Refusal]:
    """The sites that the job leaves alone now."""
    return {
        site: refusal
        for site, refusal in job.refusals.items()
        if now < refusal.again_at and has_refused(state, job, site)
    }


def open_to(state: State, job: Job, picture: GridView, now: Instant) -> GridView:
    """The picture without what is closed to the job."""
    closed = closed_to(state, job, now)
    if not closed:
        return picture
    own = picture.copy()
    own.close(closed)
    return own
