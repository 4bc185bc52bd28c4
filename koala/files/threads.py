"""Blocking work in threads that survives cancellation of its task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


async def in_thread(work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Call `work` in a thread and return its result.

    A thread cannot be cancelled. A task that is cancelled here ends only when the thread is done,
    so that whoever awaits the task may delete the file that the thread was writing.
    """
    loop = asyncio.get_running_loop()
    future = loop.run_in_executor(None, partial(work, *args, **kwargs))
    # A task that is cancelled twice never reads the result; asyncio would log that.
    future.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if not future.done():
            await asyncio.wait([future])
        raise


async def in_steps(step: Callable[[], bool]) -> None:
    """Call `step` in threads until it returns False.

    Long work is cut into steps, because threads are few. The checksum of a huge file must not delay
    readers of small files, nor the shutdown of an agent.
    """
    while await in_thread(step):
        pass
