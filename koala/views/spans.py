"""Spans of a job that is over: its course as a tree of named intervals, for traces. Pure.

The first span is the whole job; all others are its children. Instants are epoch seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from koala.core.model.charges import Charge
from koala.core.model.job import SITE_FAULTS, Attempt, Failed, Job, Terminal
from koala.core.model.job_spec import StartType
from koala.core.model.values import Instant, claim_numbers

Value: TypeAlias = str | int | float | bool
_FAULTS = frozenset(kind.value for kind in SITE_FAULTS)


class SpanName(StrEnum):
    """Name of a span; a trace has one `job` and one `submit`, and several of each other."""

    JOB = "job"
    SUBMIT = "submit"
    PLACEMENT = "placement"
    TRANSFER = "transfer"
    CLAIM = "claim"
    BARRIER = "barrier"
    RUN = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """An interval with what is known about it; `error` is empty unless it failed."""

    name: SpanName
    since: Instant
    until: Instant
    attributes: Mapping[str, Value]
    error: str = ""


def job_spans(
    job: Job, ended: Terminal, *, attempts: Sequence[Attempt], charges: Sequence[Charge]
) -> list[Span]:
    """Lay out a job that is over.

    `attempts` are those that are known, in order; `charges` are its claims in all attempts. A claim
    without an end was still being stopped when the job ended.
    """
    spans = [_whole(job, ended), _span(SpanName.SUBMIT, job.submitted_at, job.submitted_at, {})]
    spans += _placements(job, ended, attempts)
    for attempt in attempts:
        spans += _copies(attempt)
    for charge in charges:
        spans += _claim_spans(job, charge, ended.at)
    return spans


def _whole(job: Job, ended: Terminal) -> Span:
    attributes: dict[str, Value] = {
        "koala.job": job.id,
        "koala.job.name": job.spec.name,
        "koala.user": job.spec.owner,
        "koala.priority": job.spec.priority.value,
        "koala.outcome": job.phase_name.lower(),
        "koala.components": len(job.spec.components),
        "koala.processors": job.processors,
        "koala.attempts": job.attempts,
    }
    error = ended.reason if isinstance(ended, Failed) else ""
    return _span(SpanName.JOB, job.submitted_at, ended.at, attributes, error)


def _placements(job: Job, ended: Terminal, attempts: Sequence[Attempt]) -> Iterator[Span]:
    """Yield the time in the placement queue before each known attempt and a queued job's end."""
    queued_at = {setback.attempt + 1: setback.at for setback in job.setbacks}
    for attempt in attempts:
        since = queued_at.get(attempt.number)
        if since is None:
            since = job.submitted_at if attempt.number == 1 else attempt.placed_at
        attributes = {"koala.attempt": attempt.number}
        yield _span(SpanName.PLACEMENT, since, attempt.placed_at, attributes)
    if ended.attempt is None:
        since = queued_at.get(job.attempts + 1, job.submitted_at)
        attributes = {"koala.attempt": job.attempts + 1}
        error = ended.reason if isinstance(ended, Failed) else ""
        yield _span(SpanName.PLACEMENT, since, ended.at, attributes, error)


def _copies(attempt: Attempt) -> Iterator[Span]:
    for copy in attempt.copied:
        attributes: dict[str, Value] = {
            "koala.attempt": attempt.number,
            "koala.file": copy.file,
            "koala.source": copy.source,
            "koala.site": copy.target,
            "koala.bytes": copy.size_bytes,
        }
        until = copy.started_at if copy.told_at is None else copy.told_at
        yield _span(SpanName.TRANSFER, copy.started_at, until, attributes)


def _claim_spans(job: Job, charge: Charge, job_ended_at: Instant) -> Iterator[Span]:
    """Yield the asking, the hold at the barrier and the run of one claim, as far as it came."""
    attempt, component, number = claim_numbers(charge.claim)
    attributes: dict[str, Value] = {
        "koala.attempt": attempt,
        "koala.component": job.spec.label(component),
        "koala.claim": charge.claim,
        "koala.claim.try": number,
        "koala.site": charge.site,
        "koala.processors": charge.processors,
        "koala.batch_job": charge.batch_job,
        "koala.claim.end": charge.end or "stopping",
    }
    ended_at = job_ended_at if charge.ended_at is None else charge.ended_at
    error = charge.end if charge.end in _FAULTS else ""
    if charge.granted_at is None:
        yield _span(SpanName.CLAIM, charge.asked_at, ended_at, attributes, error or "not granted")
        return
    yield _span(SpanName.CLAIM, charge.asked_at, charge.granted_at, attributes)
    passed_at = charge.passed_at
    if job.spec.component(component).start_type is not StartType.NONE:
        until = ended_at if passed_at is None else passed_at
        problem = (error or "not started") if passed_at is None else ""
        yield _span(SpanName.BARRIER, charge.granted_at, until, attributes, problem)
    if passed_at is not None:
        yield _span(SpanName.RUN, passed_at, ended_at, attributes, error)


def _span(
    name: SpanName,
    since: Instant,
    until: Instant,
    attributes: Mapping[str, Value],
    error: str = "",
) -> Span:
    """Make a span; instants of sites may be off a little, and no span ends before it begins."""
    until = max(since, until)
    return Span(name=name, since=since, until=until, attributes=attributes, error=error)
