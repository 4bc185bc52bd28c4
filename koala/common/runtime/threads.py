"""Use the threads beside the event loop: start all, wait for one, share one for short calls.

By itself an event loop starts threads on first use. That fails where the account may have no more
processes (threads count): then any work that needs one would fail.

Threads that run Python beside one another and beside the event loop take the interpreter from each
other at every call of the operating system. For short calls that costs more than they do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import Generic, ParamSpec, TypeVar

from koala.errors import ExhaustedError

THREADS = 16
_Order = TypeVar("_Order")
_Result = TypeVar("_Result")
_P = ParamSpec("_P")
_T = TypeVar("_T")


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


async def in_thread(work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Call `work` in a thread and return its result.

    A thread cannot be cancelled. A task that is cancelled here ends only when the thread is done,
    so that whoever awaits the task may delete the file that the thread was writing.
    """
    loop = asyncio.get_running_loop()
    future = loop.run_in_executor(None, partial(work, *args, **kwargs))
    # A task that is cancelled twice never reads the result; asyncio would log that.
    future.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if not future.done():
            await asyncio.wait([future])
        raise


async def in_steps(step: Callable[[], bool]) -> None:
    """Call `step` in threads until it returns False.

    Long work is cut into steps, because threads are few. The checksum of a huge file must not delay
    readers of small files, nor the shutdown of an agent.
    """
    while await in_thread(step):
        pass


class BatchedCalls(Generic[_Order, _Result]):
    """Calls of one function, one batch at a time, in the loop's thread pool.

    The function gets what waits, at most `batch_max` orders, and returns a result or an error for
    each. A call that takes long delays all that come after it.
    """

    def __init__(
        self,
        carry_out: Callable[[Sequence[_Order]], Sequence[_Result | Exception]],
        *,
        batch_max: int,
    ) -> None:
        self._carry_out = carry_out
        self._batch_max = batch_max
        self._waiting: list[tuple[_Order, asyncio.Future[_Result]]] = []
        self._is_busy = False

    async def call(self, order: _Order) -> _Result:
        """Return the result of an order, or raise its error."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_Result] = loop.create_future()
        self._waiting.append((order, answer))
        if not self._is_busy:
            self._is_busy = True
            loop.call_soon(self._begin)  # others of this moment join
        return await answer

    def _begin(self) -> None:
        batch, self._waiting = self._waiting[: self._batch_max], self._waiting[self._batch_max :]
        answers = [answer for _, answer in batch]
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(None, self._carry_out, [order for order, _ in batch])
        work.add_done_callback(lambda done: self._finish(answers, done))

    def _finish(
        self,
        answers: Sequence[asyncio.Future[_Result]],
        done: asyncio.Future[Sequence[_Result | Exception]],
    ) -> None:
        error = done.exception()
        results = [error] * len(answers) if error is not None else done.result()
        for answer, result in zip(answers, results, strict=True):
            if answer.cancelled():
                continue
            if isinstance(result, BaseException):
                answer.set_exception(result)
            else:
                answer.set_result(result)
        self._is_busy = bool(self._waiting)
        if self._is_busy:
            self._begin()
