"""The timer of a driver: an earlier instant sets it at once, a later one when it fires."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic

from koala.common.runtime.driver import Driver

WOKEN = "woken"
LIMIT_S = 30.0
FAR_S = 1_000.0


class Alarm:
    """A machine whose events are instants: it rings at the last of them."""

    def __init__(self) -> None:
        self.wake_at: float | None = None

    def handle(self, event: float | str, now: float) -> Sequence[float]:
        """Take an instant, or ring."""
        if isinstance(event, float):
            self.wake_at = event
            return []
        assert self.wake_at is not None
        assert now >= self.wake_at, "woken too early"
        self.wake_at = None
        return [now]


async def rung(*delays_s: float) -> float:
    """Give a driver instants one by one; return how long after the last of them it rings."""
    inbox: asyncio.Queue[float | str] = asyncio.Queue()
    heard: asyncio.Queue[float] = asyncio.Queue()
    handled = asyncio.Event()

    async def carry_out(outputs: Sequence[float]) -> None:
        handled.set()
        for instant in outputs:
            heard.put_nowait(instant)

    driver = Driver(Alarm(), inbox, woken=WOKEN, carry_out=carry_out, clock=monotonic)
    due_at = 0.0
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
        running = group.create_task(driver.run())
        for delay_s in delays_s:
            handled.clear()
            due_at = monotonic() + delay_s
            inbox.put_nowait(due_at)
            await handled.wait()
            await asyncio.sleep(0)  # the driver waits again
        rang_at = await heard.get()
        running.cancel()
    assert heard.empty()
    return rang_at - due_at


async def test_an_earlier_instant_sets_the_timer_again() -> None:
    assert await rung(FAR_S, 0.01) >= 0


async def test_a_timer_that_fires_before_a_later_instant_is_set_again() -> None:
    assert await rung(0.05, 0.1) >= 0
    assert await rung(0.05, FAR_S, 0.07) >= 0


async def test_a_past_instant_rings_at_once() -> None:
    assert await rung(-1.0) >= 1.0
    assert await rung(FAR_S, -1.0) >= 1.0
