"""Run the web process until a signal ends it.

The port listens before the first sign-in link is told, so that whoever has the link is answered.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import defaultdict
from collections.abc import Callable

import uvicorn

from koala.common.identity.private_files import write_private
from koala.common.runtime import clock
from koala.common.runtime.structured_log import LogRate, configure_logging, get_logger
from koala.common.wire.connection_limits import raise_limit
from koala.common.wire.listen_ports import cannot_listen
from koala.errors import ConfigError, first_error
from koala.web.app import make_app
from koala.web.connections import BACKLOG, Acceptor
from koala.web.settings import WebSettings

STOP_S = 2
"""Time for open streams to end."""

log = get_logger()


def serve(settings: WebSettings, address: str | None, *, say: Callable[[str], None]) -> None:
    """Serve the pages of a daemon; `say` gets each new sign-in link.

    Raises ConfigError, and the KoalaError with which the daemon could not be reached.
    """
    configure_logging("info")
    logging.basicConfig(handlers=[_LibraryLog(logging.WARNING)])
    raise_limit()
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
    config = uvicorn.Config(
        app,
        http="h11",
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
    try:
        config.load()
    except OSError as error:  # ssl.SSLError is one
        names = f"--certificate {settings.certificate} and --key {settings.key}"
        raise ConfigError(f"{names} cannot be used: {error}") from error
    async with app.router.lifespan_context(app):
        await _Server(config, bound).serve()


class _Server(uvicorn.Server):
    """uvicorn without a listener of its own: `Acceptor` accepts for it."""

    def __init__(self, config: uvicorn.Config, bound: socket.socket) -> None:
        super().__init__(config)
        self._acceptor = Acceptor(bound, config, self.server_state)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept."""
        await super().startup(sockets or [])
        self._acceptor.open()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, and end the answers under way."""
        self._acceptor.close()
        await super().shutdown(sockets)


class _LibraryLog(logging.Handler):
    """Logs what uvicorn and asyncio say, at a bounded rate: strangers can make them say much."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self._rates: defaultdict[str, LogRate] = defaultdict(LogRate)

    def emit(self, record: logging.LogRecord) -> None:
        """Log a line of the record, without its traceback."""
        if count := self._rates[record.name].count(clock.now()):
            text = record.getMessage().partition("\n")[0]
            error = repr(record.exc_info[1]) if record.exc_info else ""
            log.warning("library.message", of=record.name, text=text, error=error, times=count)


def _bind(settings: WebSettings) -> socket.socket:
    """Listen at the port. Raises ConfigError."""
    host, port = settings.place
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(BACKLOG)
    except OSError:
        bound.close()
        raise cannot_listen("--listen", settings.listen) from None
    return bound
