"""Leases of a starter, from the daemon's answers to its pings."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from koala_agent.starter.events import Settings


class StarterLeases:
    """Times that a starter may go on without an answer: the hold lease before its pass, the run
    lease after it. They count from the sending of the newest answered ping.
    """

    def __init__(self, settings: Settings, now: float) -> None:
        self.answered_at = now
        self._hold_s = settings.hold_lease_s
        self._run_s = settings.run_lease_s
        self._next: tuple[float, float] | None = None  # hold and run, from an answer on

    def length_s(self, *, is_held: bool) -> float:
        """Return the length of the lease that counts."""
        return self._hold_s if is_held else self._run_s

    def until(self, *, is_held: bool) -> float:
        """Return the end of the lease that counts."""
        return self.answered_at + self.length_s(is_held=is_held)

    def change(self, hold_s: float, run_s: float) -> bool:
        """Change the leases; return True if one became shorter.

        A lease that became shorter since the last answer would be over already, so it counts from
        the next one. The daemon goes by the longer one for a claim that was made with it.
        """
        self._next = (hold_s, run_s)
        is_shorter = hold_s < self._hold_s or run_s < self._run_s
        self._hold_s = max(self._hold_s, hold_s)
        self._run_s = max(self._run_s, run_s)
        return is_shorter

    def answer(self, sent_at: float) -> None:
        """Note that the ping of this instant was answered."""
        self.answered_at = max(self.answered_at, sent_at)
        if self._next is not None:
            self._hold_s, self._run_s = self._next
            self._next = None
