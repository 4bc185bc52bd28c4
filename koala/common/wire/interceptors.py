"""Shared parts of gRPC server interceptors, and the interceptor for malformed messages.

gRPC treats bytes that it cannot parse as a server fault: the caller gets an unknown error, and the
log a traceback for any garbage that an unauthenticated peer sends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Behaviour: TypeAlias = Callable[[Any, Context], Awaitable[Any]]


def behaviour_of(handler: Handler) -> Behaviour:
    """Return the function that answers a call, in any of its four forms."""
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
    """Copy a call's handler with another behaviour; `read` parses its messages.

    With `is_streaming` the answer begins before the request has come. It then gets a stream of
    messages, whatever the client sends.
    """
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
    """Placeholder for a message that could not be parsed."""

    reason: str


class Readable(grpc.aio.ServerInterceptor):
    """Interceptor that refuses malformed messages.

    In the middle of a stream a malformed message is a DecodeError. The handler of a method is made
    at its first call and kept: a server's methods do not change.
    """

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """See grpc.aio.ServerInterceptor."""
        method = str(handler_call_details.method)
        if (known := self._handlers.get(method)) is not None:
            return known
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        readable = self._handlers[method] = self._readable(handler)
        return readable

    def _readable(self, handler: Handler) -> Handler:
        if handler.request_deserializer is None:
            return handler
        behaviour, deserialize = behaviour_of(handler), handler.request_deserializer
        is_stream = handler.request_streaming

        def read(data: bytes) -> Any:
            try:
                return deserialize(data)
            except DecodeError as error:
                return _Garbled(str(error))

        async def answer(request: Any, context: Context) -> Any:
            if isinstance(request, _Garbled):
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, _words(request.reason))
            if is_stream:
                request = _Messages(context)
            try:
                return await behaviour(request, context)
            except DecodeError as error:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, _words(str(error)))

        return handler_of(handler, answer, read)


class _Messages:
    """The messages of a call, each at the moment at which it is asked for.

    This is no generator: of most calls only the first message is read, and for each generator that
    is left before its end asyncio makes a task that closes it.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def __aiter__(self) -> _Messages:
        return self

    async def __anext__(self) -> Any:
        request = await self._context.read()
        if request is grpc.aio.EOF:
            raise StopAsyncIteration
        if isinstance(request, _Garbled):
            raise DecodeError(request.reason)
        return request


def _words(reason: str) -> str:
    return f"not a message of this call: {reason[:200]}"
