"""Blocking work of the carriers, done in threads without losing track of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


async def in_thread(work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """The result of `work`, called in a thread.

    A thread cannot be cancelled. A task that is cancelled here ends only when the thread is done,
    so that whoever waits for the task may delete what the thread was writing.
    """
    loop = asyncio.get_running_loop()
    future = loop.run_in_executor(None, partial(work, *args, **kwargs))
    # Whoever was cancelled twice does not look at it, and asyncio would complain.
    future.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if not future.done():
            await asyncio.wait([future])
        raise


async def in_steps(step: Callable[[], bool]) -> None:
    """Calls `step` in threads until it answers False.

    Long work is cut into steps, because threads are few: the checksum of a huge file must neither
    keep those from their bytes who read small ones, nor an agent from its end.
    """
    while await in_thread(step):
        pass
