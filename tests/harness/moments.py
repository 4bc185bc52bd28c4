"""The pause between two looks at what cannot be waited for."""

from __future__ import annotations

import asyncio

LOOK_S = 0.05


async def moment(seconds: float = LOOK_S) -> None:
    """Pause so long: a loop that only asks takes the processor from what it waits for."""
    await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=seconds)
