"""What interceptors of gRPC's servers share, and one of them: bytes that are no message.

gRPC takes bytes that it cannot read for a fault of ours: the caller hears of an unknown error, and
the log has a traceback for whatever anybody sends.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from koala.wire.flood_guard import FloodGuard

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Behaviour: TypeAlias = Callable[[Any, Context], Awaitable[Any]]


def behaviour_of(handler: Handler) -> Behaviour:
    """What answers, whichever of the four forms the call has."""
    found = (
        handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream
    )
    assert found is not None
    return found  # type: ignore[return-value] # with grpc.aio all of ours are coroutine functions


def handler_of(
    handler: Handler,
    behaviour: Behaviour,
    read: Callable[[bytes], Any] | None = None,
    *,
    is_streaming: bool | None = None,
) -> Handler:
    """The same call, answered by this, its messages read by `read`. With `is_streaming` the answer
    begins before the request has come, and gets a stream of messages, whatever the client sends."""
    make: Callable[..., Handler]
    if handler.request_streaming if is_streaming is None else is_streaming:
        make = (
            grpc.stream_stream_rpc_method_handler
            if handler.response_streaming
            else grpc.stream_unary_rpc_method_handler
        )
    else:
        make = (
            grpc.unary_stream_rpc_method_handler
            if handler.response_streaming
            else grpc.unary_unary_rpc_method_handler
        )
    return make(
        behaviour,
        request_deserializer=read or handler.request_deserializer,
        response_serializer=handler.response_serializer,
    )


@dataclass(frozen=True, slots=True)
class _Garbled:
    """In place of a message."""

    reason: str


class Readable(grpc.aio.ServerInterceptor):
    """Refuses bytes that are no message; in the midst of a stream they are a DecodeError. Tells the
    guard of each call and message."""

    def __init__(self, guard: FloodGuard) -> None:
        self._guard = guard

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """See grpc.aio.ServerInterceptor."""
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_deserializer is None:
            return handler
        behaviour, deserialize = behaviour_of(handler), handler.request_deserializer
        is_stream, guard = handler.request_streaming, self._guard

        def read(data: bytes) -> Any:
            try:
                return deserialize(data)
            except DecodeError as error:
                return _Garbled(str(error))

        async def answer(request: Any, context: Context) -> Any:
            if isinstance(request, _Garbled):
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, _words(request.reason))
            peer = str(context.peer())
            if is_stream:
                request = _messages(request, lambda: guard.heard(peer))
            try:
                with guard.call(peer):
                    return await behaviour(request, context)
            except DecodeError as error:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, _words(str(error)))

        return handler_of(handler, answer, read)


async def _messages(requests: AsyncIterator[Any], heard: Callable[[], None]) -> AsyncIterator[Any]:
    async for request in requests:
        heard()
        if isinstance(request, _Garbled):
            raise DecodeError(request.reason)
        yield request


def _words(reason: str) -> str:
    return f"what came is no message of this call: {reason[:200]}"
