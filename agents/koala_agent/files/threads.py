"""Blocking work of the carriers, done in threads without losing track of it."""

from __future__ import annotations

import asyncio
import threading
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
    return await _call(partial(work, *args, **kwargs), threading.Event())


async def in_stoppable_thread(work: Callable[[threading.Event], _T]) -> _T:
    """As `in_thread`, for long work that looks at its argument: set, it should end soon."""
    stop = threading.Event()
    return await _call(partial(work, stop), stop)


async def _call(work: Callable[[], _T], stop: threading.Event) -> _T:
    future = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        stop.set()
        if not future.done():
            await asyncio.wait([future])
        if not future.cancelled():
            future.exception()  # looked at, or asyncio complains that nobody did
        raise
