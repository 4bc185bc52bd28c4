"""Visiting several queues in rounds (Multiple queues 2.5): the machine that the live scheduler and
the simulator share.

There is a global queue, or a local one for each site, or both; each is first come, first served. A
queue whose head does not fit is *disabled* until the next departure, which enables all queues in an
order that the discipline gives. They are then visited in rounds, one job of each a round, until a
round starts nothing.

The machine holds no jobs. It looks at the queues, which belong to its caller, and says whose head
to try; the caller tries it, and takes it out of its queue or calls `unfit`. What the machine keeps
(`disabled`, `departures`) is plain data, and changes only by what it is told: a discipline is asked
no earlier than the first visit is taken from an iterator, so that a replay can do without one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from koala.core.ageing import aged_first
from koala.core.values import FOREVER, Seconds

Key = TypeVar("Key", bound=Hashable)
"""Names a queue: a number, or the name of a site."""
_Key_contra = TypeVar("_Key_contra", bound=Hashable, contravariant=True)


class LocalJobs(StrEnum):
    """Which jobs stand in local queues; the others are in the global one."""

    NONE = "none"
    SINGLE = "single-component jobs"
    ALL = "all jobs"


Keys: TypeAlias = tuple[Any, ...]
Order: TypeAlias = Callable[[Keys, Keys, Sequence[Any], Keys, float], Iterable[Any]]
"""In which order queues are enabled at a departure, from: the local queues by index; the global
queue, if there is one; the sites that the departing job releases, in the order in which they were
allocated; the queues in the order in which they were disabled since the last departure; and a
random number in [0, 1)."""

Permits: TypeAlias = Callable[[Sized, Sized, Collection[Sized]], bool]
"""Whether the head of a queue may start now, from: the queue, the global and the local ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Discipline:
    """A way to share processors among several queues, as pure functions."""

    name: str
    local_jobs: LocalJobs
    order: Order
    permits: Permits | None = None  # None: always

    def is_local(self, components: int) -> bool:
        """Whether a job of so many components goes to a local queue."""
        single = self.local_jobs is LocalJobs.SINGLE and components == 1
        return single or self.local_jobs is LocalJobs.ALL

    @property
    def has_local(self) -> bool:
        """There is a queue for each site."""
        return self.local_jobs is not LocalJobs.NONE

    @property
    def has_global(self) -> bool:
        """There is a global queue."""
        return self.local_jobs is not LocalJobs.ALL


class QueuesByKey(Protocol[_Key_contra]):
    """The queues: a list when they are numbered, a dict when they are named."""

    def __getitem__(self, key: _Key_contra, /) -> Sized:
        """The queue with this key."""


class Visiting(Generic[Key]):
    """Queues under a discipline. `disabled` is in the order of disabling."""

    __slots__ = (
        "_ageing_s",
        "_common",
        "_discipline",
        "_queues",
        "_sites",
        "_waited_s",
        "departures",
        "disabled",
    )

    def __init__(
        self,
        discipline: Discipline,
        queues: QueuesByKey[Key],
        *,
        sites: Iterable[Key],
        common: Key,
        waited_s: Callable[[Key], Seconds] | None = None,
        ageing_s: Seconds = FOREVER,
    ) -> None:
        self._discipline = discipline
        self._queues = queues
        self._sites = tuple(sites) if discipline.has_local else ()
        self._common = (common,) if discipline.has_global else ()
        self._waited_s = waited_s if ageing_s < FOREVER else None  # by the head of a queue
        self._ageing_s = ageing_s
        self.disabled: dict[Key, None] = {}
        self.departures = 0

    def arrived(self, key: Key) -> bool:
        """A job was queued there: whether it is tried at once, because it is alone, and its queue
        is enabled and permitted."""
        if len(self._queues[key]) > 1 or key in self.disabled:
            return False
        permits = self._permits()
        return permits is None or permits(key)

    def unfit(self, key: Key) -> None:
        """The head that was to be tried does not fit: the queue is disabled until a departure."""
        self.disabled[key] = None

    def departed(self, released: Sequence[Key], draw: float) -> Iterator[Key]:
        """A job has left: all queues are enabled. Whose head to try next, while the caller tells
        what becomes of each before it asks for another."""
        before = tuple(self.disabled)
        self.disabled.clear()
        self.departures += 1
        return self._rounds(before, released, draw)

    def _rounds(
        self, before: tuple[Key, ...], released: Sequence[Key], draw: float
    ) -> Iterator[Key]:
        queues, disabled = self._queues, self.disabled
        order = self._discipline.order(self._sites, self._common, released, before, draw)
        if self._waited_s is not None:
            order = aged_first(
                [key for key in order if queues[key]], self._waited_s, self._ageing_s
            )
        permits = self._permits()
        is_new = True
        while is_new:
            is_new = False
            enabled = []
            for key in order:
                if not queues[key]:
                    continue  # nothing arrives at this instant
                if permits is None or permits(key):
                    yield key
                    if key in disabled:
                        continue
                    is_new = True
                enabled.append(key)  # also when what starts in this round may permit it
            order = enabled

    def _permits(self) -> Callable[[Key], bool] | None:
        """Whether a queue's head may start now; None: it always may."""
        rule = self._discipline.permits
        if rule is None:
            return None
        queues, waited_s, ageing_s = self._queues, self._waited_s, self._ageing_s
        common = queues[self._common[0]] if self._common else ()
        local = [queues[key] for key in self._sites]
        if waited_s is None:
            return lambda key: rule(queues[key], common, local)
        return lambda key: rule(queues[key], common, local) or waited_s(key) >= ageing_s


def draw_of(number: int) -> float:
    """A number in [0, 1) that looks random and depends on `number` alone (splitmix64), for drivers
    whose draws must be the same in every replay."""
    z = (number * 0x9E3779B97F4A7C15) & _WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _WORD
    return ((z ^ (z >> 31)) >> 11) / (1 << 53)


_WORD = (1 << 64) - 1
