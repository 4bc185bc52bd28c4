"""Objects of the state as earlier releases saved them, converted to those of today.

Saved states and archived jobs are always read. A class whose fields changed has another tag since
(`koala.core.snapshot.TAGS`); the old tag is converted here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from koala.core.model.claim import Armed, Asked, Claim, Grant, Granted, Passed, Released, Stopped
from koala.core.model.job import (
    Attempt,
    Cancelled,
    Claiming,
    Failed,
    Finished,
    Job,
    PathTests,
    Release,
    Releasing,
    Running,
    Starting,
    Stopping,
)
from koala.core.model.values import JobId

Old: TypeAlias = dict[str, Any]
"""Fields of an old object by name; empty ones are left out."""


def _fill_claim(claim: Claim, old: Old) -> None:
    """Convert a claim of cores 1 and 2: the phase was a word, its data were optional fields."""
    granted_at, passed_at = old.pop("granted_at", None), old.pop("passed_at", None)
    name, may_run, is_silent = (old.pop(key, False) for key in ("phase", "released", "is_silent"))
    check_in = {
        key: old.pop(key) for key in ("nonce", "batch_job", "address", "hosts") if key in old
    }
    grant = Grant(at=granted_at or 0.0, **{"nonce": "", **check_in})
    phase: Any
    match name:
        case "asked":
            phase = Asked()
        case "passed":
            phase = Passed(grant=grant, passed_at=passed_at)
        case "stopping":
            phase = Stopped(
                grant=None if granted_at is None else grant,
                passed_at=passed_at,
                may_run=may_run,
                is_silent=is_silent,
            )
        case _:
            phase = {"granted": Granted, "armed": Armed, "released": Released}[name](grant=grant)
    Claim.__init__(claim, phase=phase, **old)


class _OldAttempt:
    """Attempt with the data of all phases."""


@dataclass(slots=True)
class _OldPhase:
    """Phase of a job without its attempt."""

    cls: type
    fields: Old


def _fill_phase(cls: type) -> Callable[[Any, Old], None]:
    def fill(phase: _OldPhase, old: Old) -> None:
        phase.cls, phase.fields = cls, old

    return fill


def _fill_job(job: Job, old: Old) -> None:
    """Convert a job of cores 1 and 2: it had an attempt beside its phase, for all phases."""
    for name in ("largest", "processors", "needed", "deadline_at"):
        old.pop(name, None)
    saved: Old = old.pop("attempt", _OldAttempt()).__dict__
    step = {name: saved.pop(name, None) for name in _OF_PHASES}
    attempt = Attempt(job=old["id"], **saved) if saved else None
    for member in () if attempt is None else attempt.members:
        member.start_type = old["spec"].components[member.component].start_type
    phase = old.pop("phase")
    if isinstance(phase, _OldPhase):
        fields = {"attempt": attempt, **phase.fields}
        release = Release(number=step["released"], at=step["release_at"] or 0.0)
        if phase.cls is Claiming:
            fields = {"claim_at": None, **fields, "is_tried": bool(step["tries"])}
        elif phase.cls is Starting:
            tests = PathTests(waiting=tuple(step["untried"] or ()), due_at=step["tried_by"] or 0.0)
            fields["tests"] = None if step["untried"] is None else tests
            fields["arms"], fields["arming"] = step["arms"] or 0, step["arming"]
            if fields["arming"] is not None:
                waiting = tuple(fields["arming"].waiting)
                fields["arming"] = replace(fields["arming"], waiting=waiting)
        elif phase.cls in (Releasing, Running):
            fields["release"] = None if step["released"] is None else release
        phase = phase.cls(**fields)
    Job.__init__(job, phase=phase, **old)


_OF_PHASES = frozenset(
    {"tries", "arms", "arming", "released", "release_at", "untried", "tried_by", "is_stopped"}
)
_PHASES = (Claiming, Starting, Releasing, Running, Stopping, Finished, Failed, Cancelled)


def live_attempts(placed: Mapping[JobId, Attempt | Job]) -> dict[JobId, Attempt]:
    """Return the live attempts; cores 1 and 2 saved the jobs that have one."""
    found = {name: one.attempt if isinstance(one, Job) else one for name, one in placed.items()}
    return {name: attempt for name, attempt in found.items() if attempt is not None}


OLD: dict[str, tuple[type, Callable[[Any, Old], None]]] = {
    "job.Claim": (Claim, _fill_claim),
    "job.Attempt": (_OldAttempt, lambda attempt, old: vars(attempt).update(old)),
    "job.Job": (Job, _fill_job),
    **{f"job.{cls.__name__}": (_OldPhase, _fill_phase(cls)) for cls in _PHASES},
}
"""Class by old tag, and the function that fills an object of it."""
OLD_ENUMS: dict[str, Callable[[str], object]] = {"job.ClaimPhase": str}
