"""Run the web process until a signal ends it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import uvicorn

from koala.errors import first_error
from koala.identity.private_files import write_private
from koala.web.app import make_app
from koala.web.settings import WebSettings
from koala.wire.listen_ports import cannot_listen

STOP_S = 2
"""Time for open streams to end."""


def serve(settings: WebSettings, address: str | None, *, say: Callable[[str], None]) -> None:
    """Serve the pages of a daemon; `say` gets each new sign-in link.

    Raises ConfigError, and the KoalaError with which the daemon could not be reached.
    """
    bound = _bind(settings)
    port = bound.getsockname()[1]

    def link(text: str) -> None:
        say(text)
        if settings.link_file is not None:
            write_private(settings.link_file, f"{text}\n".encode())

    try:
        with bound:
            asyncio.run(_serve(settings, address, bound, port, link))
    except BaseExceptionGroup as group:
        raise first_error(group) from None


async def _serve(
    settings: WebSettings,
    address: str | None,
    bound: socket.socket,
    port: int,
    link: Callable[[str], None],
) -> None:
    app = make_app(settings, address, port=port, link=link)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_graceful_shutdown=STOP_S,
            ssl_certfile=settings.certificate,
            ssl_keyfile=settings.key,
        )
    )
    async with app.router.lifespan_context(app):
        await server.serve(sockets=[bound])


def _bind(settings: WebSettings) -> socket.socket:
    """Take the port. Raises ConfigError."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((settings.host, settings.port))
    except OSError:
        bound.close()
        raise cannot_listen("--listen", f"{settings.host}:{settings.port}") from None
    return bound
