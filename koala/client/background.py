"""Base of the synchronous client: one event loop in a thread runs the asynchronous one.

All clients of the process share the loop, because gRPC works best with one. The thread makes the
client usable where a loop runs already, as in a notebook.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
import warnings
from collections.abc import AsyncIterator, Coroutine, Iterator
from types import TracebackType
from typing import Any, TypeVar

from koala.client.client import AsyncClient
from koala.errors import KoalaError

T = TypeVar("T")
C = TypeVar("C", bound="ClientBase")

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
                    "a synchronous client was called from the thread of the clients: allowed is any"
                    " other thread"
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


_BACKGROUND = BackgroundLoop()


class Twin:
    """Base of the synchronous classes."""

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        return _BACKGROUND.run(call)

    def _iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        return _BACKGROUND.iterate(items)


class ClientBase(Twin):
    """Opening and closing of the synchronous client."""

    _inner: AsyncClient

    def _open(self, inner: AsyncClient) -> None:
        self._inner = inner
        self._run(inner.__aenter__())

    def __enter__(self: C) -> C:
        return self

    def __exit__(
        self,
        _: type[BaseException] | None,
        __: BaseException | None,
        ___: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> AsyncClient:
        message = "`async with Client()` is that of Koala 0.2: use AsyncClient"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return self._inner

    async def __aexit__(self, *_: object) -> None:
        await self._inner.__aexit__(None, None, None)

    def close(self) -> None:
        """Close the connection. The client also closes at the end of `with`."""
        self._run(self._inner.__aexit__(None, None, None))
