"""Exit statuses of a component's processes."""

from __future__ import annotations

from koala_agent.starter.light import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from koala_agent.starter.events import Settings

REFORKS_MAX = 3
FOREIGN_SIGNALS = (-signal.SIGTERM, -signal.SIGKILL, -signal.SIGXCPU)
FOREIGN_S = 0.25
"""Time to wait for the starter's own signal before a death counts as the program's.

A site that ends a batch job signals all processes; the program's death may be seen first."""


class ExitStatuses:
    """Exit statuses of main processes, and of the ranks that launchers report. They are final from
    `final_at` on: a death counts as the program's then.
    """

    def __init__(self, settings: Settings, now: float) -> None:
        self.final_at = now
        self._settings = settings
        self._mains: dict[int, int] = {}
        self._ranks: dict[int, int] = {}
        self._reforks = 0

    @property
    def is_complete(self) -> bool:
        """True when all main processes have ended."""
        return len(self._mains) == self._settings.processes

    def note(self, index: int, status: int) -> None:
        """Note the end of a main process."""
        self._mains[index] = status

    def note_rank(self, rank: int, status: int) -> None:
        """Note the end of a rank; its first report counts."""
        self._ranks.setdefault(rank, status)

    def may_fork_again(self, index: int, status: int, *, is_wanted: bool) -> bool:
        """Note that an outsider ended a blocked process; True when another one may be forked in its
        place.
        """
        self._mains[index] = status
        self._reforks += 1
        if self._reforks > REFORKS_MAX * self._settings.processes:
            return False
        if is_wanted:
            del self._mains[index]
        return True

    def final(self) -> list[int]:
        """Return the statuses of the ranks if they reported any, else of the main processes."""
        known = self._ranks or self._mains
        count = self._settings.ranks if self._ranks else self._settings.processes
        return [known.get(number, -signal.SIGKILL) for number in range(count)]

    def defer_if_foreign(self, status: int, now: float) -> None:
        """Wait for the signal of the site if this status may come from it."""
        if status in FOREIGN_SIGNALS:
            self.final_at = now + FOREIGN_S


def status_text(status: int) -> str:
    """Return a status for a person."""
    return f"status {status}" if status >= 0 else f"signal {-status}"
