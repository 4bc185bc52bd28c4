"""The agent's clocks, and what it knows of the daemon's.

Safety rests on durations, each measured on one machine (CLOCK_BOOTTIME, which counts through a
suspend and is never set); the daemon's time decides only how even a start is. This is the one
module of the agent that reads a clock. Instants and durations are in seconds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass


def now() -> float:
    """Seconds since this machine started, suspends included; never runs back."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def unix_now() -> float:
    """Wall-clock time, for people and file ages only; it may jump."""
    return time.time()


DRIFT = 1e-4
"""How much the rates of two undisturbed clocks may differ, for estimates only (NTP allows 5e-4)."""


@dataclass(slots=True)
class DaemonTime:
    """The daemon's clock less ours, from messages whose instants both sides know.

    A message that left the daemon at `s` (its time) and came at `r` (ours) says: offset >= s - r.
    One that left us at `s` and that the daemon had at `r` says: offset <= r - s. The middle of the
    tightest bounds is the estimate; half their distance is its error (Cristian, Distributed
    Computing 3, 1989). Bounds are loosened as they age, because rates differ a little.
    """

    at_least: float = float("-inf")
    at_most: float = float("inf")
    loosened_at: float = 0.0

    def reset(self) -> None:
        """Forgets: another session, perhaps another daemon."""
        self.at_least, self.at_most = float("-inf"), float("inf")

    def came(self, *, left_at: float, came_at: float) -> None:
        """A message left the daemon at `left_at` (daemon's time) and came at `came_at` (ours)."""
        self._loosen(came_at)
        self.at_least = max(self.at_least, left_at - came_at)
        self.at_most = max(self.at_most, self.at_least)

    def went(self, *, left_at: float, answered_at: float, came_at: float) -> None:
        """A message left us at `left_at` (ours); the daemon answered at `answered_at` (its time),
        and the answer came at `came_at` (ours)."""
        self.came(left_at=answered_at, came_at=came_at)
        self.at_most = max(self.at_least, min(self.at_most, answered_at - left_at))

    @property
    def is_known(self) -> bool:
        """Whether a message has come since `reset`."""
        return self.at_least != float("-inf")

    @property
    def offset_s(self) -> float:
        """The daemon's time less ours; 0 before anything came."""
        if not self.is_known:
            return 0.0
        if self.at_most == float("inf"):
            return self.at_least
        return (self.at_least + self.at_most) / 2

    def to_ours(self, instant: float) -> float:
        """An instant of the daemon's time on our clock."""
        return instant - self.offset_s

    def to_daemons(self, instant: float) -> float:
        """An instant of our clock in the daemon's time."""
        return instant + self.offset_s

    def _loosen(self, instant: float) -> None:
        by_s = max(0.0, instant - self.loosened_at) * DRIFT
        self.loosened_at = instant
        self.at_least -= by_s
        self.at_most += by_s
