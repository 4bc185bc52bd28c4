"""The process that carries connections between programs of this machine and the agent.

    program ── listener of another's port ──> carrier ── dial ──> agent ...
    ... agent ── an offer that was taken ──> carrier ──> own port of the program

- Each connection has one of its own to the agent, so that TCP holds back whoever is too fast: at
  most `BUFFER_BYTES` of a direction are kept here.
- An offer is a connection to the agent that waits for its use; `OFFERS` of each own port wait.
- The owner's end sends GREETING once it has reached its program. Until then the other end sends
  nothing, and measures the round trip.
- A lost agent, relay or site resets the connections; new ones are tried for `DIAL_S`.
- It ends when the starter closes its socket, or dies.
"""

from __future__ import annotations

import errno
import os
import select
import struct

from koala_agent.starter.challenge_response import Prover
from koala_agent.starter.compat import boot_now, log, to_object
from koala_agent.starter.connection import Watch, find_address
from koala_agent.starter.light import accept, dumps, loads, socket
from koala_agent.starter.ports.owners import find_listener, is_of_claim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from koala_agent.starter.connection import Found
    from koala_agent.starter.ports.forwarder import Carried, Counts, Port

BUFFER_BYTES = 256 * 1024
OFFERS = 4
CONNECTIONS_MAX = 256
"""Connections of one claim on one machine at a time, both ways."""
GREETING = b"+"
LINE_MAX_BYTES = 4096
DIAL_S = 20.0
"""Time within which a new connection is tried again while the agent, or the relay, is away."""
AGAIN_S, AGAIN_MAX_S = 0.2, 5.0
TELL_S, TELL_MAX_S = 1.0, 60.0
"""Pause between two counts, which doubles: they are for people, and the last ones for the bill."""
KEEPALIVE = (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
_READ = memoryview(bytearray(BUFFER_BYTES))


class Use:
    """What one port of another component has carried."""

    def __init__(self, port: Port, counts: Counts) -> None:
        self.port = port
        known = [row for row in counts if row[:2] == (port.name, port.claim)]
        self.connections, self.size_bytes, self.busy_s, self.rtt_s = (
            known[0][2:] if known else (0, 0, 0.0, 0.0)
        )
        self.is_busy = False

    def row(self) -> list[object]:
        """Return the counts as they are told."""
        counts = [self.connections, self.size_bytes, self.busy_s, self.rtt_s]
        return [self.port.name, self.port.claim, *counts]


class Carrier:
    """Poll loop of all connections of one machine."""

    def __init__(self, carried: Carried, starter: socket.socket, pid: int, counts: Counts) -> None:
        self.carried = carried
        self.watch = Watch()
        self.starter_pid = pid
        self.addresses: list[Found] = []
        self.connections: set[Connection] = set()
        self._starter = starter
        self._uses = [Use(port, counts) for port, _listener in carried.others]
        self._told = [use.row() for use in self._uses]
        self._tell_at = 0.0
        self._tell_s = TELL_S
        self._pause_s = TELL_S
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._is_over = False

    def run(self) -> None:
        """Run until the starter hangs up."""
        for host, port in self.carried.agents:
            try:
                self.addresses.append(find_address(host, port))
            except OSError as error:
                log(f"ports: {host}:{port}: {error}")
        self.watch.add(self._starter.fileno(), select.POLLIN, self._starter_gone)
        for use, (_port, listener) in zip(self._uses, self.carried.others):
            self._listen(use, listener)
        for own in self.carried.own * OFFERS:
            self.offer(own)
        while not self._is_over:
            self._tick()
            dues = [at for at, _call in self._due]
            if any(use.is_busy for use in self._uses) or self._has_news():
                dues.append(self._tell_at)
            self.watch.wait(max(0.0, min(dues) - boot_now()) if dues else None)
        for connection in list(self.connections):
            connection.close()
        self._tell()

    def later(self, delay_s: float, call: Callable[[], None]) -> None:
        """Call later."""
        self._due.append((boot_now() + delay_s, call))

    def offer(self, port: Port, pause_s: float = AGAIN_S) -> None:
        """Offer the own port for one connection."""
        Offer(self, port, pause_s).dial()

    def _listen(self, use: Use, listener: socket.socket) -> None:
        self.watch.add(
            listener.fileno(), select.POLLIN, lambda _events: self._accept(use, listener)
        )

    def _accept(self, use: Use, listener: socket.socket) -> None:
        """Take a connection of the claim's own processes alone."""
        try:
            called = accept(listener)
            caller, own = called.getpeername()[:2], called.getsockname()[:2]
        except OSError:
            return
        if len(self.connections) >= CONNECTIONS_MAX:
            log(f"ports: {use.port.name}: refused (expected at most {CONNECTIONS_MAX} connections)")
        elif not is_of_claim(caller, own, self.starter_pid, self.carried.mark):
            log(f"ports: {use.port.name}: refused a caller that is not of this claim")
        else:
            Call(self, use, called).dial()
            return
        _reset(called)

    def _starter_gone(self, _events: int) -> None:
        self._is_over = True

    def _tick(self) -> None:
        now = boot_now()
        due = [call for at, call in self._due if at <= now]
        self._due = [(at, call) for at, call in self._due if at > now]
        for call in due:
            call()
        if now >= self._tell_at:
            since_s = min(self._tell_s, TELL_S)
            for use in self._uses:
                use.busy_s += since_s if use.is_busy else 0.0
                use.is_busy = False
            self._tell_at = now + TELL_S
            self._tell_s -= TELL_S
            if self._tell_s <= 0 and self._has_news():
                self._tell()

    def _has_news(self) -> bool:
        return self._told != [use.row() for use in self._uses]

    def _tell(self) -> None:
        """Tell the starter the counts."""
        self._told = [use.row() for use in self._uses]
        self._pause_s = min(2 * self._pause_s, TELL_MAX_S)
        self._tell_s = self._pause_s
        try:
            self._starter.send(dumps(self._told) + b"\n")
        except OSError:
            self._is_over = True


class Connection:
    """A connection to the agent, and once it is in use the program's, with what is between."""

    IS_DIALLER = False

    def __init__(self, carrier: Carrier, port: Port) -> None:
        self.port = port
        self.use: Use | None = None
        self._carrier = carrier
        self._agent: socket.socket | None = None
        self._program: socket.socket | None = None
        self._prover = Prover(carrier.carried.identity["claim"], carrier.carried.identity["secret"])
        self._line = b""
        self._tries = 0
        self._unsent: dict[int, bytes] = {}
        self._ended: set[int] = set()
        carrier.connections.add(self)

    def dial(self) -> None:
        """Dial the agent, its addresses in turn."""
        if not self._carrier.addresses:
            self.failed("the agent has no address")
            return
        family, address = self._carrier.addresses[self._tries % len(self._carrier.addresses)]
        self._tries += 1
        self._line = b""
        self._prover = Prover(
            self._carrier.carried.identity["claim"], self._carrier.carried.identity["secret"]
        )
        try:
            dialled = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            self.failed(str(error.strerror))
            return
        dialled.settimeout(0)
        dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        dialled.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, seconds in KEEPALIVE:
            dialled.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)
        dialled.connect_ex(address)
        self._agent = dialled
        self._carrier.watch.add(dialled.fileno(), select.POLLOUT, self._connected)

    def close(self) -> None:
        """End both sockets at once, with a reset: what is on its way is lost, and they know it."""
        self._hang_up()
        if self._program is not None:
            self._carrier.watch.remove(self._program.fileno())
            _reset(self._program)
            self._program = None
        self._carrier.connections.discard(self)

    def failed(self, reason: str) -> None:
        """Handle a connection that was not made."""
        raise NotImplementedError

    def joined(self, rest: bytes) -> None:
        """Handle that the other end is there; `rest` came with it."""
        raise NotImplementedError

    def _hang_up(self) -> None:
        if self._agent is not None:
            self._carrier.watch.remove(self._agent.fileno())
            _reset(self._agent)
            self._agent = None

    def _connected(self, _events: int) -> None:
        assert self._agent is not None
        error = self._agent.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._lost(os.strerror(error))
            return
        self._carrier.watch.add(self._agent.fileno(), select.POLLIN, self._answered)
        self._send(self._prover.question())

    def _answered(self, _events: int) -> None:
        """Read lines of the agent, until it says that the other end is there."""
        assert self._agent is not None
        try:
            part = self._agent.recv(LINE_MAX_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._lost(str(error.strerror))
            return
        self._line += part
        if not part or (b"\n" not in self._line and len(self._line) > LINE_MAX_BYTES):
            self._lost("it hung up")
            return
        while b"\n" in self._line:
            line, self._line = self._line.split(b"\n", 1)
            try:
                message = to_object(loads(line))
            except (ValueError, RecursionError):
                self._lost("no message of an agent")
                return
            if message.get("kind") == "carried":
                rest, self._line = self._line, b""
                self._carrier.watch.remove(self._agent.fileno())
                self.joined(rest)
                return
            if not self._prover.handle_challenge(message) or not self._prover.is_trusted:
                self._lost(str(message.get("reason") or message.get("error") or "not our agent"))
                return
            identity = self._carrier.carried.identity
            hello = {
                "kind": "carry",
                **identity,
                "port": f"{self.port.claim}/{self.port.name}",
                "token": self.port.token,
                "dials": self.IS_DIALLER,
            }
            self._send(self._prover.add_proof(hello))

    def _send(self, message: dict[str, object]) -> None:
        assert self._agent is not None
        try:
            self._agent.send(dumps(message) + b"\n")
        except OSError as error:
            self._lost(str(error.strerror))

    def _lost(self, reason: str) -> None:
        self._hang_up()
        self.failed(reason)

    # The bytes

    def _begin(self, program: socket.socket, rest: bytes) -> None:
        """Carry from now on."""
        assert self._agent is not None
        self._program = program
        for one, other, first in ((self._agent, program, rest), (program, self._agent, b"")):
            self._unsent[one.fileno()] = first
            self._watch_pair(one, other)
        if rest:
            self._flush(self._agent, program)

    def _watch_pair(self, one: socket.socket, other: socket.socket) -> None:
        """Watch a socket: to be read when nothing of it is kept, to be written when something of
        the other is."""
        events = 0
        if not self._unsent.get(one.fileno()) and one.fileno() not in self._ended:
            events |= select.POLLIN
        if self._unsent.get(other.fileno()):
            events |= select.POLLOUT
        self._carrier.watch.add(one.fileno(), events, lambda now: self._ready(one, other, now))

    def _ready(self, one: socket.socket, other: socket.socket, events: int) -> None:
        if events & select.POLLOUT:
            self._flush(other, one)
        if self._program is None:
            return
        if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
            if self._unsent.get(one.fileno()) or one.fileno() in self._ended:
                if events & (select.POLLHUP | select.POLLERR):
                    self.close()  # both ways are over, and nobody reads the rest
                return
            self._read(one, other)

    def _read(self, one: socket.socket, other: socket.socket) -> None:
        try:
            size = one.recv_into(_READ)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if size == 0:
            self._ended.add(one.fileno())
            self._end(other)
            return
        if self.use is not None:
            self.use.size_bytes += size
            self.use.is_busy = True
        try:
            sent = other.send(_READ[:size])
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return
        if sent < size:
            self._unsent[one.fileno()] = bytes(_READ[sent:size])
            self._watch_pair(one, other)
            self._watch_pair(other, one)

    def _flush(self, one: socket.socket, other: socket.socket) -> None:
        """Send on what is kept of a socket."""
        kept = self._unsent[one.fileno()]
        try:
            sent = other.send(kept) if kept else 0
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        self._unsent[one.fileno()] = kept[sent:]
        if not self._unsent[one.fileno()]:
            self._watch_pair(one, other)
            self._watch_pair(other, one)

    def _end(self, other: socket.socket) -> None:
        """Pass on the end of one direction; nothing is kept of it then."""
        if len(self._ended) == 2:
            self._finish()
            return
        try:
            other.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()
            return
        assert self._program is not None
        assert self._agent is not None
        for one in (self._program, self._agent):
            if one is not other:
                self._watch_pair(one, other)

    def _finish(self) -> None:
        """Close in good order: both ends have said all."""
        for one in (self._agent, self._program):
            if one is not None:
                self._carrier.watch.remove(one.fileno())
                one.close()
        self._agent = self._program = None
        self._carrier.connections.discard(self)


class Call(Connection):
    """A connection that a process of the program made to a port of another component."""

    IS_DIALLER = True

    def __init__(self, carrier: Carrier, use: Use, called: socket.socket) -> None:
        super().__init__(carrier, use.port)
        self.use = use
        self._called = called
        self._until = boot_now() + DIAL_S
        self._asked_at = boot_now()
        called.settimeout(0)

    def dial(self) -> None:
        self._asked_at = boot_now()
        super().dial()

    def close(self) -> None:
        super().close()
        if self._called.fileno() >= 0:
            _reset(self._called)

    def failed(self, reason: str) -> None:
        if boot_now() + AGAIN_S < self._until:
            self._carrier.later(AGAIN_S, self._again)
            return
        log(f"ports: {self.port.name}: {reason}")
        self.close()

    def _again(self) -> None:
        if self in self._carrier.connections:
            self.dial()

    def joined(self, rest: bytes) -> None:
        """Wait for the greeting of the owner's end."""
        assert self._agent is not None
        if rest:
            self._greeted(rest)
        else:
            self._carrier.watch.add(self._agent.fileno(), select.POLLIN, self._read_greeting)

    def _read_greeting(self, _events: int) -> None:
        assert self._agent is not None
        try:
            part = self._agent.recv(BUFFER_BYTES)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        if part:
            self._greeted(part)
        else:  # nobody listens there
            log(f"ports: {self.port.name}: the program of {self.port.claim} does not listen")
            self.close()

    def _greeted(self, rest: bytes) -> None:
        assert self.use is not None
        self.use.rtt_s = boot_now() - self._asked_at
        self.use.connections += 1
        self._begin(self._called, rest[len(GREETING) :])


class Offer(Connection):
    """An own port, offered for one connection of another component."""

    def __init__(self, carrier: Carrier, port: Port, pause_s: float) -> None:
        super().__init__(carrier, port)
        self._pause_s = pause_s

    def failed(self, reason: str) -> None:
        self.close()
        log(f"ports: {self.port.name} is not offered: {reason}")
        pause_s = min(AGAIN_MAX_S, 2 * self._pause_s)
        self._carrier.later(self._pause_s, lambda: self._carrier.offer(self.port, pause_s))

    def joined(self, rest: bytes) -> None:
        """Reach the program, and offer the port anew."""
        carrier = self._carrier
        carrier.offer(self.port)
        host = find_listener(self.port.port, carrier.starter_pid, carrier.carried.mark)
        if not host:
            log(f"ports: {self.port.name}: no process of this claim listens at {self.port.port}")
            self.close()
            return
        program = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        program.settimeout(0)
        program.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._program = program
        error = program.connect_ex((host, self.port.port))
        if error not in (0, errno.EINPROGRESS):
            carrier.watch.add(program.fileno(), 0, lambda _events: None)
            self.close()
            return
        carrier.watch.add(
            program.fileno(), select.POLLOUT, lambda _events: self._reached(program, rest)
        )

    def _reached(self, program: socket.socket, rest: bytes) -> None:
        assert self._agent is not None
        if program.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.close()
            return
        try:
            self._agent.send(GREETING)
        except OSError:
            self.close()
            return
        self._begin(program, rest)


def _reset(connection: socket.socket) -> None:
    """Close a connection so that its other end gets an error, and not an end in good order."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
