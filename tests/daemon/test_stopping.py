"""A server ends without a traceback, whatever calls are under way."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine
from contextlib import redirect_stderr, suppress
from io import StringIO
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc.aio._server import Server

from koala.common.wire.grpc_shutdown import run_and_drain
from koala.daemon.files.relay import serve as serve_relay
from koala.daemon.files.relay_settings import RelaySettings
from tests.daemon.running import a_daemon, config_of
from tests.harness.forked import apart

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


def relay_of(folder: Path) -> Coroutine[Any, Any, None]:
    settings = RelaySettings(secret="00" * 32, spool=str(folder / "spool"))
    return serve_relay(settings, lambda _port: None)


def daemon_of(folder: Path) -> Coroutine[Any, Any, None]:
    return a_daemon(config_of(folder)).serve(asyncio.Event())


@pytest.mark.parametrize("server_of", [relay_of, daemon_of])
@apart
def test_an_end_during_the_start_leaves_no_traceback(
    tmp_path: Path, server_of: Callable[[Path], Coroutine[Any, Any, None]]
) -> None:
    """As of a relay whose daemon fails as soon as it serves. Of a server that is cut so, gRPC may
    keep descriptors."""
    begin = Server.start
    running: list[asyncio.Task[None]] = []

    async def begin_and_end(server: Server) -> None:
        asyncio.get_running_loop().call_soon(running[0].cancel)
        await begin(server)

    async def cut() -> None:
        running.append(asyncio.get_running_loop().create_task(server_of(tmp_path)))
        with suppress(asyncio.CancelledError):
            await running[0]
        gc.collect()

    Server.start = begin_and_end  # type: ignore[method-assign,assignment]
    with redirect_stderr(StringIO()) as said:
        asyncio.run(run_and_drain(cut()))
        gc.collect()
    assert "Traceback" not in said.getvalue()
