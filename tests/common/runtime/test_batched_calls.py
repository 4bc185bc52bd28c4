"""Calls that wait together: one batch, one thread, and an answer for each."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from koala.common.runtime.threads import BatchedCalls

LIMIT_S = 60.0


class Halves:
    """Halves even numbers, and keeps the batches that it got."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.may_go = threading.Event()
        self.may_go.set()

    def __call__(self, numbers: Sequence[int]) -> list[int | Exception]:
        assert self.may_go.wait(LIMIT_S)
        assert threading.current_thread() is not threading.main_thread()
        self.batches.append([*numbers])
        if 666 in numbers:
            raise KeyError(666)
        return [ValueError(f"{n} is odd") if n % 2 else n // 2 for n in numbers]


async def test_calls_of_one_moment_share_a_batch_and_each_gets_its_own_answer() -> None:
    halves = Halves()
    calls = BatchedCalls(halves, batch_max=3)
    async with asyncio.timeout(LIMIT_S):
        answers = await asyncio.gather(*map(calls.call, range(2, 7)), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["1", "3 is odd", "2", "5 is odd", "3"]
    assert halves.batches == [[2, 3, 4], [5, 6]]
    assert await calls.call(8) == 4


async def test_an_error_of_the_batch_reaches_all_its_callers_and_no_others() -> None:
    calls = BatchedCalls(Halves(), batch_max=2)
    answers = await asyncio.gather(*map(calls.call, (4, 666, 8)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [KeyError, KeyError, int]
    with pytest.raises(ValueError, match="9 is odd"):
        await calls.call(9)
