"""Purge ended jobs from the state, so that it does not grow without bound.

No decision of the scheduler depends on ended jobs, and the digest counts purged ones too. A driver
is therefore free to purge or not, also in a replay. It archives what was purged.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from koala.core.model.job import Job
from koala.core.model.parameters import Parameters
from koala.core.model.values import Instant, Seconds
from koala.core.policy_api import NO_POLICIES
from koala.core.scheduler import Scheduler
from koala.core.state import State

CHUNK = 100
"""Jobs purged together: each purge scans all claims and keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgedJob:
    """A purged job, and the idempotency key under which it was submitted."""

    job: Job
    ended_at: Instant
    key: str = ""
    digest: str = ""


def state_of_jobs(*jobs: Job) -> Scheduler:
    """Make a state that has only these jobs, for queries about them."""
    scheduler = Scheduler(Parameters(), NO_POLICIES)
    scheduler.jobs.update({job.id: job for job in jobs})
    return scheduler


def purge_ended_jobs(
    state: State, now: Instant, *, keep: int, keep_s: Seconds, chunk: int = CHUNK
) -> list[PurgedJob]:
    """Purge jobs that ended more than `keep_s` ago, and those beyond `keep`, in batches of `chunk`.

    Jobs with claims in the ledger stay, because a Stop is still pending. So do jobs that ended at
    `now` or later, because the actions of their end may not be done yet."""
    ended = state.ended
    if len(ended) < chunk:
        return []
    newest_of_chunk = next(islice(ended.values(), chunk - 1, None))
    if len(ended) < keep + chunk and newest_of_chunk + keep_s > now:
        return []
    with_claims = {claim.job for claim in state.ledger.values()}
    keys = {job: (key, digest) for key, (job, digest) in state.keys.items()}
    gone: list[PurgedJob] = []
    for job_id, ended_at in list(ended.items()):
        if ended_at >= now or (len(ended) <= keep and ended_at + keep_s > now):
            break
        if job_id in with_claims:
            continue
        key, digest = keys.get(job_id, ("", ""))
        job = state.jobs.pop(job_id)
        del ended[job_id]
        if key:
            del state.keys[key]
            state.keys_forgotten += 1
        state.forgotten[job.phase_name] = state.forgotten.get(job.phase_name, 0) + 1
        gone.append(PurgedJob(job=job, ended_at=ended_at, key=key, digest=digest))
    return gone
