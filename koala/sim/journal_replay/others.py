"""Other users' jobs where our claims differ from the recorded ones: unmet demand is postponed.

The recorded load is a demand. Where claims of ours now hold processors that they did not hold then,
the missing part of the demand is postponed, not lost. It takes processors as soon as some are free,
as many at once as were missing. So the others use all the processor-seconds that they used, if
later. Without this a busy grid would look far emptier in any run that differs from the recorded
one.
"""

from __future__ import annotations

from koala.core.model.values import Instant

_NOTHING_S = 1e-6


class Others:
    """The others' processors at one site: the demand, and its postponed part."""

    __slots__ = ("_at", "_postponed_s", "_room", "_width", "demand")

    def __init__(self) -> None:
        self.demand = 0
        self._room = 0  # processors that are not ours
        self._postponed_s = 0.0  # processor-seconds
        self._width = 0  # the most processors that were missing since nothing was put off
        self._at: Instant = 0.0

    def change(self, now: Instant, *, room: int, demand: int) -> None:
        """Set, from `now` on, the `room` processors that they may use and their `demand`."""
        self._postponed_s += (now - self._at) * (self._missing - self._late)
        if self._postponed_s < _NOTHING_S:
            self._postponed_s, self._width = 0.0, 0
        self._at = now
        self._room, self.demand = room, demand
        self._width = max(self._width, self._missing)

    @property
    def used(self) -> int:
        """Processors in use by others."""
        return min(self.demand, self._room) + self._late

    @property
    def settled_at(self) -> Instant | None:
        """Return the instant at which the postponed demand is worked off, if nothing changes; None
        when that never comes or is past."""
        return self._at + self._postponed_s / self._late if self._late else None

    @property
    def _missing(self) -> int:
        return max(0, self.demand - self._room)

    @property
    def _late(self) -> int:
        """Processors in use for postponed demand."""
        if self._postponed_s < _NOTHING_S:
            return 0
        return max(0, min(self._room - self.demand, self._width))
