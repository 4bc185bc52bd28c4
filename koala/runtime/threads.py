"""Start all threads behind `asyncio.to_thread` at once.

By itself an event loop starts them on first use. That fails where the account may have no more
processes (threads count): then any work that needs one would fail.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from koala.errors import ExhaustedError

THREADS = 16


def keep_threads(loop: asyncio.AbstractEventLoop, *, count: int = THREADS) -> None:
    """Give the loop a full thread pool. Raises ExhaustedError when threads cannot be started."""
    executor = ThreadPoolExecutor(count, thread_name_prefix="worker")
    here = Barrier(count + 1)
    try:
        for _ in range(count):
            executor.submit(here.wait)  # occupies its thread until all are started
    except RuntimeError as error:
        here.abort()  # else the threads that were started would wait without end
        executor.shutdown()
        raise ExhaustedError(f"this account may have no {count} threads more: {error}") from error
    here.wait()
    loop.set_default_executor(executor)
