"""Threads that are kept are all started at once, or a clear error says that there is no room."""

import asyncio
import threading

import pytest

from koala.common.runtime.threads import keep_threads
from koala.errors import ExhaustedError


async def test_all_threads_are_there_before_the_first_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keep_threads(asyncio.get_running_loop(), count=4)

    def no_more(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_more)
    both = threading.Barrier(4)
    await asyncio.gather(*(asyncio.to_thread(both.wait, 30) for _ in range(4)))
    monkeypatch.undo()  # the loop's end starts one


async def test_too_little_room_for_them_is_told_and_leaves_no_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = set(threading.enumerate())
    start = threading.Thread.start

    def three(thread: threading.Thread) -> None:
        if len(set(threading.enumerate()) - before) >= 3:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", three)
    with pytest.raises(ExhaustedError, match="no 8 threads more: can't start new thread"):
        keep_threads(asyncio.get_running_loop(), count=8)
    assert set(threading.enumerate()) <= before  # what earlier tests had left may have ended
