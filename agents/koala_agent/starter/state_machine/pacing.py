"""Pacing of a program: a progress report at the end of each cycle, and a limited share of the time.

Pure, and part of the machine. The share is kept by stopping and continuing the program in turns of
about a tenth of a second. Only the starter does that, so that no crash of an agent or a daemon
leaves a program stopped. It continues the program before anything else happens to it.
"""

from __future__ import annotations

import math

from koala_agent.starter.events import MeasureProgress, PauseProgram, ResumeProgram
from koala_agent.starter.messages import ProgressReported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from koala_agent.starter.events import Action, ProgressMeasured

PERIOD_S = 0.1
RUN_MIN_S = 0.005
"""A shorter turn is mostly waking up."""
HOLD_MAX_S = 1.0
"""The longest stop: a peer that waits for the program must not take it for dead."""


class Pacing:
    """Pacing of one program, from its pass to its end; `cycle_s` 0: nothing is measured."""

    def __init__(self, cycle_s: float) -> None:
        self._cycle_s = cycle_s
        self._passed_at = 0.0
        self._cycle = 0
        self._measure_at = math.inf
        self._share = 1.0
        self._turn_at = math.inf
        self._is_held = False

    @property
    def wake_at(self) -> float:
        """The next instant at which `tick` is due."""
        return min(self._measure_at, self._turn_at)

    def begin(self, passed_at: float, now: float) -> None:
        """Start at the pass of the barrier."""
        self._passed_at = passed_at
        if self._cycle_s > 0:
            self._next_cycle(now)

    def set_share(self, share: float, now: float) -> None:
        """Set the share of the time; a turn under way is cut short."""
        if self._passed_at and 0 < share <= 1 and share != self._share:
            self._share = share
            self._turn_at = now

    def tick(self, now: float, *, is_alone: bool) -> list[Action]:
        """Return the actions that are due; a program whose agent is away runs without a limit."""
        actions: list[Action] = []
        if now >= self._measure_at:
            self._measure_at = math.inf  # until that is answered
            actions.append(MeasureProgress())
        if is_alone:
            self.set_share(1.0, now)
        if now >= self._turn_at:
            actions += self._turn(now)
        return actions

    def measured(self, event: ProgressMeasured, now: float) -> ProgressReported | None:
        """Return the report of this cycle; None when it comes too late to stand for its end."""
        due_at = self._passed_at + self._cycle * self._cycle_s
        report = ProgressReported(
            cycle=self._cycle,
            work=event.work,
            is_told=event.is_told,
            can_pace=event.can_pace,
        )
        is_in_time = now - due_at < self._cycle_s / 2
        self._next_cycle(now)
        return report if is_in_time else None

    def end(self) -> list[Action]:
        """Stop measuring and continue the program: a stopped one receives no signal but KILL."""
        self._measure_at = self._turn_at = math.inf
        self._share = 1.0
        if not self._is_held:
            return []
        self._is_held = False
        return [ResumeProgram()]

    def _next_cycle(self, now: float) -> None:
        """Schedule the next measurement.

        All components of a job measure at the same instants: multiples of the cycle since their
        pass.
        """
        self._cycle = int((now - self._passed_at) / self._cycle_s) + 1
        self._measure_at = self._passed_at + self._cycle * self._cycle_s

    def _turn(self, now: float) -> list[Action]:
        if self._share >= 1.0:
            self._turn_at = math.inf
            if not self._is_held:
                return []
            self._is_held = False
            return [ResumeProgram()]
        run_s = max(RUN_MIN_S, self._share * PERIOD_S)
        hold_s = min(HOLD_MAX_S, run_s / self._share - run_s)
        self._is_held = not self._is_held
        self._turn_at = now + (hold_s if self._is_held else run_s)
        return [PauseProgram() if self._is_held else ResumeProgram()]
