"""Work in threads: whoever is cancelled meanwhile waits for its end, and nobody complains."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest

from koala.common.runtime.threads import in_thread

LIMIT_S = 60.0


@pytest.mark.parametrize("times", [1, 2])
async def test_an_error_after_cancelling_is_nobodys_complaint(times: int) -> None:
    """A second cancellation does not wait any more, as when a server is torn down."""
    complaints: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    begun, go_on, ended = asyncio.Event(), threading.Event(), asyncio.Event()

    def work() -> None:
        loop.call_soon_threadsafe(begun.set)
        go_on.wait(LIMIT_S)
        loop.call_soon_threadsafe(ended.set)
        raise OSError("closed")

    task = loop.create_task(in_thread(work))
    async with asyncio.timeout(LIMIT_S):
        await begun.wait()
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        await ended.wait()
        await asyncio.to_thread(lambda: None)  # so that the future of the work is done, too
    del task
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []
