"""Another machine's clock, as far as answered pings tell it."""

from __future__ import annotations

import math

SAMPLES_MAX = 16
RHO = 1e-3
"""How much the rates of two clocks differ at most."""
DRIFT = 1e-4
"""How fast a clock sample is taken to lose its worth, in seconds of error a second."""


class DaemonClock:
    """The daemon's time less ours, from answered pings: the one with the least error counts.

    Its error is half the round trip and grows with its age. Before any answer the offset of this
    machine's wall clock stands in: it decides how even a start is, never whether it happens.
    """

    def __init__(self, wall_offset_s: float) -> None:
        self._wall_offset_s = wall_offset_s
        self._samples: list[tuple[float, float, float]] = []

    def sample(self, *, sent_at: float, answered_at: float, now: float) -> None:
        """A ping left at `sent_at`, was answered at `answered_at` (daemon's), and is back."""
        middle = (sent_at + now) / 2
        self._samples = [*self._samples, (now, (now - sent_at) / 2, answered_at - middle)]
        self._samples = self._samples[-SAMPLES_MAX:]

    def offset_s(self, now: float) -> float:
        """The daemon's time less ours."""
        if not self._samples:
            return self._wall_offset_s
        return min(self._samples, key=lambda s: s[1] + DRIFT * (now - s[0]))[2]

    def latest_s(self, now: float) -> float:
        """The most that the other clock may be ahead of ours: an answer was given after its
        question was sent, however long either was on its way."""
        return min(
            (
                offset_s + half_s + RHO * (now - at + 2 * half_s)  # since it was asked
                for at, half_s, offset_s in self._samples
            ),
            default=math.inf,
        )
