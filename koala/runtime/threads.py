"""The threads behind `asyncio.to_thread`, all started at once.

By itself an event loop starts them when they are first needed, which fails where the account may
have no more processes (threads count): then whatever needed one would fail, and with it all.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from koala.errors import ExhaustedError

THREADS = 16


def keep_threads(loop: asyncio.AbstractEventLoop, *, count: int = THREADS) -> None:
    """Give the loop its threads. Raises ExhaustedError when there is no room for them now."""
    executor = ThreadPoolExecutor(count, thread_name_prefix="worker")
    here = Barrier(count + 1)
    try:
        for _ in range(count):
            executor.submit(here.wait)  # each keeps its thread until all have one
    except RuntimeError as error:
        here.abort()  # or those that were started would wait for ever
        executor.shutdown()
        raise ExhaustedError(f"this account may have no {count} threads more: {error}") from error
    here.wait()
    loop.set_default_executor(executor)
