"""Non-blocking connection to the agent, and the poll loop of all descriptors."""

from __future__ import annotations

import errno
import os
import select
import time

from koala_agent.starter.challenge_response import Prover
from koala_agent.starter.compat import log, to_bytes
from koala_agent.starter.events import Connected, Disconnected, Received
from koala_agent.starter.light import dumps, loads, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from koala_agent.starter.events import Event
    from koala_agent.starter.mailbox.client import MailboxConnector

    Found: TypeAlias = "tuple[int, tuple[Any, ...]]"
    """A family of addresses and one of them."""

_READ = bytearray(65536)
"""Buffer of all reads: a large block that is allocated for each would be mapped again each time."""
LINE_MAX_BYTES = 4 * 1024 * 1024
OUTBOX_MAX_BYTES = 4 * 1024 * 1024


class Watch:
    """Poll loop: descriptors and their callbacks."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._calls: dict[int, Callable[[int], None]] = {}

    def add(self, descriptor: int, events: int, call: Callable[[int], None]) -> None:
        """Register a descriptor for these events, in place of any former ones."""
        self._calls[descriptor] = call
        self._poll.register(descriptor, events)

    def remove(self, descriptor: int) -> None:
        """Unregister a descriptor."""
        if self._calls.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def wait(self, wait_s: float | None) -> None:
        """Poll once and run the callbacks; a wait below poll's milliseconds sleeps."""
        if wait_s is not None and 0 < wait_s < 0.001:
            time.sleep(wait_s)
            wait_s = 0.0
        ready = self._poll.poll(None if wait_s is None else int(max(0.0, wait_s) * 1000))
        for descriptor, events in ready:
            call = self._calls.get(descriptor)
            if call is not None:
                call(events)


def find_address(host: str, port: int) -> Found:
    """Return an address of a host. Raises OSError."""
    try:
        socket.inet_pton(socket.AF_INET, host)
    except OSError:
        # As bytes: the codec of texts takes 10 ms to load.
        addresses = socket.getaddrinfo(to_bytes(host), port, type=socket.SOCK_STREAM)
        return addresses[0][0], addresses[0][4]
    return socket.AF_INET, (host, port)  # no name, so no resolver is loaded


def open_listener(family: int, address: str, port: int) -> socket.socket:
    """Listen at an address, as `socket.create_server` does from Python 3.8 on.

    At no address in particular IPv6 takes callers by IPv4, too.
    """
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1 if address else 0)
        listener.bind((address, port))
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def listen_everywhere(port: int) -> socket.socket:
    """Listen at all addresses of this machine, by IPv4 alone where it has no IPv6."""
    try:
        return open_listener(socket.AF_INET6, "", port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise
        return open_listener(socket.AF_INET, "", port)


class JsonSocket:
    """Non-blocking connection that exchanges JSON objects, one a line."""

    def __init__(
        self,
        connection: socket.socket,
        watch: Watch,
        *,
        on_message: Callable[[dict[str, object]], None],
        on_lost: Callable[[str], None],
    ) -> None:
        connection.settimeout(0)
        self._socket = connection
        self._watch = watch
        self._on_message = on_message
        self._on_lost = on_lost
        self._unread = b""
        self._unsent = b""
        self._is_open = True
        watch.add(connection.fileno(), select.POLLIN, self._ready)

    @property
    def is_open(self) -> bool:
        """True while the connection can send and receive."""
        return self._is_open

    @property
    def address(self) -> str:
        """Our address, as the other end sees it."""
        name = self._socket.getsockname() if self._is_open else ""
        return str(name[0]) if isinstance(name, tuple) else ""

    def send(self, message: dict[str, object]) -> None:
        """Enqueue a message; a peer that does not read counts as gone."""
        if not self._is_open:
            return
        self._unsent += dumps(message) + b"\n"
        if len(self._unsent) > OUTBOX_MAX_BYTES:
            self._lost("it does not read")
        else:
            self._flush()

    def close(self) -> None:
        """Close without a callback."""
        if self._is_open:
            self._is_open = False
            self._watch.remove(self._socket.fileno())
            self._socket.close()

    def _ready(self, events: int) -> None:
        if events & select.POLLOUT:
            self._flush()
        if self._is_open and events & ~select.POLLOUT:
            self._read()

    def _read(self) -> None:
        try:
            part = bytes(memoryview(_READ)[: self._socket.recv_into(_READ)])
        except BlockingIOError:
            return
        except OSError as error:
            self._lost(str(error.strerror))
            return
        if not part:
            self._lost("it hung up")
            return
        *lines, self._unread = (self._unread + part).split(b"\n")
        if len(self._unread) > LINE_MAX_BYTES:
            self._lost("a line too long")
        for line in lines:
            if self._is_open:
                self._handle_line(line)

    def _handle_line(self, line: bytes) -> None:
        try:
            message = loads(line)
        except (ValueError, RecursionError):
            message = None
        if isinstance(message, dict):
            self._on_message(message)
        else:
            log("a message that is not a JSON object")

    def _flush(self) -> None:
        try:
            sent = self._socket.send(self._unsent) if self._unsent else 0
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._lost(str(error.strerror))
            return
        self._unsent = self._unsent[sent:]
        wanted = select.POLLIN | (select.POLLOUT if self._unsent else 0)
        self._watch.add(self._socket.fileno(), wanted, self._ready)

    def _lost(self, reason: str) -> None:
        self.close()
        self._on_lost(reason)


class Connection:
    """Connection to the process that gives orders: one at a time, addresses in turn, non-blocking.

    With `files` it goes through a mailbox, and there are no addresses. With `identity` (claim and
    secret) both ends authenticate before it counts as connected. Names
    are resolved until the first order came, and never again: before it nothing runs. Afterwards a
    resolver that hangs would delay the leases that are to end programs.
    """

    def __init__(
        self,
        addresses: list[tuple[str, int]],
        watch: Watch,
        *,
        identity: tuple[str, str] | None = None,
        files: MailboxConnector | None = None,
    ) -> None:
        self.events: list[Event] = []
        self.address = ""
        self._addresses = addresses
        self._identity = identity
        self._files = files
        self._prover: Prover | None = None
        self._resolved: dict[tuple[str, int], Found] = {}
        self._has_orders = False
        self._next = 0
        self._watch = watch
        self._dialled: socket.socket | None = None
        self._wire: JsonSocket | None = None

    def resolve(self) -> None:
        """Resolve all names, which may take long.

        Names that fail are retried when they are dialled, until an order came.
        """
        for host, port in self._addresses:
            self._resolve(host, port)

    def dial(self) -> None:
        """Drop the present connection and connect to the next address."""
        self.hang_up()
        if self._files is not None:
            self._open_files(self._files)
            return
        host, port = self._addresses[self._next % len(self._addresses)]
        self._next += 1
        address = self._resolved.get((host, port))
        if address is None and not self._has_orders:
            address = self._resolve(host, port)
        if address is None:
            self.events.append(Disconnected())
            return
        try:
            dialled = socket.socket(address[0], socket.SOCK_STREAM)
        except OSError as error:
            log(f"{host}:{port}: {error}")
            self.events.append(Disconnected())
            return
        dialled.settimeout(0)
        dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        dialled.connect_ex(address[1])
        self._dialled = dialled
        self._watch.add(dialled.fileno(), select.POLLOUT, self._connected)

    def send(self, message: dict[str, object]) -> None:
        """Send a message if connected."""
        if self._wire is None:
            return
        if self._prover is not None and "secret" in message:
            message = self._prover.add_proof(message)
        self._wire.send(message)

    def close(self) -> None:
        """Close for good, without an event."""
        self.hang_up()
        if self._files is not None:
            self._files.close()

    def hang_up(self) -> None:
        """Close the present connection, without an event."""
        if self._dialled is not None:
            self._watch.remove(self._dialled.fileno())
            self._dialled.close()
        if self._wire is not None:
            self._wire.close()
        self._dialled = self._wire = None

    @property
    def helpers(self) -> list[int]:
        """Process ids of the starter's own children that carry the connection."""
        return [] if self._files is None else self._files.helpers

    def _open_files(self, files: MailboxConnector) -> None:
        try:
            opened = files.open()
        except OSError as error:
            log(f"mailbox: {error}")
            self.events.append(Disconnected())
            return
        self._authenticate(opened)

    def _resolve(self, host: str, port: int) -> Found | None:
        try:
            address = find_address(host, port)
        except OSError as error:
            log(f"{host}:{port}: {error}")
            return None
        self._resolved[host, port] = address
        return address

    def _connected(self, _events: int) -> None:
        dialled = self._dialled
        assert dialled is not None
        error = dialled.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self.hang_up()
            self._lost(os.strerror(error))
            return
        self._dialled = None
        self._authenticate(dialled)

    def _authenticate(self, connected: socket.socket) -> None:
        """Begin to talk over a socket whose other end may be anybody's."""
        self._wire = JsonSocket(
            connected, self._watch, on_message=self._receive, on_lost=self._lost
        )
        self.address = self._wire.address
        if self._identity is None:
            self.events.append(Connected())
            return
        self._prover = Prover(*self._identity)
        self._wire.send(self._prover.question())

    def _receive(self, message: dict[str, object]) -> None:
        prover = self._prover
        if prover is None or prover.is_trusted:
            self._has_orders = True
            self.events.append(Received(message=message))
        elif prover.handle_challenge(message):
            if not prover.is_trusted:
                log("the agent does not know this claim, or somebody else has its port")
            self.events.append(Connected())
        elif message.get("kind") == "dismissed":
            # An agent that does not know the claim cannot prove anything, and dismisses its
            # starter. An impostor on the agent's port could do no more than that.
            self.events.append(Received(message=message))

    def _lost(self, reason: str) -> None:
        log(f"connection lost: {reason}")
        self._wire = None
        self.events.append(Disconnected())
