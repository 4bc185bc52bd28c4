"""Allowances: what the jobs of a user or of a group may have at once.

Users are people with credentials; a group is a name with members, and each of its jobs counts for
its owner and for the group.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NewType

from koala.core.model.job_spec import JobSpec

Payer = NewType("Payer", str)
"""A user or a group that a job counts for: its kind and its name, as in `group:physics`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """Limits of a user or a group; None: none of its own.

    A job counts from its placement until its attempt is over, with all that it asked for.
    `hold_s` are processor-seconds that claims may hold before their barrier in 24 hours. `shares`
    weigh what fair share compares.
    """

    processors: int | None = None
    gpus: int | None = None
    jobs: int | None = None
    hold_s: float | None = None
    shares: float = 1.0


NO_LIMITS = Allowance()


@dataclass(slots=True, kw_only=True)
class Usage:
    """Sums over the placed jobs of a user or a group."""

    jobs: int = 0
    processors: int = 0
    gpus: int = 0

    def add(self, processors: int, gpus: int, *, jobs: int = 1) -> None:
        """Add what a placed job has; with negative numbers, take it away."""
        self.jobs += jobs
        self.processors += processors
        self.gpus += gpus


def asked_by(spec: JobSpec, left_out: Collection[int] = ()) -> tuple[int, int]:
    """Return the processors and GPUs of a request, but for the components that are left out."""
    processors = gpus = 0
    for component, part in enumerate(spec.components):
        if component not in left_out:
            processors += part.processors
            gpus += part.gpus or 0
    return processors, gpus


def user_payer(name: str) -> Payer:
    """Return the payer of a user's jobs."""
    return Payer(f"user:{name}")


def group_payer(name: str) -> Payer:
    """Return the payer of a group's jobs."""
    return Payer(f"group:{name}")


def payers_of(spec: JobSpec) -> tuple[Payer, ...]:
    """Return the payers that a job counts for: its owner, then its group."""
    if not spec.group:
        return (user_payer(spec.owner),)
    return user_payer(spec.owner), group_payer(spec.group)
