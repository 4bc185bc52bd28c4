"""Drive a state machine on asyncio: events and one timer in, outputs out.

A *machine* is pure. `handle(event, now)` returns its outputs, and `wake_at` is its one timer. The
driver owns the machine: one task takes events from the inbox, passes them on with the time, and has
the outputs carried out before the next events. The inbox is made by the assembly before both of its
ends, so that parts which call each other need nobody to connect them later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Protocol, TypeVar

_Event = TypeVar("_Event")
_Output = TypeVar("_Output")
_Event_contra = TypeVar("_Event_contra", contravariant=True)
_Output_co = TypeVar("_Output_co", covariant=True)


class Machine(Protocol[_Event_contra, _Output_co]):
    """State machine: no I/O, no clock, no randomness of its own."""

    @property
    def wake_at(self) -> float | None:
        """The next instant at which it must be woken; None: at none."""

    def handle(self, event: _Event_contra, now: float) -> Sequence[_Output_co]:
        """Handle one event; return its outputs in order."""


class Driver(Generic[_Event, _Output]):
    """The loop of one machine. `woken` is its event of a due timer; up to `batch_max` waiting
    events are handled before `carry_out` gets the outputs of all."""

    def __init__(
        self,
        machine: Machine[_Event, _Output],
        inbox: asyncio.Queue[_Event],
        *,
        woken: _Event,
        carry_out: Callable[[Sequence[_Output]], Awaitable[None]],
        clock: Callable[[], float],
        batch_max: int = 1,
    ) -> None:
        self._machine = machine
        self._inbox = inbox
        self._woken = woken
        self._carry_out = carry_out
        self._clock = clock
        self._batch_max = batch_max
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    async def run(self) -> None:
        """Drive the machine until cancelled. An error of the machine or of an output ends it."""
        try:
            while True:
                outputs: list[_Output] = []
                for event in await self._wait():
                    if event is not self._woken:
                        outputs += self._machine.handle(event, self._clock())
                wake_at = self._machine.wake_at
                if wake_at is not None and wake_at <= self._clock():
                    outputs += self._machine.handle(self._woken, self._clock())
                await self._carry_out(outputs)
        finally:
            self._cancel_timer()

    async def _wait(self) -> list[_Event]:
        """Wait for an event or the timer; return the events to handle now."""
        if self._inbox.empty():
            self._set_timer()
        events = [await self._inbox.get()]
        while len(events) < self._batch_max and not self._inbox.empty():
            events.append(self._inbox.get_nowait())
        return events

    def _set_timer(self) -> None:
        """Set the timer to the machine's instant, unless it fires earlier: most events postpone
        that instant, and a timer that fires too early costs less than setting it for each."""
        wake_at = self._machine.wake_at
        if wake_at is None or (self._timer is not None and self._timer_at <= wake_at):
            return
        self._cancel_timer()
        self._timer_at = wake_at
        delay_s = max(0.0, wake_at - self._clock())
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._inbox.put_nowait(self._woken)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def wait_until(
    changed: asyncio.Event, wake_at: float | None, clock: Callable[[], float]
) -> bool:
    """Wait for a change or an instant; return True for a change. For loops whose events lie
    elsewhere than in one inbox."""
    try:
        async with asyncio.timeout(_seconds_until(wake_at, clock)):
            return await changed.wait()
    except TimeoutError:
        return False


def _seconds_until(instant: float | None, clock: Callable[[], float]) -> float | None:
    """Return the seconds left until an instant, 0 for a past one; None for none."""
    return None if instant is None else max(0.0, instant - clock())
