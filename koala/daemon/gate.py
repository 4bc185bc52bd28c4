"""What every client's call passes: the protocol version, and errors made statuses.

Agents have their own version in Register; calls of other services pass untouched.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import grpc
import structlog

from koala.errors import KoalaError
from koala.wire import PROTOCOL
from koala.wire.status import MESSAGE_MAX, PROTOCOL_KEY, USER_KEY, to_status

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
_SERVICE = "/koala.wire.v1.Koala/"
USER_MAX = 256
log = structlog.get_logger()


class Gate(grpc.aio.ServerInterceptor):
    """Refuses calls of another protocol version before anything of them is read."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """See grpc.aio.ServerInterceptor."""
        handler = await continuation(handler_call_details)
        method = str(handler_call_details.method)
        if handler is None or not method.startswith(_SERVICE):
            return handler
        found = [
            value for key, value in handler_call_details.invocation_metadata if key == PROTOCOL_KEY
        ]
        if found == [str(PROTOCOL)]:
            return handler
        said = f"protocol {str(found[0])[:40]}" if found else "no protocol version"
        reason = (
            f"the client speaks {said}, this daemon protocol {PROTOCOL}:"
            f" metadata {PROTOCOL_KEY} must be {PROTOCOL}"
        )
        return _refusing(handler, reason)


def _refusing(handler: Handler, reason: str) -> Handler:
    async def refuse(_: object, context: Context) -> None:
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, reason)

    make: Callable[..., Handler] = (
        grpc.unary_stream_rpc_method_handler
        if handler.response_streaming
        else grpc.unary_unary_rpc_method_handler
    )
    return make(
        refuse,
        request_deserializer=handler.request_deserializer,
        response_serializer=handler.response_serializer,
    )


def user_of(context: Context) -> str:
    """Who calls, as the client says."""
    for key, value in context.invocation_metadata() or ():
        if key == USER_KEY:
            return str(value)[:USER_MAX]
    return ""


async def abort(context: Context, error: KoalaError) -> None:
    """End the call with the status of an error."""
    code, message, trailing = to_status(error)
    details = "".join(c if c.isprintable() else " " for c in message)[:MESSAGE_MAX]
    log.debug("call.refused", code=code.name, reason=details)
    await context.abort(code, details, trailing)
