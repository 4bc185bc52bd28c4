"""Jobs that are over leave the state after a while, so that it does not grow for ever.

Nothing that the scheduler decides depends on them, and the digest counts them as before: whoever
drives the core may let it forget or not, and a replay does what it likes. What was forgotten is the
driver's to keep.
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

LOT = 100
"""So many are forgotten together: to see who may go costs a look at all claims and keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """A job that is over, and the idempotency key under which it was submitted."""

    job: Job
    ended_at: Instant
    key: str = ""
    digest: str = ""


def alone(*jobs: Job) -> Scheduler:
    """A state that has nothing but these jobs, for questions about them."""
    scheduler = Scheduler(Parameters(), NO_POLICIES)
    scheduler.jobs.update({job.id: job for job in jobs})
    return scheduler


def forget(
    state: State, now: Instant, *, keep: int, keep_s: Seconds, lot: int = LOT
) -> list[Forgotten]:
    """Let go of jobs that ended more than `keep_s` ago, and of more than `keep`, in lots. Those
    whose claims are still owed a Stop stay, and those that ended at `now` or later: what is to be
    done about their end may not have been done."""
    ended = state.ended
    if len(ended) < lot:
        return []
    newest_of_lot = next(islice(ended.values(), lot - 1, None))
    if len(ended) < keep + lot and newest_of_lot + keep_s > now:
        return []
    owed = {claim.job for claim in state.ledger.values()}
    keys = {job: (key, digest) for key, (job, digest) in state.keys.items()}
    gone: list[Forgotten] = []
    for job_id, ended_at in list(ended.items()):
        if ended_at >= now or (len(ended) <= keep and ended_at + keep_s > now):
            break
        if job_id in owed:
            continue
        key, digest = keys.get(job_id, ("", ""))
        job = state.jobs.pop(job_id)
        del ended[job_id]
        if key:
            del state.keys[key]
            state.keys_forgotten += 1
        state.forgotten[job.phase_name] = state.forgotten.get(job.phase_name, 0) + 1
        gone.append(Forgotten(job=job, ended_at=ended_at, key=key, digest=digest))
    return gone
