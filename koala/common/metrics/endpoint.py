"""The HTTP endpoint of metrics: a WSGI server in threads, so that no event loop waits for a scrape.

Of too many connections that have not asked yet the oldest gives way, so peers that say nothing
keep no scrape out. Certificate, key and token are read again when their files change.
"""

from __future__ import annotations

import hmac
import socket
import ssl
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from socketserver import ThreadingMixIn
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from koala.common.identity.private_files import read_private, write_private
from koala.common.metrics.settings import MetricsSettings
from koala.common.runtime import clock
from koala.common.runtime.structured_log import LogRate, get_logger
from koala.common.wire.listen_ports import cannot_listen, check_free
from koala.errors import ConfigError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

PATH = "/metrics"
CONNECTIONS_MAX = 16
IDLE_S_MAX = 10.0
POLL_S = 0.2
TOKEN_BYTES_MAX = 4_096

log = get_logger()


class MetricsEndpoint:
    """Serve a registry at `PATH`, from `start` to `close`."""

    def __init__(self, settings: MetricsSettings, registry: CollectorRegistry, *, key: str) -> None:
        """Listen. `key` is the configuration key of the address. Raises ConfigError."""
        check_free(key, settings.listen)
        self._settings = settings
        if settings.token_file:
            _read_token(settings.token_file)
        app = _protected(make_wsgi_app(registry), settings.token_file)
        host, _, port = settings.listen.rpartition(":")
        try:
            self._server = _Server((host.strip("[]"), int(port)), app, settings)
        except OSError as error:
            raise cannot_listen(key, settings.listen) from error
        scheme = "https" if settings.certificate else "http"
        self.url = f"{scheme}://{host}:{self._server.server_port}{PATH}"
        self._thread = Thread(
            target=self._server.serve_forever, args=(POLL_S,), name="metrics", daemon=True
        )

    def start(self) -> None:
        """Begin to serve, and write the address to its file; on a full disk there is no file."""
        self._thread.start()
        log.info("metrics.started", address=self.url)
        try:
            write_private(Path(self._settings.url_file), f"{self.url}\n".encode())
        except OSError as error:
            path, reason = self._settings.url_file, str(error)
            log.warning("metrics.address_not_written", path=path, reason=reason)

    def close(self) -> None:
        """Stop serving; waits at most `POLL_S`."""
        with suppress(OSError):
            Path(self._settings.url_file).unlink()
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


class _Handler(WSGIRequestHandler):
    """Handler of one request, without a line in the log for each."""

    timeout = IDLE_S_MAX

    def handle(self) -> None:
        """Answer one request; a peer that leaves or talks no HTTP is no event."""
        with suppress(OSError):
            super().handle()

    def finish(self) -> None:
        """Send what is left."""
        with suppress(OSError):
            super().finish()

    def get_environ(self) -> WSGIEnvironment:
        """Return the environment of a request whose headers have been read."""
        assert isinstance(self.server, _Server)
        self.server.note_asked(self.connection)
        return super().get_environ()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401 - the library's
        """Log nothing."""

    def address_string(self) -> str:
        """Return the address without a look-up of its name."""
        return str(self.client_address[0])


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each connection, and a bound on the number of those that have not asked yet."""

    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], app: WSGIApplication, settings: MetricsSettings
    ) -> None:
        """Listen. Raises ConfigError, OSError."""
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._lock = Lock()
        self._silent: dict[Any, None] = {}  # in the order in which they came
        self._failures = LogRate()
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if settings.certificate else None
        self._pair = (settings.certificate, settings.key)
        self._read_at: tuple[int, ...] = ()
        super().__init__(address, _Handler)
        self.set_app(app)
        if self._tls is not None:
            try:
                self._read_certificate(self._tls)
            except (OSError, ssl.SSLError) as error:
                self.server_close()
                pair = " and ".join(self._pair)
                text = f"metrics.certificate: {pair} cannot be used: {error}"
                raise ConfigError(text) from error
            self.socket = self._tls.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )

    def server_bind(self) -> None:
        """Bind the socket, without a look-up of the machine's name."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def _read_certificate(self, context: ssl.SSLContext) -> None:
        """Read certificate and key if they have changed. Raises OSError, ssl.SSLError."""
        changed_at = tuple(Path(path).stat().st_mtime_ns for path in self._pair)
        if changed_at != self._read_at:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*self._pair)  # do they fit?
            context.load_cert_chain(*self._pair)
            self._read_at = changed_at

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection, with the newest certificate."""
        if self._tls is not None:
            try:
                self._read_certificate(self._tls)
            except (OSError, ssl.SSLError) as error:  # half of a renewal: keep the older one
                log.warning("metrics.certificate_not_read", reason=str(error))
        return super().get_request()

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ANN401
        """Take a connection. If too many have not asked, the oldest of them gives way."""
        with self._lock:
            self._silent[request] = None
            if len(self._silent) > CONNECTIONS_MAX:
                oldest = next(iter(self._silent))
                _end(oldest)
                del self._silent[oldest]
        return True

    def note_asked(self, connection: socket.socket) -> None:
        """Let a connection stay until its answer is sent."""
        with self._lock:
            self._silent.pop(connection, None)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - the library's type
        """Close a connection."""
        self.note_asked(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Log an error of a handler; it ends that connection only."""
        if count := self._failures.count(clock.now()):
            log.warning("metrics.request_failed", reason=repr(sys.exception()), times=count)


def _end(connection: socket.socket) -> None:
    """End a connection; its thread sees that."""
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)  # TLS would change its state, too


def _protected(app: WSGIApplication, token_file: str) -> WSGIApplication:
    """Restrict an application to `PATH`, and to callers that show the token."""

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        if environ.get("PATH_INFO") != PATH:
            return _text(start, "404 Not Found", f"the metrics are at {PATH}")
        if token_file and not _is_shown(environ.get("HTTP_AUTHORIZATION", ""), token_file):
            challenge = ("WWW-Authenticate", "Bearer")
            return _text(start, "401 Unauthorized", "a bearer token is needed", challenge)
        return app(environ, start)

    return answer


def _text(
    start: StartResponse, status: str, text: str, *headers: tuple[str, str]
) -> Iterable[bytes]:
    start(status, [("Content-Type", "text/plain; charset=utf-8"), *headers])
    return [text.encode() + b"\n"]


def _is_shown(shown: str, token_file: str) -> bool:
    try:
        token = _read_token(token_file)
    except ConfigError as error:
        log.warning("metrics.token_not_read", reason=str(error))
        return False
    return hmac.compare_digest(shown.encode("utf-8", "replace"), b"Bearer " + token)


def _read_token(path: str) -> bytes:
    """Read the token. Raises ConfigError."""
    try:
        token = read_private(Path(path))[:TOKEN_BYTES_MAX].strip()
    except OSError as error:
        reason = error.strerror
        raise ConfigError(f"metrics.token_file: {path} cannot be read: {reason}") from error
    if not token:
        raise ConfigError(f"metrics.token_file: {path} is empty (expected a token of one line)")
    return token
