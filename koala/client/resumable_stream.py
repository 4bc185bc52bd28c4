"""Streams of the daemon that last: one that its end cut off is asked for again, where it was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc

from koala.errors import UnreachableError

RETRY_MIN_S = 0.1
RETRY_MAX_S = 2.0

_CUT = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
)
"""Ends of a stream after which it is taken up again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The stream has begun, or begun anew; `mark` is what the daemon says of it, if it did."""

    mark: str | None


async def lasting(ask: Callable[[], Awaitable[Any]], *, key: str) -> AsyncGenerator[Any, None]:
    """A `Begun` and then the messages, each time that there is a stream; until one ends by itself.

    `ask` calls. A daemon that has said something under this key of the initial metadata is waited
    for when it goes away. Raises AioRpcError, UnreachableError before it has.
    """
    has_begun, retry_s = False, RETRY_MIN_S
    while True:
        call: Any = None
        try:
            call = await ask()
            mark = _said(await call.initial_metadata(), key)
            if mark is not None:
                has_begun, retry_s = True, RETRY_MIN_S
            yield Begun(mark=mark)
            async for message in call:
                yield message
        except grpc.aio.AioRpcError as error:
            if not has_begun or error.code() not in _CUT:
                raise
        except UnreachableError:
            if not has_begun:
                raise
        else:
            return
        finally:
            if call is not None:
                call.cancel()
        await asyncio.sleep(retry_s)
        retry_s = min(2 * retry_s, RETRY_MAX_S)


def _said(metadata: Any, key: str) -> str | None:  # noqa: ANN401 - gRPC's metadata
    return next((value for name, value in metadata or () if name == key), None)
