"""Clean shutdown of a process with gRPC servers.

When `stop` of a gRPC server returns, gRPC's own tasks that end its last calls may still be running.
An event loop that ends then cancels them, and gRPC writes a traceback to standard error for each.
There are as many as there were calls, and none is of any use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from grpc import aio

Result = TypeVar("Result")

LAST_TASKS_S = 5.0
"""Time limit of the last tasks. They take a few milliseconds, on a busy machine some hundred."""

_OF_GRPC = ("_schedule_rpc_coro", "_handle_exceptions")


async def run_and_drain(main: Coroutine[Any, Any, Result]) -> Result:
    """Run `main`, then wait for gRPC's last tasks; for `asyncio.run` of a server."""
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


async def start_uninterrupted(server: aio.Server) -> None:
    """Start a gRPC server; when cancelled meanwhile, finish the start first.

    A server whose start was cut short can be neither stopped nor deleted without a traceback.
    """
    starting = asyncio.gather(server.start())
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        await starting
        raise
