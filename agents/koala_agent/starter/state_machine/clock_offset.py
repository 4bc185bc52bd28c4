"""Measure the offset of another machine's clock from answered pings."""

from __future__ import annotations

import math

SAMPLES_MAX = 16
CLOCK_RATE_ERROR = 1e-3
"""Largest difference between the rates of two clocks."""
EXACT_S, EVEN_S = 0.002, 0.0003
"""Largest errors of an offset for which no more pings are sent: by a starter alone, and by one that
starts with others."""
DRIFT = 1e-4
"""Growth of a clock sample's error with its age, in seconds a second."""


class ClockOffset:
    """Offset of the daemon's clock to ours, from the answered ping with the least error.

    A sample's error is half the round trip and grows with its age. Before any answer the offset of
    this machine's wall clock stands in. The offset decides how even a start is, never if it
    happens.
    """

    def __init__(self, wall_offset_s: float) -> None:
        self._wall_offset_s = wall_offset_s
        self._samples: list[tuple[float, float, float]] = []

    def sample(self, *, sent_at: float, answered_at: float, now: float) -> None:
        """Add an answered ping; `answered_at` is in the daemon's time."""
        middle = (sent_at + now) / 2
        self.share(now, (now - sent_at) / 2, answered_at - middle)

    def share(self, at: float, half_s: float, offset_s: float) -> None:
        """Add a sample that was taken elsewhere on this machine: its instant, error and offset."""
        self._samples.append((at, half_s, offset_s))
        if len(self._samples) > SAMPLES_MAX:
            self._samples.remove(max(self._samples, key=lambda s: s[1] + DRIFT * (at - s[0])))

    def best(self, now: float) -> tuple[float, float, float] | None:
        """Return instant, error and offset of the best sample; None before any answer."""
        return min(self._samples, key=lambda s: s[1] + DRIFT * (now - s[0]), default=None)

    def error_s(self, now: float) -> float:
        """Return the error of the offset; infinite before any answer."""
        best = self.best(now)
        return math.inf if best is None else best[1] + DRIFT * (now - best[0])

    def offset_s(self, now: float) -> float:
        """Return the daemon's time minus ours."""
        best = self.best(now)
        return self._wall_offset_s if best is None else best[2]

    def latest_s(self, now: float) -> float:
        """Return an upper bound of the other clock's lead over ours.

        It holds because an answer is given after its question was sent, whatever the delay of
        either.
        """
        return min(
            (
                offset_s + half_s + CLOCK_RATE_ERROR * (now - at + 2 * half_s)  # since it was asked
                for at, half_s, offset_s in self._samples
            ),
            default=math.inf,
        )
