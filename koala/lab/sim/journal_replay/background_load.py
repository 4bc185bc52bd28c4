"""Background load of a replayed site: other users' recorded demand, postponed where it lacks room.

Where our claims hold processors that they did not hold in the recording, the missing part of the
demand is postponed, not lost. It takes processors as soon as some are free, as many at once as were
missing. So the others use all the processor-seconds that they used, if later. Without this a busy
grid would look far emptier in any run that differs from the recorded one.
"""

from __future__ import annotations

from koala.core.model.values import Instant

_NOTHING_S = 1e-6


class BackgroundLoad:
    """Processors of other users at one site: the demand, and the backlog that was postponed."""

    __slots__ = ("_at", "_backlog_s", "_lack_max", "_room", "demand")

    def __init__(self) -> None:
        self.demand = 0
        self._room = 0  # processors that are not ours
        self._backlog_s = 0.0  # processor-seconds
        self._lack_max = 0  # the largest lack since there was no backlog
        self._at: Instant = 0.0

    def change(self, now: Instant, *, room: int, demand: int) -> None:
        """Set the processors that the load may use from `now` on (`room`), and the `demand`."""
        self._backlog_s += (now - self._at) * (self._lack - self._catching_up)
        if self._backlog_s < _NOTHING_S:
            self._backlog_s, self._lack_max = 0.0, 0
        self._at = now
        self._room, self.demand = room, demand
        self._lack_max = max(self._lack_max, self._lack)

    @property
    def used(self) -> int:
        """Processors in use by others."""
        return min(self.demand, self._room) + self._catching_up

    @property
    def backlog_cleared_at(self) -> Instant | None:
        """Instant at which the backlog is worked off, if nothing changes; None when there is none,
        or no room for it."""
        return self._at + self._backlog_s / self._catching_up if self._catching_up else None

    @property
    def _lack(self) -> int:
        return max(0, self.demand - self._room)

    @property
    def _catching_up(self) -> int:
        """Processors in use for the backlog."""
        if self._backlog_s < _NOTHING_S:
            return 0
        return max(0, min(self._room - self.demand, self._lack_max))
