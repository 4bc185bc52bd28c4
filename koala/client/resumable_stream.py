"""Resumable server streams: reopen a stream that a restart of the daemon cut off."""

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
"""Status codes after which a stream is reopened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOpened:
    """Marker: the stream was opened or reopened; `mark` is its value in the initial metadata."""

    mark: str | None


async def resumable_stream(
    open_stream: Callable[[], Awaitable[Any]], *, key: str
) -> AsyncGenerator[Any, None]:
    """Yield a `StreamOpened` and the messages of a stream; reopen it with back-off when cut off.

    - A stream is resumable once the daemon has sent `key` in the initial metadata.
    - Before that, errors pass: AioRpcError, UnreachableError.
    - A stream that the daemon ends in order ends the iteration.
    """
    is_resumable, retry_s = False, RETRY_MIN_S
    while True:
        call: Any = None
        try:
            call = await open_stream()
            mark = _metadata_value(await call.initial_metadata(), key)
            if mark is not None:
                is_resumable, retry_s = True, RETRY_MIN_S
            yield StreamOpened(mark=mark)
            async for message in call:
                yield message
        except grpc.aio.AioRpcError as error:
            if not is_resumable or error.code() not in _CUT:
                raise
        except UnreachableError:
            if not is_resumable:
                raise
        else:
            return
        finally:
            if call is not None:
                call.cancel()
        await asyncio.sleep(retry_s)
        retry_s = min(2 * retry_s, RETRY_MAX_S)


def _metadata_value(metadata: Any, key: str) -> str | None:  # noqa: ANN401 - gRPC's metadata
    return next((value for name, value in metadata or () if name == key), None)
