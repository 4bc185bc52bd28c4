"""What was observed nearest in time: how a journal answers for instants at which nobody looked."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Generic, TypeVar

from koala.core.model.values import Instant, Seconds

OWN_S: Seconds = 10.0
"""An observation of the same thing counts before all others when it is not farther away."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen(Generic[T]):
    """At an instant, of something (a component of a job, say), this was seen."""

    at: Instant
    of: Hashable
    what: T


class Nearest(Generic[T]):
    """Observations in order of time."""

    def __init__(self, seen: Iterable[Seen[T]] = ()) -> None:
        self._seen = sorted(seen, key=attrgetter("at"))
        self._own: dict[Hashable, list[Seen[T]]] = {}
        for one in self._seen:
            self._own.setdefault(one.of, []).append(one)

    def __len__(self) -> int:
        return len(self._seen)

    def values(self) -> list[T]:
        """All that was seen, in order."""
        return [one.what for one in self._seen]

    def at(self, instant: Instant, of: Hashable = None) -> T | None:
        """What was seen of the same thing at about this instant, else of any thing nearest to it,
        the earlier one of two; None when nothing ever was."""
        own = _closest(self._own.get(of, []), instant)
        if own is not None and abs(own.at - instant) <= OWN_S:
            return own.what
        found = _closest(self._seen, instant)
        return None if found is None else found.what


def _closest(seen: list[Seen[T]], instant: Instant) -> Seen[T] | None:
    place = bisect_left(seen, instant, key=attrgetter("at"))
    around = seen[max(0, place - 1) : place + 1]
    return min(around, key=lambda one: abs(one.at - instant), default=None)
