"""A server ends without a traceback, whatever calls are under way."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import grpc
import pytest

from koala.common.wire.grpc_shutdown import run_and_drain

CALLS = 50


class _Clients(threading.Thread):
    """Open calls from another loop, as other processes have them."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port

    def run(self) -> None:
        with grpc.insecure_channel(f"127.0.0.1:{self._port}") as channel:
            method: Any = channel.unary_stream("/a.B/Wait")
            calls = [method(b"") for _ in range(CALLS)]
            for call in calls:
                with pytest.raises(grpc.RpcError):
                    next(call)


def run_and_stop(grace_s: float | None) -> None:
    """A server whose loop ends as soon as it has stopped, with calls that would have gone on."""
    clients = []

    async def serve() -> None:
        waiting = asyncio.Semaphore(0)

        async def wait(_request: bytes, _context: object) -> None:
            waiting.release()
            await asyncio.Event().wait()

        server = grpc.aio.server()
        handler: Any = grpc.unary_stream_rpc_method_handler(wait)
        handlers = grpc.method_handlers_generic_handler("a.B", {"Wait": handler})
        server.add_generic_rpc_handlers((handlers,))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        clients.append(_Clients(port))
        clients[0].start()
        for _ in range(CALLS):
            await waiting.acquire()
        await server.stop(grace_s)

    asyncio.run(run_and_drain(serve()))
    clients[0].join()


@pytest.mark.parametrize("grace_s", [None, 0.05])
def test_a_server_ends_without_tracebacks(
    grace_s: float | None, capfd: pytest.CaptureFixture[str]
) -> None:
    run_and_stop(grace_s)
    assert "Traceback" not in capfd.readouterr().err
