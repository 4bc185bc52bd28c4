"""Measurement of an event loop's lag."""

from __future__ import annotations

import asyncio

from koala.common.metrics.declarations import LOOP_LAG
from koala.common.metrics.meter import Meter
from koala.common.runtime import clock

INTERVAL_S = 0.25


async def measure_lag(meter: Meter) -> None:
    """Observe how late a task runs that sleeps, until cancelled."""
    while True:
        due_at = clock.now() + INTERVAL_S
        await asyncio.sleep(INTERVAL_S)
        meter.observe(LOOP_LAG, max(0.0, clock.now() - due_at))
