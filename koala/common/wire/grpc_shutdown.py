"""Clean shutdown of what gRPC leaves in an event loop.

- When `stop` of a server returns, gRPC's own tasks that end its last calls may still be running. An
  event loop that ends then cancels them, and asyncio logs a traceback for each.
- All event loops of a process share a queue of gRPC's, which any of them reads. What comes for a
  loop that has ended, or what two of them read at once, is an error in the callback of one.
- Nobody can wait for these, and no call fails by them. So asyncio's log leaves them out.
"""

from __future__ import annotations

import asyncio
import logging
import re
import traceback
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from grpc import aio

Result = TypeVar("Result")

LAST_TASKS_S = 5.0
"""Time limit of the last tasks. They take a few milliseconds, on a busy machine some hundred."""

_OF_GRPC = ("_schedule_rpc_coro", "_handle_exceptions")
_ASYNCIO = str(Path(asyncio.__file__).parent)
_COMPILED = "grpc/_cython/"
_TASK = re.compile(r"task: <Task [^<]*coro=<[^>]*/grpc/(aio|_cython)/")
"""Task of gRPC's own, as asyncio writes it."""


def leave_out_grpc() -> None:
    """Leave out of asyncio's log what fails or is left in gRPC's own callbacks and tasks."""
    logging.getLogger("asyncio").addFilter(_is_of_others)  # once, however often it is called


def _is_of_others(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return _TASK.search(record.getMessage()) is None
    places = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    compiled = [place for place in places if _COMPILED in place]
    others = [place for place in places if not place.startswith(_ASYNCIO)]
    return not compiled or others != compiled


async def run_and_drain(main: Coroutine[Any, Any, Result]) -> Result:
    """Run `main`, then wait for gRPC's last tasks; for `asyncio.run` of a server."""
    leave_out_grpc()
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
