"""Other users' jobs where our claims stand otherwise than they did: what finds no room waits.

The recorded load is a demand. What of it finds no processors, because claims of ours hold them that
did not then, is put off and not lost: it takes processors as soon as some are free, as many at once
as were missing. So the others use all the processor-seconds that they used, if later. Without this
a busy grid would look far emptier in any run that is not exactly the recorded one.
"""

from __future__ import annotations

from koala.core.model.values import Instant

_NOTHING_S = 1e-6


class Others:
    """The others' processors at one site: the demand, and what was put off of it."""

    __slots__ = ("_at", "_put_off_s", "_room", "_width", "demand")

    def __init__(self) -> None:
        self.demand = 0
        self._room = 0  # processors that are not ours
        self._put_off_s = 0.0  # processor-seconds
        self._width = 0  # the most processors that were missing since nothing was put off
        self._at: Instant = 0.0

    def change(self, now: Instant, *, room: int, demand: int) -> None:
        """From `now` on they may use `room` processors and want `demand`."""
        self._put_off_s += (now - self._at) * (self._missing - self._late)
        if self._put_off_s < _NOTHING_S:
            self._put_off_s, self._width = 0.0, 0
        self._at = now
        self._room, self.demand = room, demand
        self._width = max(self._width, self._missing)

    @property
    def used(self) -> int:
        """Processors that they use."""
        return min(self.demand, self._room) + self._late

    @property
    def settled_at(self) -> Instant | None:
        """When nothing is put off any more, if nothing else changes; None when that is not to come
        or so already."""
        return self._at + self._put_off_s / self._late if self._late else None

    @property
    def _missing(self) -> int:
        return max(0, self.demand - self._room)

    @property
    def _late(self) -> int:
        """Processors for what was put off."""
        if self._put_off_s < _NOTHING_S:
            return 0
        return max(0, min(self._room - self.demand, self._width))
