"""The end of a process that serves calls.

When `stop` of a gRPC server returns, tasks of gRPC's own that end its last calls may still be
there. An event loop that ends then cancels them, and gRPC writes a traceback to standard error for
each: as many as there were calls, and none of them says anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

LAST_TASKS_S = 5.0
"""They take a few milliseconds, on a busy machine some hundred."""

_OF_GRPC = ("_schedule_rpc_coro", "_handle_exceptions")


async def to_the_end(main: Coroutine[Any, Any, Result]) -> Result:
    """What `asyncio.run` runs, when it stops its servers itself: `main`, and what gRPC has left."""
    try:
        return await main
    finally:
        last = {
            task
            for task in asyncio.all_tasks()
            if getattr(task.get_coro(), "__name__", "") in _OF_GRPC
        }
        if last:
            await asyncio.wait(last, timeout=LAST_TASKS_S)
