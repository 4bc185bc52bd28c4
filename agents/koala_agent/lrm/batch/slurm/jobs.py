"""States and ends of jobs, as `squeue` and `scontrol` tell them."""

from __future__ import annotations

import re
from dataclasses import replace
from signal import SIGKILL

from koala.errors import LocalManagerError
from koala_agent.lrm.batch.slurm.gates import is_gated
from koala_agent.lrm.batch.slurm.queue import LIMITS, NEVER, Row
from koala_agent.lrm.dialect import BatchJob, JobState, is_count
from koala_agent.lrm.local_manager import EndCause

STATES: dict[str, JobState] = {
    "PENDING": JobState.QUEUED,
    "CONFIGURING": JobState.RUNNING,
    "RUNNING": JobState.RUNNING,
    "COMPLETING": JobState.RUNNING,
    "SUSPENDED": JobState.RUNNING,
    "STOPPED": JobState.RUNNING,
    "SIGNALING": JobState.RUNNING,
    "STAGE_OUT": JobState.RUNNING,
    "RESIZING": JobState.RUNNING,
    "REQUEUED": JobState.QUEUED,
    "REQUEUE_HOLD": JobState.STUCK,
    "REQUEUE_FED": JobState.QUEUED,
    "SPECIAL_EXIT": JobState.STUCK,
    "RESV_DEL_HOLD": JobState.STUCK,
}
"""States of jobs that have not ended (squeue(1), JOB STATE CODES)."""

ENDS: dict[str, EndCause] = {
    "COMPLETED": EndCause.EXITED,
    "FAILED": EndCause.EXITED,
    "OUT_OF_MEMORY": EndCause.EXITED,
    "TIMEOUT": EndCause.TIME_LIMIT,
    "CANCELLED": EndCause.CANCELLED_BY_SITE,
    "DEADLINE": EndCause.CANCELLED_BY_SITE,
    "PREEMPTED": EndCause.CANCELLED_BY_SITE,
    "REVOKED": EndCause.CANCELLED_BY_SITE,
    "NODE_FAIL": EndCause.UNREACHABLE,
    "BOOT_FAIL": EndCause.LOST,
    "LAUNCH_FAILED": EndCause.LOST,
    "RECONFIG_FAIL": EndCause.LOST,
}
"""States of jobs that have ended. A cancel is the site's unless we requested it."""


def job_of(row: Row) -> BatchJob:
    # A member of a job array or of a heterogeneous job has its place behind the number.
    plain = re.fullmatch(r"([0-9]{1,15})(?:[_+.].*)?", row.number)
    wait_status = _wait_status(row.code)
    if plain is None or wait_status is None:
        text = " ".join(row)[:200]
        raise LocalManagerError(f"squeue: {text!r} is not a row of a listing", transient=True)
    if row.state in ENDS:
        reservation = f", or the end of reservation {row.reservation}" if _is_reserved(row) else ""
        reason = f"{row.limit}{reservation}" if row.state == "TIMEOUT" else row.reason
        ended = end_of(plain[1], row.name, row.state, wait_status, reason)
        ended = replace(ended, owner=row.owner)
        words = f"{ended.reason} on {row.nodes}"
        if _is_reserved(row) and row.reason == "JobLaunchFailure":  # of jobs that run then, too
            words = f"{ended.reason}{reservation}"
        elif row.state != "CANCELLED" or not row.nodes or wait_status:  # its script ran
            return ended
        return replace(ended, cause=EndCause.CANCELLED_BEGUN, reason=words)
    now = STATES.get(row.state, JobState.RUNNING)
    cause = EndCause.LOST
    is_shut = now is JobState.QUEUED and is_gated(row.comment, row.reason)
    if now is JobState.QUEUED and row.reason.startswith(NEVER) and not is_shut:
        now, cause = JobState.STUCK, EndCause.WITHDRAWN
    if row.state == "RESV_DEL_HOLD":  # its reservation is over, or was deleted
        cause = EndCause.CANCELLED_BY_SITE
    has_processors = now is JobState.RUNNING and is_count(row.processors)
    return BatchJob(
        number=plain[1],
        name=row.name,
        owner=row.owner,
        state=now,
        cause=cause,
        reason=row.reason,
        is_again=is_count(row.restarts) and int(row.restarts) > 0,
        is_limited=now is JobState.QUEUED and row.reason.startswith(LIMITS),
        is_gated=is_shut,
        processors=int(row.processors) if has_processors else 0,
    )


def _is_reserved(row: Row) -> bool:
    return row.reservation not in ("", "(null)")


def _wait_status(code: str) -> int | None:
    """Parse an `exit_code` of a listing; None when it is none."""
    if is_count(code.removeprefix("-")):
        return int(code)
    both = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", code)
    return None if both is None else int(both[1]) << 8 | int(both[2])


def end_of(number: str, name: str, state: str, wait_status: int, reason: str) -> BatchJob:
    cause = ENDS[state]
    number_of_signal = wait_status & 0x7F
    status = -number_of_signal if number_of_signal else wait_status >> 8
    if state == "OUT_OF_MEMORY" and status == 0:
        status = -SIGKILL
    words = "" if state == "COMPLETED" else f"Slurm: {state}"
    if words and reason not in ("", "None"):
        words = f"{words} ({reason})"
    return BatchJob(
        number=number,
        name=name,
        state=JobState.ENDED,
        cause=cause,
        exit_status=status if cause is EndCause.EXITED else None,
        reason=words,
    )
