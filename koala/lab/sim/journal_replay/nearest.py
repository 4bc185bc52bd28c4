"""Observations by nearest instant: a journal's answer for instants without an observation."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Generic, TypeVar

from koala.core.model.values import Instant, Seconds

OWN_S: Seconds = 10.0
"""Time within which an observation of the same thing takes precedence over all others."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Observation(Generic[T]):
    """An observation at an instant, of something (a component of a job, say)."""

    at: Instant
    of: Hashable
    what: T


class Nearest(Generic[T]):
    """Observations in order of time."""

    def __init__(self, observations: Iterable[Observation[T]] = ()) -> None:
        self._observations = sorted(observations, key=attrgetter("at"))
        self._own: dict[Hashable, list[Observation[T]]] = {}
        for one in self._observations:
            self._own.setdefault(one.of, []).append(one)

    def __len__(self) -> int:
        return len(self._observations)

    def values(self) -> list[T]:
        """List all observed values, in order."""
        return [one.what for one in self._observations]

    def at(self, instant: Instant, of: Hashable = None) -> T | None:
        """Return the observation of the same thing at about this instant; else the nearest of any
        thing, the earlier of two; None without any observation."""
        own = _closest(self._own.get(of, []), instant)
        if own is not None and abs(own.at - instant) <= OWN_S:
            return own.what
        found = _closest(self._observations, instant)
        return None if found is None else found.what


def _closest(observations: list[Observation[T]], instant: Instant) -> Observation[T] | None:
    place = bisect_left(observations, instant, key=attrgetter("at"))
    around = observations[max(0, place - 1) : place + 1]
    return min(around, key=lambda one: abs(one.at - instant), default=None)
