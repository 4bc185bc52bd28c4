"""Waits for what sends no notice: processes and files of others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from threading import Event

LOOK_S = 0.05
PATIENCE_S = 180.0


async def moment(seconds: float = LOOK_S) -> None:
    """Pause so long: a loop that only asks takes the processor from what it waits for."""
    await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=seconds)


async def until(condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Wait until the condition holds."""
    async with asyncio.timeout(patience_s):
        while not condition():
            await moment()


def wait_until(condition: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Wait until the condition holds, without an event loop."""
    end = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < end, f"not so after {patience_s:g} s"
        Event().wait(LOOK_S)
