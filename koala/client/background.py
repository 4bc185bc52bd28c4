"""Synchronous methods of asynchronous ones, which run in one event loop in a thread.

All clients of the process share the loop, because gRPC works best with one. The thread makes the
client usable where a loop runs already, as in a notebook.
"""

from __future__ import annotations

import asyncio
import atexit
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

from koala.errors import KoalaError

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., object])

_END: Any = object()
STOP_S = 2.0


class BackgroundLoop:
    """Event loop in a daemon thread, which starts with the first call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_over = False

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result; an interrupt cancels it."""
        future = asyncio.run_coroutine_threadsafe(call, self._running())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Iterate over an asynchronous generator."""
        try:
            while (item := self.run(_next(items))) is not _END:
                yield item
        finally:
            if not self._is_over:
                self.run(_close(items))

    def _stop(self) -> None:
        """Stop the loop at the end of the interpreter, so that nothing waits for it after that."""
        self._is_over = True
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(STOP_S)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._thread is threading.current_thread():
                raise KoalaError(
                    "a synchronous client was called from the thread of the clients (expected any"
                    " other thread)"
                )
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="koala-client", daemon=True
                )
                self._thread.start()
                atexit.register(self._stop)
            return self._loop


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items, _END)


async def _close(items: Any) -> None:  # noqa: ANN401 - an asynchronous generator
    await items.aclose()


LOOP = BackgroundLoop()


def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Make a method that awaits this one of `_inner` and returns its result."""
    return blocking_as(_same, method)


def blocking_as(
    convert: Callable[[T], R], method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]
) -> Callable[Concatenate[Any, P], R]:
    """Make a method that awaits this one of `_inner` and returns its converted result."""

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:  # noqa: ANN401 - any client
        return convert(LOOP.run(method(self._inner, *args, **kwargs)))

    return _like(method, call)


def iterating(
    method: Callable[Concatenate[Any, P], AsyncIterator[T]],
) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """Make a method that iterates over the items of this one of `_inner`."""

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:  # noqa: ANN401
        return LOOP.iterate(method(self._inner, *args, **kwargs))

    return _like(method, call)


def _same(found: T) -> T:
    return found


def _like(method: Callable[..., object], call: F) -> F:
    """Give `call` the documentation of a method, and its signature without `Async`."""
    update_wrapper(call, method)
    signature = inspect.signature(method)
    returns = str(signature.return_annotation).replace("Async", "")
    vars(call)["__signature__"] = signature.replace(return_annotation=returns)
    return call
