"""Leaving: a site is left, or a hold is given back."""

from __future__ import annotations

from koala.core.model.grid import Site
from koala.core.model.job import Attempt, Member
from koala.core.model.values import Instant, SiteName
from koala.core.pipeline.copying import drop_copies_elsewhere, move_to
from koala.core.pipeline.ending import drop_member, stop_claim, withdraw_tickets
from koala.core.pipeline.requeueing import set_back
from koala.core.queries import claim_of, is_optional_member
from koala.core.sites import is_usable
from koala.core.state import State
from koala.core.ticket_sites import sites_of


def is_shut(site: Site) -> bool:
    return site.is_connected and not is_usable(site)


def leave_site(
    state: State, attempt: Attempt, member: Member, site: SiteName, reason: str, now: Instant
) -> bool:
    """Go on without a site: at the others, or without the component if it is optional. Set the job
    back and return False if it needs the site."""
    if member.others and (member.claim is None or site != member.site):
        withdraw_tickets(state, member, at=site)
        first, *others = [queued_at for queued_at in sites_of(member) if queued_at != site]
        move_to(state, member, first, others=others)
        drop_copies_elsewhere(state, attempt, member, now)
        return True
    job = state.jobs[attempt.job]
    if is_optional_member(job, member.component) and len(attempt.present) > job.needed:
        drop_member(state, attempt, member, reason, now)
        return True
    set_back(state, attempt, reason, now)
    return False


def give_back(state: State, attempt: Attempt, member: Member, reason: str, now: Instant) -> None:
    """Give back the processors that a component holds; its next ticket keeps a place."""
    job = state.jobs[attempt.job]
    claim = claim_of(state, member)
    if claim is None:
        return
    stop_claim(state, claim)
    end_hold(member, now)
    label = job.spec.label(member.component)
    text = f"component {label} gives back {claim.processors} processors at {claim.site}: {reason}"
    state.announce(job, text, now)


def end_hold(member: Member, now: Instant) -> None:
    """Note that a component holds no more; what was refused a while ago may be asked again."""
    member.claim = member.claimed_at = member.tickets_max = None
    member.not_booked = member.moved_from = None
    member.given_back_at = now
