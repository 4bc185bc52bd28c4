"""Visits to several queues in rounds (Multiple queues 2.5), shared by scheduler and simulator.

There is a global queue, or a local one for each site, or both; each is first come, first served. A
queue whose head does not fit is *disabled* until the next departure. A departure enables all queues
in the order of the discipline. They are then visited in rounds, one job of each queue a round,
until a round starts nothing.

`Visiting` holds no jobs. It reads the caller's queues and yields the queue whose head to try. The
caller tries it, and then removes it from its queue or disables the queue. The only state between
two departures is the ordered set of disabled queues.

Practice needs ageing of waiting jobs, says the paper: a job that has waited too long is visited
first. If it does not fit, backfilling pauses for it in alternate periods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from koala.core.model.values import FOREVER, Seconds

Key = TypeVar("Key", bound=Hashable)
"""Names a queue: a number, or the name of a site."""
_Key_contra = TypeVar("_Key_contra", bound=Hashable, contravariant=True)


class LocalJobs(StrEnum):
    """Kinds of jobs that join local queues; the others join the global one."""

    NONE = "none"
    SINGLE = "single-component jobs"
    ALL = "all jobs"


Keys: TypeAlias = tuple[Any, ...]
Order: TypeAlias = Callable[[Keys, Keys, Sequence[Any], Keys, float], Iterable[Any]]
"""Order in which queues are enabled at a departure, from: the local queues by index; the global
queue, if there is one; the sites that the departing job releases, in the order in which they were
allocated; the queues in the order in which they were disabled since the last departure; and a
random number in [0, 1)."""

Permits: TypeAlias = Callable[[Sized, Sized, Collection[Sized]], bool]
"""Permission to start the head of a queue now, from: the queue, the global and the local ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Discipline:
    """A way to share processors among several queues, as pure functions."""

    name: str
    local_jobs: LocalJobs
    order: Order
    permits: Permits | None = None  # None: always
    rule: str = ""  # description of `permits` for people

    def is_local(self, components: int) -> bool:
        """Return True if a job with this number of components joins a local queue."""
        single = self.local_jobs is LocalJobs.SINGLE and components == 1
        return single or self.local_jobs is LocalJobs.ALL

    @property
    def has_local(self) -> bool:
        """Return True if there is a queue for each site."""
        return self.local_jobs is not LocalJobs.NONE

    @property
    def has_global(self) -> bool:
        """Return True if there is a global queue."""
        return self.local_jobs is not LocalJobs.ALL


class QueuesByKey(Protocol[_Key_contra]):
    """The queues: a list when they are numbered, a dict when they are named."""

    def __getitem__(self, key: _Key_contra, /) -> Sized:
        """Return the queue with this key."""


class Visiting(Generic[Key]):
    """Queues under a discipline. `disabled` is in the order of disabling."""

    def __init__(
        self,
        discipline: Discipline,
        queues: QueuesByKey[Key],
        *,
        local: tuple[Key, ...],
        common: tuple[Key, ...],
        disabled: dict[Key, None],
        waited_s: Callable[[Key], Seconds] | None = None,
        ageing_s: Seconds = FOREVER,
    ) -> None:
        self._discipline = discipline
        self._queues = queues
        self._local = local
        self._common = common  # one, or none
        self.disabled = disabled  # shared with the caller
        self._waited_s = waited_s if ageing_s < FOREVER else None  # by the head of a queue
        self._ageing_s = ageing_s
        self._rule = self._found_rule()

    def arrived(self, key: Key) -> bool:
        """Return True if a job that just joined is tried at once: it is alone, and its queue is
        enabled and permitted."""
        return len(self._queues[key]) == 1 and key not in self.disabled and self.permits(key)

    def permits(self, key: Key) -> bool:
        """Return True if the head of this queue may start now."""
        rule = self._rule
        return rule is None or rule(key)

    def departed(self, released: Sequence[Key], draw: float) -> Iterator[Key]:
        """Enable all queues after a departure and visit them in rounds."""
        before = tuple(self.disabled)
        self.disabled.clear()
        return self.rounds(before, released, draw)

    def rounds(
        self, before: tuple[Key, ...], released: Sequence[Key], draw: float
    ) -> Iterator[Key]:
        """Yield the queues whose heads to try, in rounds; `before` were disabled until now. The
        caller acts on each queue before it asks for the next."""
        queues, disabled = self._queues, self.disabled
        order = self._discipline.order(self._local, self._common, released, before, draw)
        if self._waited_s is not None:
            order = aged_first(
                [key for key in order if queues[key]], self._waited_s, self._ageing_s
            )
        rule = self._rule
        is_new = True
        while is_new:
            is_new = False
            enabled = []
            for key in order:
                if not queues[key]:
                    continue  # nothing arrives at this instant
                if rule is None or rule(key):
                    yield key
                    if key in disabled:
                        continue
                    is_new = True
                enabled.append(key)  # also when what starts in this round may permit it
            order = enabled

    def _found_rule(self) -> Callable[[Key], bool] | None:
        """Make the permission of a queue, by discipline or by age; None: every one is permitted."""
        permits = self._discipline.permits
        if permits is None:
            return None
        queues, waited_s, ageing_s = self._queues, self._waited_s, self._ageing_s
        common = queues[self._common[0]] if self._common else ()
        local = [queues[key] for key in self._local]
        if waited_s is None:
            return lambda key: permits(queues[key], common, local)
        return lambda key: permits(queues[key], common, local) or waited_s(key) >= ageing_s


def draw_of(number: int) -> float:
    """Hash `number` to a pseudo-random number in [0, 1) (splitmix64), for drivers whose draws must
    be the same in every replay."""
    z = (number * 0x9E3779B97F4A7C15) & _WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _WORD
    return ((z ^ (z >> 31)) >> 11) / (1 << 53)


_WORD = (1 << 64) - 1


# --- ageing of waiting jobs ---

PERIOD_MIN_S: Seconds = 1.0


def aged_first(
    keys: Sequence[Key], waited_s: Callable[[Key], Seconds], ageing_s: Seconds
) -> Sequence[Key]:
    """Sort the keys whose waiting time has reached `ageing_s` to the front, longest first. The
    others keep their order.
    """
    waits = [(waited_s(key), key) for key in keys]
    aged = [entry for entry in waits if entry[0] >= ageing_s]
    if not aged:
        return keys
    aged.sort(key=lambda entry: -entry[0])
    return [*(key for _, key in aged), *(key for wait_s, key in waits if wait_s < ageing_s)]


def is_draining_for_aged(waited_s: Seconds, ageing_s: Seconds) -> bool:
    """Return True while an aged job that does not fit stops backfilling.

    This holds in every second half of an ageing period, beginning with the first. Processors
    accumulate for the job meanwhile. If local users take them, other jobs still get their turn.
    """
    if waited_s < ageing_s:
        return False
    period_s = max(ageing_s / 2, PERIOD_MIN_S)
    return int((waited_s - ageing_s) // period_s) % 2 == 0
