"""Turns of an emulated site's manager: events are handled in order, and changes stored between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

_TURN_MAX = 16
"""Events of one turn. A launch without a resident parent takes a millisecond, and the agent has
more to do."""


class EventTurns:
    """The inbox of the one task that owns all state; `store` stores what was changed."""

    def __init__(self, store: Callable[[], None]) -> None:
        self._store = store
        self._inbox: asyncio.Queue[Callable[[], None]] = asyncio.Queue()

    @property
    def is_idle(self) -> bool:
        """True when no event waits."""
        return self._inbox.empty()

    def post(self, event: Callable[[], None]) -> None:
        """Have an event handled, after all changes that were made before are stored."""
        self._inbox.put_nowait(event)

    async def serve(self, *, is_done: Callable[[], bool]) -> None:
        """Handle events, all that wait in one turn, until it `is_done`."""
        while not is_done():
            events = [await self._inbox.get()]
            while len(events) < _TURN_MAX and not self._inbox.empty():
                events.append(self._inbox.get_nowait())
            self._store()  # those of submissions, on which an event may rest
            for event in events:
                event()
            self._store()
            await asyncio.sleep(0)

    async def stored(self) -> None:
        """Wait until what was changed or posted so far is handled and stored."""
        stored = asyncio.get_running_loop().create_future()
        self.post(partial(self.post, partial(_complete, stored)))
        await stored


def _complete(future: asyncio.Future[None]) -> None:
    """Complete a future, unless its waiter was cancelled."""
    if not future.done():
        future.set_result(None)
