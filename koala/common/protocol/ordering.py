"""Orders of waiting jobs: a function of one job gives its sort key.

The same functions order the placement queue of the daemon and the queues of emulated and simulated
sites, so that both ends know them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import isnan
from typing import Any, TypeAlias, TypeVar

from koala.errors import InvalidAnswerError

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
    """A waiting job, as an order sees it.

    - `processors`: of all its `components` together.
    - `estimate_s`: its limit on wall-clock time; infinite if it has none.
    - `waited_s`: since it joined the queue.
    - `priority`: 1 for high and 0 for low; the number of the queue in a log of jobs.
    - `held`: processors that its user holds now, jobs before it in this pass included.
    - `group_held`: the same of its group; None for a job without one.
    - `shares`, `group_shares`: weights of user and group, as an administrator set them.
    """

    user: str
    processors: int
    estimate_s: float
    waited_s: float
    components: int = 1
    priority: int = 0
    held: int = 0
    group: str = ""
    group_held: int | None = None
    shares: float = 1.0
    group_shares: float = 1.0


OrderPolicy: TypeAlias = Callable[[QueuedJob], Any]
"""Sort key of a job: a number or a tuple of numbers. The smallest goes first; jobs with equal keys
go in the order of the queue."""


def plain_key(key: object) -> tuple[float, ...]:
    """Return a sort key as a tuple of plain numbers, so that all keys can be compared. Raises
    InvalidAnswerError."""
    numbers = tuple(key) if isinstance(key, tuple) else (key,)
    plain: list[float] = []
    for number in numbers:
        if isinstance(number, int):
            plain.append(int.__int__(number))
        elif isinstance(number, float) and not isnan(number):
            plain.append(float.__float__(number))
        else:
            raise InvalidAnswerError(
                f"the sort key {key!r:.80} (expected a number, or a tuple of them)"
            )
    return tuple(plain)


def in_turn(_job: QueuedJob) -> tuple[float, ...]:
    """Order by the place in the queue: all jobs have the same key."""
    return ()


def in_order(jobs: Mapping[Key, QueuedJob], order: OrderPolicy) -> Iterator[Key]:
    """Yield the jobs in their order. Each that was yielded counts as started: its processors are
    held by its user and its group from then on."""
    keys = {name: order(job) for name, job in jobs.items()}
    of_user: dict[str, int] = {}
    of_group: dict[str, int] = {}
    while keys:
        first = jobs[next_key := min(keys, key=keys.__getitem__)]
        del keys[next_key]
        yield next_key
        of_user[first.user] = of_user.get(first.user, 0) + first.processors
        if first.group_held is not None:
            of_group[first.group] = of_group.get(first.group, 0) + first.processors
        for name in keys:
            job = jobs[name]
            is_of_group = job.group_held is not None and job.group == first.group
            if job.user == first.user or is_of_group:
                keys[name] = order(_after(job, of_user, of_group))


def _after(job: QueuedJob, of_user: Mapping[str, int], of_group: Mapping[str, int]) -> QueuedJob:
    """Return a job with what was given to its user and its group in this pass."""
    held = job.held + of_user.get(job.user, 0)
    if job.group_held is None:
        return replace(job, held=held)
    return replace(job, held=held, group_held=job.group_held + of_group.get(job.group, 0))


# --- built-in orders ---


def shortest_first(job: QueuedJob) -> float:
    """Order by the limit on wall-clock time (shortest job first); jobs without one go last."""
    return job.estimate_s


def priorities(job: QueuedJob) -> float:
    """Order by priority, the highest first."""
    return -job.priority


def fair_share(job: QueuedJob) -> tuple[float, ...]:
    """Order by the processors that the job's group holds for each of its shares, the fewest first,
    and within a group by those of its users. A user without a group is one alone."""
    own = job.held / job.shares
    return (own,) if job.group_held is None else (job.group_held / job.group_shares, own)


ORDERS: dict[str, OrderPolicy] = {
    "sjf": shortest_first,
    "priorities": priorities,
    "fair-share": fair_share,
}

DECIDING_FIELDS: dict[OrderPolicy, str] = {
    shortest_first: "estimate_s",
    priorities: "priority",
    fair_share: "user",
}
"""The one field that decides in the built-in orders: at any time jobs with equal values have equal
sort keys. (What a user holds is the same for all jobs of that user.)"""
