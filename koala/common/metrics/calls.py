"""gRPC interceptor that counts calls by method and status."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from koala.common.metrics.declarations import CALL_SECONDS, CALLS, OTHER
from koala.common.metrics.meter import Meter
from koala.common.runtime import clock
from koala.common.wire.interceptors import Context, Handler, behaviour_of, handler_of

PACKAGE = "/koala.wire.v1."


class CallCounter(grpc.aio.ServerInterceptor):
    """Counts the calls of a server. As the first interceptor it sees all that others refuse."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """See grpc.aio.ServerInterceptor."""
        handler = await continuation(handler_call_details)
        if handler is None:
            self._meter.add(CALLS, OTHER, grpc.StatusCode.UNIMPLEMENTED.name)
            return None
        method = str(handler_call_details.method).removeprefix(PACKAGE)
        is_unary = not handler.response_streaming
        behaviour = behaviour_of(handler)

        async def counted(request: Any, context: Context) -> Any:  # noqa: ANN401 - any call
            began_at = clock.now()
            status = grpc.StatusCode.OK
            try:
                return await behaviour(request, context)
            except asyncio.CancelledError:
                status = grpc.StatusCode.CANCELLED
                raise
            except Exception:
                status = _status(context)
                raise
            finally:
                self._meter.add(CALLS, method, status.name)
                if is_unary:
                    self._meter.observe(CALL_SECONDS, clock.now() - began_at, method)

        return handler_of(handler, counted)


def _status(context: Context) -> grpc.StatusCode:
    """Return the status of a call that raised; unknown where it set none."""
    code = context.code()
    is_set = isinstance(code, grpc.StatusCode) and code is not grpc.StatusCode.OK
    return code if is_set else grpc.StatusCode.UNKNOWN
