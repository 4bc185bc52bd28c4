"""Describe the size of malleable jobs, and the components that come and go."""

from __future__ import annotations

from collections.abc import Sequence

from koala.core.model.job import Arming, Attempt, Growth, Job, Member
from koala.core.pipeline.resizing.leaving import leaving_members, processors_of
from koala.views.records import jobs
from koala.views.records.base import Moment
from koala.views.waiting import span


def job_size(job: Job) -> jobs.JobSize | None:
    """Describe the size of a malleable job in its attempt; None for others."""
    attempt, split = job.attempt, job.spec.split
    if attempt is None or split is None or not split.is_malleable:
        return None
    joining, leaving = attempt.joining, leaving_members(attempt)
    processors = processors_of(job, [*attempt.world, *leaving])
    leave_at = min([m.leave_at for m in leaving if m.leave_at is not None], default=None)
    return jobs.JobSize(
        processors=processors,
        least=split.least,
        total=split.total,
        resizes=attempt.resizes,
        joining=tuple([job.spec.label(member.component) for member in joining]),
        leaving=tuple([job.spec.label(member.component) for member in leaving]),
        leave_at=None if leave_at is None else Moment.of(leave_at),
        words=tuple(_words(job, attempt, processors, joining, leaving)),
    )


def _words(
    job: Job,
    attempt: Attempt,
    processors: int,
    joining: Sequence[Member],
    leaving: Sequence[Member],
) -> list[str]:
    split = job.spec.split
    assert split is not None
    lines = [f"has {processors} processors, wants {split.total}, and keeps at least {split.least}"]
    lines += [f"{_named(job, member)} joins: {_step(attempt.growth, member)}" for member in joining]
    for member in leaving:
        limit = span(member.leave_s or 0.0)
        lines.append(f"{_named(job, member)} was asked to give way within {limit}")
    return lines


def _named(job: Job, member: Member) -> str:
    size = job.spec.components[member.component].processors
    where = f" at {member.site}" if member.site else ""
    return f"component {job.spec.label(member.component)}{where} ({size})"


def _step(growth: Growth | None, member: Member) -> str:
    """Describe what a component that joins waits for."""
    match growth:
        case Growth(release=None, arming=Arming() as arming):
            return "its barrier is prepared" if member.claim in arming.waiting else "it is armed"
        case Growth(release=None):
            return "its files travel" if member.lacks_file else "its claim waits for processors"
        case _:
            return "it is released"
