"""The queue as `squeue` lists it: why jobs wait, and the order in which they would start."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from koala_agent.lrm.dialect import DIGITS_MAX, QueueRow, is_count

WAITING = "PENDING"
RUNNING = ("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING")
"""States of jobs that wait, and of those that have processors."""

NEVER = (
    "PartitionConfig",
    "PartitionNodeLimit",
    "PartitionTimeLimit",
    "BadConstraints",
    "InvalidAccount",
    "InvalidQOS",
    "AccountNotAllowed",
    "QOSNotAllowed",
    "AssocMaxWallDurationPerJobLimit",
    "QOSMaxWallDurationPerJobLimit",
    "AssocMaxCpuPerJobLimit",
    "QOSMaxCpuPerJobLimit",
)
"""Reasons of requests that are accepted and never start."""

LIMITS = ("QOS", "Assoc", "MaxJobs", "MaxCpuPerAccount", "MaxMemPerLimit")
"""Prefixes of reasons that mean that the user, or an account, has reached a limit."""

NO_RIGHT = (
    *NEVER,
    *LIMITS,
    "Dependency",
    "DependencyNeverSatisfied",
    "JobHeld",
    "BeginTime",
    "JobArrayTaskLimit",
    "Licenses",
    "Reservation",
    "ReqNodeNotAvail",
    "Nodes required for job are DOWN",
    "PartitionDown",
    "PartitionInactive",
)
"""Prefixes of reasons of jobs that wait for something else than the idle processors."""

LEFT = re.compile(r"(?:([0-9]{1,6})-)?(?:([0-9]{1,2}):)?([0-9]{1,2}):([0-9]{1,2})")
"""Time that a job may still run, as [D-][HH:]MM:SS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
    """Row of a listing, of any user: a job that has not ended. `partitions` are those in which it
    may run, `is_waiting` has not started."""

    number: str
    is_waiting: bool
    partitions: frozenset[str]
    processors: int
    left_s: float
    priority: int
    reason: str
    comment: str

    @classmethod
    def read(cls, fields: Sequence[str]) -> QueuedJob | None:
        """Parse a row of `COLUMNS`; None for a job that has ended, and for what is no row."""
        number, state, *_, partitions, processors, left, priority, reason, comment, _ = fields
        is_row = is_count(number[:1]) and is_count(processors)
        if not is_row or state not in (WAITING, *RUNNING):
            return None
        return cls(
            number=number,
            is_waiting=state == WAITING,
            partitions=frozenset(partitions.split(",")),
            processors=int(processors),
            left_s=seconds_of(left),
            priority=_count(priority),
            reason=reason,
            comment=comment,
        )


def queue_of(jobs: Iterable[QueuedJob], *, gated: str) -> tuple[QueueRow, ...]:
    """Return the jobs, the waiting ones in the order of their priorities; `gated` is the comment of
    those that are gated."""
    running, waiting = [], []
    for job in jobs:
        row = QueueRow(
            number=job.number,
            processors=job.processors,
            left_s=job.left_s,
            is_running=not job.is_waiting,
        )
        if not job.is_waiting:
            running.append(row)
        elif job.comment == gated or not job.reason.startswith(NO_RIGHT):
            waiting.append((row, job.priority))
    return (*running, *by_priority(waiting))


def by_priority(waiting: list[tuple[QueueRow, int]]) -> list[QueueRow]:
    """Sort jobs by priority. One of 0 is gated, and the scheduler has looked at it: it counts as
    the next one that was submitted."""
    by_number = sorted(waiting, key=lambda pair: _count(pair[0].number), reverse=True)
    later = min((priority for _, priority in waiting if priority), default=0)
    keyed = []
    for row, priority in by_number:
        later = priority or later
        keyed.append((-later, _count(row.number), row))
    return [row for *_, row in sorted(keyed, key=lambda key: key[:2])]


def _count(text: str) -> int:
    """Return the number at the start of a text; a member of a job array has more behind it."""
    found = re.match(rf"[0-9]{{1,{DIGITS_MAX}}}", text)
    return 0 if found is None else int(found[0])


def seconds_of(text: str) -> float:
    """Return a time limit: inf for none, 0 for one that is over."""
    if (found := LEFT.fullmatch(text)) is None:
        return 0.0 if text == "INVALID" else math.inf
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
