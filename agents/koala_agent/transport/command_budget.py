"""The budget of a login's commands: how often its batch system is asked in a minute.

A batch system is shared, and its controller answers everybody. So commands that only ask
(listings, figures, records) are bounded by a number a minute, whatever the number of jobs. Half of
it is given at once, so that what a single job needs is asked when it is needed; then each one waits
longer than the one before, and a stream of jobs is followed at an even pace. A site that starts is
unusable before it knows enough, and may use up all at once. No minute has more than the number;
while there is nothing to wait for, no more than half of it.

Commands that act (submit, cancel, gate) are counted, and wait for nothing: their number is that of
the jobs, and somebody waits for them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

COMMANDS_PER_MINUTE = 12
"""Budget of a login for which none is configured."""
WINDOW_S = 61.0
"""A minute, and a second by which a command may begin late."""
FREE = 0.5
"""Share of the budget that is given at once."""
STEEPNESS = 4
"""Pause when all is used, in those of an even pace; before, pauses grow with the square of what is
used of the rest. In the long run 0.8 of the budget are used."""
LOOK_S = 1.0
"""Time after which somebody who waits looks whether more is allowed by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandCounts:
    """Commands of the last minute: those that asked, of how many allowed, and those that acted;
    `total` and `acts_total` are of all time."""

    asked: int = 0
    allowed: int = 0
    acted: int = 0
    asks_total: int = 0
    acts_total: int = 0

    @property
    def text(self) -> str:
        """The commands of the last minute, for a person."""
        acts = f"; {self.acted} to submit, cancel and gate jobs" if self.acted else ""
        return f"commands in the last minute: {self.asked} of {self.allowed}{acts}"


class CommandBudget:
    """Budget of one login, which several sites may share."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float]) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._asked: deque[float] = deque()
        self._acted: deque[float] = deque()
        self._asks_total = self._acts_total = 0
        self._turn = asyncio.Lock()
        self._busy: set[object] = set()
        self.starting: set[object] = set()
        """Sites that wait for their first answers."""

    def set_busy(self, site: object, *, is_busy: bool) -> None:
        """Note whether a site has anything to wait for."""
        (self._busy.add if is_busy else self._busy.discard)(site)

    @property
    def allowed(self) -> int:
        """The most that may be asked in a minute now."""
        is_busy = self._busy or self.starting
        return self._per_minute if is_busy else max(1, self._per_minute // 2)

    @property
    def counts(self) -> CommandCounts:
        """The commands so far."""
        self._drop_old()
        return CommandCounts(
            asked=len(self._asked),
            allowed=self.allowed,
            acted=len(self._acted),
            asks_total=self._asks_total,
            acts_total=self._acts_total,
        )

    def count_act(self) -> None:
        """Count a command that acts."""
        self._drop_old()
        self._acted.append(self._clock())
        self._acts_total += 1

    async def wait(self) -> None:
        """Wait until a command may ask; it need not."""
        async with self._turn:
            await self._wait()

    async def take(self) -> None:
        """Wait until a command may ask, and count it."""
        async with self._turn:
            await self._wait()
            self._asked.append(self._clock())
            self._asks_total += 1

    async def _wait(self) -> None:
        # No other one takes a turn meanwhile, but a first claim makes the waits shorter.
        while (wait_s := self._wait_s()) > 0:  # noqa: ASYNC110 - it has an end
            await asyncio.sleep(min(wait_s, LOOK_S))

    def _wait_s(self) -> float:
        self._drop_old()
        used, allowed = len(self._asked), self.allowed
        if not used:
            return 0.0
        share = max(0.0, used / allowed - FREE) / (1 - FREE)
        pause_s = STEEPNESS * WINDOW_S / allowed * share**2
        due_at = self._asked[-1] + (0.0 if self.starting else min(WINDOW_S, pause_s))
        if used >= allowed:
            due_at = max(due_at, self._asked[-allowed] + WINDOW_S)
        return due_at - self._clock()

    def _drop_old(self) -> None:
        start = self._clock() - WINDOW_S
        for times in (self._asked, self._acted):
            while times and times[0] <= start:
                times.popleft()
