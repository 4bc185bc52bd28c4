"""Connections of browsers: how long each may say nothing, and which one gives way to a new one.

Anybody who reaches the port can open connections, and all may come from one address: a proxy, a
tunnel, the accounts of this machine. uvicorn waits for a request without a limit, and asyncio
accepts until no descriptor is left. So connections are accepted here:

- There are fewer places than descriptors. Beyond them a new connection takes the place of the one
  that has gone longest without a request of a signed-in user under way. `shares` keeps those
  requests below the number of places, so there always is one.
- A connection is cut when a request is not whole `REQUEST_S` after the connection opened or its
  last answer ended, and when nobody has read the next part of an answer for `STALL_S`.
"""

from __future__ import annotations

import asyncio
import socket

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from koala.common.runtime import clock
from koala.common.runtime.structured_log import LogRate, get_logger
from koala.common.wire.connection_limits import connections_max
from koala.web.security import BODY_MAX

CONNECTIONS_MAX = 4_000
BACKLOG = 2_048
REQUEST_S = 30.0
"""Time for a request with its body, and for the handshake before it."""
STALL_S = 30.0
REQUEST_BYTES_MAX = 2 * BODY_MAX
"""Most bytes of a request that is not whole. A body that is too long for a page is read on to here,
since a browser shows a refusal only when it has sent its request."""
REST_S = 0.1
"""Pause in accepting when there is no descriptor, and nobody to give way."""
IDENTITY = "identity"
"""Name in the state of a request: the identity of a signed-in user, within its share."""

log = get_logger()


def places() -> int:
    """Return the number of connections that this process takes, by its limit of descriptors now."""
    return min(CONNECTIONS_MAX, connections_max(1))


class Connection(H11Protocol):
    """One connection. It is cut when it neither asks nor reads in time."""

    def __init__(
        self,
        acceptor: Acceptor,
        accepted: socket.socket,
        config: uvicorn.Config,
        state: ServerState,
    ) -> None:
        super().__init__(config, state, {}, acceptor.loop)
        self._acceptor = acceptor
        self._accepted = accepted
        self._opening = acceptor.loop.create_task(self._open())
        self._opening.add_done_callback(self._opened)
        self._received = 0  # bytes of the request that is not whole
        self._deadline: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._set_deadline()

    @property
    def is_open(self) -> bool:
        """True after the handshake."""
        return self._opening.done()

    @property
    def keeps_its_place(self) -> bool:
        """True while a request of a signed-in user is under way."""
        return self._is_answering and IDENTITY in self.cycle.scope["state"]

    def cut(self) -> None:
        """End the connection at once, whatever is not sent."""
        if not self._opening.cancel():
            self.transport.abort()

    def forget(self) -> None:
        """Drop the timers of a connection that has ended."""
        for timer in (self._deadline, self._stall):
            if timer is not None:
                timer.cancel()

    # --- what asyncio and uvicorn call ------------------------------------------------------------

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the place."""
        super().connection_lost(exc)
        self._acceptor.leave(self)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        self._received += len(data)
        if self._received > REQUEST_BYTES_MAX:
            self.cut()
            return
        super().data_received(data)
        self._set_deadline()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._acceptor.renew(self)
        self._set_deadline()

    def pause_writing(self) -> None:
        """Wait for a reader who is behind, within `STALL_S`."""
        super().pause_writing()
        self._stall = self.loop.call_later(STALL_S, self.cut)

    def resume_writing(self) -> None:
        """Go on: the reader has read."""
        super().resume_writing()
        if self._stall is not None:
            self._stall.cancel()

    # ----------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        await self.loop.connect_accepted_socket(lambda: self, self._accepted, ssl=self.config.ssl)

    def _opened(self, opening: asyncio.Task[None]) -> None:
        """Look how the opening has ended; a handshake that failed is no event."""
        if opening.cancelled() or opening.exception() is not None:
            self._accepted.close()
            self._acceptor.leave(self)

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _set_deadline(self) -> None:
        """Begin or end the wait for a whole request."""
        if self._is_answering and not self.cycle.more_body:
            self._received = 0
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None
        elif self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_S, self.cut)


class Acceptor:
    """Accepts the connections of one port. `listener` listens already."""

    def __init__(self, listener: socket.socket, config: uvicorn.Config, state: ServerState) -> None:
        self.loop = asyncio.get_running_loop()
        self._listener = listener
        self._config = config
        self._state = state
        self._connections: dict[Connection, None] = {}  # the longest without an answer first
        self._again: asyncio.TimerHandle | None = None
        self._crowd = LogRate()
        listener.settimeout(0)

    def open(self) -> None:
        """Accept connections from now on."""
        self.loop.add_reader(self._listener, self._accept)

    def close(self) -> None:
        """Accept none any more; those that are open stay, if they have asked anything."""
        if self._again is not None:
            self._again.cancel()
        self.loop.remove_reader(self._listener)
        for connection in tuple(self._connections):
            if not connection.is_open:
                connection.cut()

    def renew(self, connection: Connection) -> None:
        """Count a connection as the newest: a request of it was answered."""
        if connection in self._connections:
            del self._connections[connection]
            self._connections[connection] = None

    def leave(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        self._connections.pop(connection, None)
        connection.forget()

    def _accept(self) -> None:
        """Accept one connection; the loop calls again while more are waiting."""
        try:
            accepted, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            if not self._give_way(error.strerror or str(error)):
                self.loop.remove_reader(self._listener)
                self._again = self.loop.call_later(REST_S, self.open)
            return
        accepted.settimeout(0)
        self._connections[Connection(self, accepted, self._config, self._state)] = None
        while len(self._connections) > (most := places()):
            if not self._give_way(f"more than {most} connections at once"):
                break

    def _give_way(self, reason: str) -> bool:
        """Cut the connection that has gone longest without a signed-in user's request; return False
        if there is none."""
        oldest = next((one for one in self._connections if not one.keeps_its_place), None)
        if oldest is not None:
            del self._connections[oldest]
            oldest.cut()
        if count := self._crowd.count(clock.now()):
            log.warning("connections.cut", reason=reason, connections=count)
        return oldest is not None
