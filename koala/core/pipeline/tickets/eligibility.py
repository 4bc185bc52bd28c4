"""Eligibility of jobs for tickets: whose components may wait in the queues of busy sites."""

from __future__ import annotations

from koala.core.model.claim import Asked
from koala.core.model.grid import Site
from koala.core.model.job import Job
from koala.core.model.job_spec import StartType
from koala.core.model.values import SiteName
from koala.core.sites import is_usable
from koala.core.state import State


def adopt_tickets(state: State) -> None:
    """Adopt the configured way to wait at a start of the daemon."""
    answer = state.recorder.ask(lambda: None if state.policies.tickets is None else "tickets")
    state.has_tickets = answer is not None


def why_not_queued(state: State, job: Job) -> str:
    """Explain why a job does not wait in local queues, where it would have to; empty if it may."""
    if job.deadline_at is not None:
        return "a job with a deadline starts at that instant, not when its turn comes"
    if any(component.start_type is StartType.NONE for component in job.spec.components):
        return "a component without a barrier would start when its own turn comes"
    if tickets_left(state, job) < (1 if job.spec.split else len(job.spec.components)):
        most = state.parameters.tickets_user_max
        return f"{job.spec.owner} has {most} claims there, as many as tickets_user_max allows"
    return ""


def may_wait_in_queues(state: State, job: Job) -> bool:
    """Return True if a job may have tickets: its components start together, whenever that is, jobs
    of others wait or run somewhere, and its user has tickets left."""
    return (
        state.has_tickets
        and any(is_usable(site) and _has_others(site) for site in state.sites.values())
        and not why_not_queued(state, job)
    )


def are_others_in_the_way(state: State, site: SiteName, processors: int) -> bool:
    """Return True if so many processors cannot be had at a site because of jobs of others. Where
    only Koala's own jobs are in the way, its own queues decide."""
    known = state.sites[site]
    if known.idle() >= processors:
        return False
    return known.reported_queued > 0 or known.facts.processors - known.reported_local < processors


def _has_others(site: Site) -> bool:
    return site.reported_queued > 0 or site.reported_local > 0 or bool(site.reservations)


def tickets_left(state: State, job: Job) -> int:
    """Return the number of further tickets that the job's user may have."""
    owner = job.spec.owner
    waiting = sum(
        claim.is_ticket and isinstance(claim.phase, Asked)
        for claim in state.ledger.values()
        if state.jobs[claim.job].spec.owner == owner
    )
    return state.parameters.tickets_user_max - waiting
