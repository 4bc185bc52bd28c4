"""Schedule of a job's claiming tries: the series of ICP, or that of RPP for a job with a deadline
(KOALA 3.2, Deadlines 2.2). Read-only.

Live, a try takes time for its answers and for arming. So the try at the deadline is made
`lead_max_s` before it; there the series of a job with a deadline ends.
"""

from __future__ import annotations

from koala.core.model.job import Attempt, Claiming, Job
from koala.core.model.timeline import considered_at, first_claim_at, next_claim_at, tries
from koala.core.model.values import FOREVER, Instant, Seconds
from koala.core.queries import files_arrive_at, hold_before_start_s, starts_early
from koala.core.state import State


def first_try_at(state: State, job: Job, attempt: Attempt) -> Instant:
    """Return the instant of the first claiming try of a job that was placed just now."""
    if job.deadline_at is not None:
        left = tries_left(state, job)
        return min(attempt.start_at, left[0]) if left else attempt.placed_at
    return first_claim_at(
        attempt.placed_at,
        attempt.transfer_s,
        fraction=job.claim_fraction,
        hold_max_s=hold_before_start_s(state, job),
    )


def next_try_at(state: State, job: Job, attempt: Attempt, now: Instant) -> Instant | None:
    """Return the instant of the try after the one made just now; None if that was the last one."""
    if job.deadline_at is not None:
        return next((at for at in tries_left(state, job) if at > now), None)
    if now >= attempt.start_at:
        return None
    target_at = attempt.start_at
    if starts_early(state, job) and (there_at := files_arrive_at(state, job, attempt)) > now:
        target_at = there_at
    return next_claim_at(
        now, target_at, fraction=job.claim_fraction, step_min_s=_step_min_s(state, attempt)
    )


def rescheduled_try_at(state: State, job: Job, claiming: Claiming) -> Instant:
    """Return the instant of the next try, by the current estimate of the files' arrival. The series
    approaches that arrival instead of the JST; once the files are there, it approaches the JST."""
    attempt = claiming.attempt
    there_at = files_arrive_at(state, job, attempt)
    if not claiming.is_tried or job.tried_at is None:
        return first_claim_at(
            attempt.placed_at,
            there_at - attempt.placed_at,
            fraction=job.claim_fraction,
            hold_max_s=hold_before_start_s(state, job),
        )
    return next_claim_at(
        job.tried_at,
        there_at if there_at > job.tried_at else attempt.start_at,
        fraction=job.claim_fraction,
        step_min_s=_step_min_s(state, attempt),
    )


def _step_min_s(state: State, attempt: Attempt) -> Seconds:
    """Return the shortest useful step between two tries."""
    sites = [state.sites[m.site] for m in attempt.present if m.site is not None]
    return max(state.parameters.claiming_step_min_s, *(site.facts.grace_s for site in sites), 0.0)


def last_try_at(state: State, job: Job, attempt: Attempt) -> Instant:
    """Return the instant of the last try, which does not wait for the answers of the one before."""
    if job.deadline_at is None:
        return attempt.start_at
    return _series(state, job, job.deadline_at)[-1]


def tries_left(state: State, job: Job) -> tuple[Instant, ...]:
    """Return the tries of a job with a deadline that come after its newest one."""
    if job.deadline_at is None:
        return ()
    series = _series(state, job, job.deadline_at)
    return tuple(at for at in series if job.tried_at is None or at > job.tried_at)


def deadline_missed_at(state: State, job: Job) -> Instant:
    """Return the instant after which a job cannot meet its deadline any more; FOREVER if it has
    none."""
    return FOREVER if job.deadline_at is None else job.deadline_at + state.parameters.late_max_s


def _series(state: State, job: Job, deadline_at: Instant) -> tuple[Instant, ...]:
    limits = state.parameters
    grace_s = _grace_s(state, job)
    # With a wait longer than a claim may be held, the hold would run out before the deadline.
    wait_s = min(max(limits.wait_s, limits.wait_graces * grace_s), hold_before_start_s(state, job))
    begin = considered_at(job.submitted_at, deadline_at, wait_s=wait_s)
    return tries(
        begin,
        max(begin, deadline_at - limits.lead_max_s),
        fraction=limits.deadline_fraction,
        tries_max=limits.deadline_tries_max,
        step_min_s=max(limits.claiming_step_min_s, grace_s),
        ends_at_deadline=limits.at_deadline == "kill",
    )


def _grace_s(state: State, job: Job) -> Seconds:
    """Return the largest grace time of the sites that the job may use."""
    facts = [site.facts for site in state.sites.values()]
    return max((f.grace_s for f in facts if f.admits(job.spec.owner)), default=0.0)
