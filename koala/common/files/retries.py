"""Retries of a move of bytes: after a cut as long as bytes arrive, at a busy peer for longer. Pure.

Everything ends: tries without progress, time without bytes and busy answers have limits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLimits:
    """Limits of the retries of one move of bytes.

    - `tries_max`: tries in a row without a byte.
    - `stalled_s`: wait for the next byte within one try.
    - `progress_s`: time without a byte over all tries.
    - `busy_s`: time for which a peer may keep answering that it is busy.
    - `pause_s`, `pause_s_max`: first and longest back-off between tries; it doubles.
    """

    tries_max: float = math.inf
    stalled_s: float = 30.0
    progress_s: float = 600.0
    busy_s: float = math.inf
    pause_s: float = 0.25
    pause_s_max: float = 10.0


class GivenUpError(Exception):
    """No further try is worth it; the text says why."""


class Retries:
    """Counts the tries of one move; tells the pause before the next one, or raises GivenUpError."""

    def __init__(self, limits: RetryLimits, now: float) -> None:
        self._limits = limits
        self._progress_at = now
        self._furthest_bytes = 0
        self._tries = 0
        self._busy_answers = 0
        self._busy_since = now

    def note_bytes(self, now: float) -> None:
        """Note that bytes have moved."""
        self._tries = self._busy_answers = 0
        self._progress_at = now

    def note_offset(self, offset: int, now: float) -> bool:
        """Note how far this try came; True if it is further than all before it, which is
        progress."""
        is_further = offset > self._furthest_bytes
        if is_further:
            self._furthest_bytes = offset
            self.note_bytes(now)
        return is_further

    def excuse(self, seconds: float) -> None:
        """Leave out a span that was not the peer's fault."""
        self._progress_at += seconds

    def pause_after_cut(self, reason: str, now: float) -> float:
        """Return the pause before the next try."""
        self._tries += 1
        if self._tries >= self._limits.tries_max:
            raise GivenUpError(f"{self._tries} tries without a byte; the last: {reason}")
        if now - self._progress_at >= self._limits.progress_s:
            raise GivenUpError(f"no byte for {now - self._progress_at:.0f} s: {reason}")
        return self._pause(self._tries)

    def pause_after_busy(self, reason: str, now: float) -> float:
        """Return the pause before a busy peer is asked again. Its answers show that it lives, so
        they consume neither the tries nor the time without progress."""
        if self._busy_answers == 0:
            self._busy_since = now
        if now - self._busy_since >= self._limits.busy_s:
            raise GivenUpError(f"busy for {self._limits.busy_s:g} s: {reason}")
        self._busy_answers += 1
        self._progress_at = now
        return self._pause(self._busy_answers)

    def _pause(self, tries: int) -> float:
        doublings = min(tries - 1, 30)
        return min(self._limits.pause_s_max, self._limits.pause_s * 2.0**doublings)
