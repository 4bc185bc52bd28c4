"""Read-only queries about the allowances of users and groups."""

from __future__ import annotations

from koala.core.model.allowances import NO_LIMITS, Payer, Usage, asked_by, payers_of
from koala.core.model.job import Job
from koala.core.model.job_spec import JobSpec
from koala.core.model.values import Seconds
from koala.core.state import State

UNLIMITED = 2**31


def usage_of(state: State, payer: Payer) -> Usage:
    """Return what the placed jobs of a user or a group have."""
    return state.usage.get(payer, Usage())


def excess_of(state: State, job: Job) -> str:
    """Return which limit of its user or group the job would exceed if it were placed now; empty
    for none."""
    if not state.allowances:  # long queues are scanned often
        return ""
    used = [(payer, usage_of(state, payer)) for payer in payers_of(job.spec)]
    return next(filter(None, [_excess(state, job.spec, payer, has) for payer, has in used]), "")


def excess_alone(state: State, spec: JobSpec) -> str:
    """Return which limit of its user or group a job would exceed if it were the only one; empty
    for none."""
    limits = [_excess(state, spec, payer, Usage()) for payer in payers_of(spec)]
    return next(filter(None, limits), "")


def _excess(state: State, spec: JobSpec, payer: Payer, used: Usage) -> str:
    allowance = state.allowances.get(payer)
    if allowance is None:
        return ""
    asked = Usage()
    asked.add(*asked_by(spec))
    if spec.split is not None:
        asked.processors = spec.split.least
    for what, has, wants, most in (
        ("jobs", used.jobs, asked.jobs, allowance.jobs),
        ("processors", used.processors, asked.processors, allowance.processors),
        ("GPUs", used.gpus, asked.gpus, allowance.gpus),
    ):
        if most is not None and wants and has + wants > most:
            whose, used_now = payer.replace(":", " "), f"has {has} of {most} {what} in use"
            limit = used_now if has else f"may have {most} {what}"
            return f"{whose} {limit}, and this job needs {wants}"
    return ""


def room_of(state: State, job: Job) -> int:
    """Return the processors that a placed job may have beside its own, as far as the limits of its
    user and group say."""
    room = UNLIMITED
    for payer in payers_of(job.spec) if state.allowances else ():
        limit, used = state.allowances.get(payer, NO_LIMITS), usage_of(state, payer)
        if limit.processors is not None:
            room = min(room, limit.processors - used.processors)
        gpus = job.spec.components[0].gpus or 0
        if limit.gpus is not None and gpus:
            parts = (limit.gpus - used.gpus) // gpus
            room = min(room, parts * job.spec.components[0].processors)
    return max(0, room)


def processors_left(state: State, job: Job) -> int:
    """Return the processors that the limits of its user and group leave to a flexible job, which it
    needs no more than `least` of."""
    split = job.spec.split
    assert split is not None
    left = split.total
    for payer in payers_of(job.spec) if state.allowances else ():
        most = state.allowances.get(payer, NO_LIMITS).processors
        if most is not None:
            left = min(left, most - usage_of(state, payer).processors)
    return max(split.least, left)


def hold_limit_of(state: State, payer: Payer) -> Seconds:
    """Return the processor-seconds that claims of a payer may hold in 24 hours: its own limit, and
    for users without one the parameter."""
    own = state.allowances.get(payer, NO_LIMITS).hold_s
    if own is not None:
        return own
    return state.parameters.hold_budget_user_s if payer.startswith("user:") else float("inf")


def hold_left_of(state: State, job: Job) -> Seconds:
    """Return the processor-seconds that the hold budgets of the job's user and group have left."""
    left_s = float("inf")
    for payer in payers_of(job.spec):
        budget = state.payer_budgets.get(payer)
        spent_s = 0.0 if budget is None else budget.spent_s
        left_s = min(left_s, hold_limit_of(state, payer) - spent_s)
    return max(0.0, left_s)
