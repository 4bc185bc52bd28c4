"""The process that carries connections between programs of this machine and the agent.

    program ── listener of another's port ──> traffic ── dial ──> agent ...
    ... agent ── an offer that was taken ──> traffic ──> own port of the program

- Each connection has one of its own to the agent, so that TCP holds back whoever is too fast: at
  most `BUFFER_BYTES` of a direction are kept here.
- An offer is a connection to the agent that waits for its use; `OFFERS` of each own port wait.
- All after the first line of each end is TLS.
- The owner's end sends GREETING once it has reached its program. Until then the other end sends
  nothing, and measures the round trip.
- A lost agent, relay or site resets the connections. New ones are tried for `DIAL_S`, also while
  the program does not listen yet.
- When the starter shuts its socket, all processes are over: what they sent goes on until the agent
  has it, or nothing of it has moved for `DRAIN_S`.
"""

from __future__ import annotations

import errno
import math
import os
import select
import struct
from abc import ABC, abstractmethod

from koala_agent.starter.challenge_response import Prover
from koala_agent.starter.compat import boot_now, log, to_object
from koala_agent.starter.connection import Watch, find_address
from koala_agent.starter.light import accept, dumps, loads, socket
from koala_agent.starter.ports.carried import HEAD_BYTES
from koala_agent.starter.ports.encryption import (
    Clear,
    Encryption,
    is_within_machine,
    send_at_once,
    starter_context,
)
from koala_agent.starter.ports.owners import Owners
from koala_agent.starter.process_tree import keep_buffers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from koala_agent.starter.connection import Found
    from koala_agent.starter.ports.carried import Carried, Counts, Port

BUFFER_BYTES = 256 * 1024
OFFERS = 4
CONNECTIONS_MAX = 256
"""Connections of one claim on one machine at a time, both ways."""
GREETING = b"\0\0\0\1+"
"""First block of the owner's end."""
LINE_MAX_BYTES = 4096
REASON_MAX = 200
DIAL_S = 20.0
"""Time within which a new connection is tried again while the agent, the relay, or the program that
is to listen is away."""
DRAIN_S = 10.0
"""Longest pause in what ended processes have sent: a site may have a limit, or be slow."""
AGAIN_S, AGAIN_MAX_S = 0.2, 5.0
LOOK_MAX_S = 1.0
"""Longest pause between two looks for the program's listener."""
TELL_S, TELL_MAX_S = 1.0, 60.0
"""Pause between two counts, which doubles: they are for people, and the last ones for the bill."""
KEEPALIVE = (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
_READ = memoryview(bytearray(HEAD_BYTES + BUFFER_BYTES))
"""Buffer of the bytes just read. A connection keeps only those that cannot be sent at once."""


class Use:
    """Use of a port of another component."""

    def __init__(self, port: Port, counts: Counts) -> None:
        self.port = port
        known = [row for row in counts if row[:2] == (port.name, port.claim)]
        self.connections, self.size_bytes, self.busy_s, self.rtt_s, self.refused, self.refusal = (
            known[0][2:] if known else (0, 0, 0.0, 0.0, 0, "")
        )
        self.is_busy = False

    def refuse(self, reason: str) -> None:
        """Note a connection that is refused."""
        self.refused += 1
        self.refusal = reason[:REASON_MAX]
        log(f"ports: {self.port.name}: refused: {reason}")

    def row(self) -> list[object]:
        """Return the counts as they are told."""
        counts = [self.connections, self.size_bytes, self.busy_s, self.rtt_s]
        return [self.port.name, self.port.claim, *counts, self.refused, self.refusal]


class PortTraffic:
    """Poll loop of all connections of one machine."""

    def __init__(self, carried: Carried, starter: socket.socket, pid: int, counts: Counts) -> None:
        self.carried = carried
        self.watch = Watch()
        self.owners = Owners(pid, carried.mark)
        self.addresses: list[Found] = []
        self.context = starter_context()
        self.connections: set[CarriedConnection] = set()
        self._starter = starter
        self._uses = [Use(port, counts) for port, _listener in carried.others]
        self._told = [use.row() for use in self._uses]
        self._tell_at = 0.0
        self._tell_s = TELL_S
        self._pause_s = TELL_S
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._until = math.inf

    def run(self) -> None:
        """Run until the starter hangs up."""
        keep_buffers()
        for host, port in self.carried.agents:
            try:
                self.addresses.append(find_address(host, port))
            except OSError as error:
                log(f"ports: {host}:{port}: {error}")
        self.watch.add(self._starter.fileno(), select.POLLIN, self._finish)
        for use, (_port, listener) in zip(self._uses, self.carried.others):
            self._listen(use, listener)
        for own in self.carried.own * OFFERS:
            self.offer(own)
        while boot_now() < self._until and (self.connections or self._until == math.inf):
            self._tick()
            dues = [at for at, _call in self._due]
            if any(use.is_busy for use in self._uses) or self._has_news():
                dues.append(self._tell_at)
            if self._until < math.inf:
                dues.append(self._until)
            self.watch.wait(max(0.0, min(dues) - boot_now()) if dues else None)
        for connection in list(self.connections):
            connection.close()
        self._send_counts()

    def later(self, delay_s: float, call: Callable[[], None]) -> None:
        """Call later."""
        self._due.append((boot_now() + delay_s, call))

    def offer(self, port: Port, pause_s: float = AGAIN_S) -> None:
        """Offer the own port for one connection."""
        if not self.is_finishing:
            Offer(self, port, pause_s).dial()

    @property
    def is_finishing(self) -> bool:
        """True after the end of all processes."""
        return self._until < math.inf

    def moved(self) -> None:
        """Go on for a while after the end of all processes, as something moves."""
        if self.is_finishing:
            self._until = boot_now() + DRAIN_S

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
            use.refuse(f"{CONNECTIONS_MAX} are carried on this machine (expected fewer)")
        elif not self.owners.is_of_claim(caller, own):
            use.refuse("the caller is not of this component, or hung up at once")
        else:
            Call(self, use, called).dial()
            return
        _reset(called)

    def _finish(self, _events: int) -> None:
        """Take nothing new; what the processes have sent goes on for a while."""
        self._until = 0.0
        self.moved()
        self.watch.remove(self._starter.fileno())
        for _port, listener in self.carried.others:
            self.watch.remove(listener.fileno())
            listener.close()
        for connection in list(self.connections):
            connection.program_ended()

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
                self._send_counts()

    def _has_news(self) -> bool:
        return self._told != [use.row() for use in self._uses]

    def _send_counts(self) -> None:
        """Tell the starter the counts."""
        self._told = [use.row() for use in self._uses]
        self._pause_s = min(2 * self._pause_s, TELL_MAX_S)
        self._tell_s = self._pause_s
        try:
            self._starter.send(dumps(self._told) + b"\n")
        except OSError:
            self._until = 0.0


class CarriedConnection(ABC):
    """A connection to the agent, and once it is in use the program's, with what is between."""

    IS_DIALLER = False

    def __init__(self, traffic: PortTraffic, port: Port) -> None:
        self.port = port
        self.use: Use | None = None
        self._traffic = traffic
        self._agent: socket.socket | None = None
        self._program: socket.socket | None = None
        self._challenge: dict[str, object] = {}
        self._encryption: Encryption | Clear = Clear()
        self._is_within_machine = False
        self._tries = 0
        self._asked_at = 0.0
        self._to_agent = self._to_program = memoryview(b"")
        self._is_sent = self._is_received = False
        self._watched: tuple[bool, ...] = ()
        self._unread = b""  # a part of a line, or of a block's head
        self._left = 0  # of the block that comes
        traffic.connections.add(self)

    def dial(self) -> None:
        """Dial the agent, its addresses in turn."""
        if not self._traffic.addresses:
            self.failed("the agent has no address")
            return
        family, address = self._traffic.addresses[self._tries % len(self._traffic.addresses)]
        self._tries += 1
        self._asked_at = boot_now()
        self._unread = b""
        self._challenge = {}
        identity = self._traffic.carried.identity
        self._prover = Prover(identity["claim"], identity["secret"])
        try:
            dialled = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            self.failed(str(error.strerror))
            return
        _set_up(dialled)
        dialled.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, seconds in KEEPALIVE:
            dialled.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)
        dialled.connect_ex(address)
        self._agent = dialled
        self._traffic.watch.add(dialled.fileno(), select.POLLOUT, self._connected)

    def program_ended(self) -> None:
        """Close if no process can have sent anything, or the agent has all of it."""
        if self._watched:
            self._watched = ()
            self._watch_both()
        elif not (self.IS_DIALLER or self._program is not None):
            self.close()

    def close(self) -> None:
        """End both sockets at once, with a reset: what is on its way is lost, and they know it."""
        self._hang_up()
        if self._program is not None:
            self._traffic.watch.remove(self._program.fileno())
            _reset(self._program)
            self._program = None
        self._traffic.connections.discard(self)

    @abstractmethod
    def failed(self, reason: str) -> None:
        """Handle a connection that was not made."""

    @abstractmethod
    def joined(self) -> None:
        """Handle that the other end is there."""

    def _hang_up(self) -> None:
        if self._agent is not None:
            self._traffic.watch.remove(self._agent.fileno())
            _reset(self._agent)
            self._agent = None

    def _connected(self, _events: int) -> None:
        assert self._agent is not None
        error = self._agent.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._lost(os.strerror(error))
            return
        self._traffic.watch.add(self._agent.fileno(), select.POLLIN, self._answered)
        try:
            ends = (self._agent.getsockname(), self._agent.getpeername())
            self._is_within_machine = is_within_machine(*ends)
            encrypts = "always" if not self._is_within_machine else "unless within this machine"
            self._send(dumps({**self._prover.question(), "encrypts": encrypts}) + b"\n")
        except OSError as failure:
            self._lost(str(failure.strerror))

    def _answered(self, _events: int) -> None:
        """Agree with the agent, until it says that the other end is there."""
        try:
            if not self._challenge:
                self._unread += self._read()
            else:
                self._unread += self._decrypted()
                if self._encryption.is_begun and not self._prover.is_trusted:
                    self._prove()
                self._send(self._encryption.encrypt())
            line, end, rest = self._unread.partition(b"\n")
            if end:
                self._unread = rest
                self._handle(to_object(loads(line)))
            elif len(line) > LINE_MAX_BYTES:
                raise ValueError("no message of an agent")
        except BlockingIOError:
            return
        except (OSError, ValueError, RecursionError) as error:
            self._lost(getattr(error, "strerror", None) or str(error))

    def _handle(self, message: dict[str, object]) -> None:
        """Handle a line of the agent. Raises OSError."""
        if message.get("kind") == "challenge" and not self._challenge:
            self._challenge = message
            if self._is_within_machine and message.get("encrypts") is False:
                assert self._agent is not None
                send_at_once(self._agent)
                self._encryption = Clear()
                self._prove()
            else:
                self._encryption = Encryption(self._traffic.context, is_server=False)
                self._unread = bytes(self._encryption.decrypt())  # begins TLS
                self._send(self._encryption.encrypt())
        elif message.get("kind") == "carried" and self._prover.is_trusted:
            self.joined()
        else:
            raise OSError(message.get("reason") or message.get("error") or "not our agent")

    def _prove(self) -> None:
        """Say what the connection is for, to the agent alone. Raises OSError."""
        self._prover.handle_challenge(self._challenge, *self._encryption.proven)
        if not self._prover.is_trusted:
            raise OSError("not our agent")
        hello = {
            "kind": "carry",
            **self._traffic.carried.identity,
            "port": f"{self.port.claim}/{self.port.name}",
            "token": self.port.token,
            "dials": self.IS_DIALLER,
        }
        self._send(self._encryption.encrypt(dumps(self._prover.add_proof(hello)) + b"\n"))

    def _send(self, data: bytes | memoryview) -> None:
        """Send so little that the kernel takes it. Raises OSError."""
        assert self._agent is not None
        self._agent.send(data)

    def _read(self) -> memoryview:
        """Read what has come from the agent. Raises OSError, also at its end."""
        assert self._agent is not None
        size = self._agent.recv_into(_READ)
        if not size:
            raise OSError("the agent, or what is behind it, is gone")
        return _READ[:size]

    def _decrypted(self) -> bytes | memoryview:
        """Read what has come by TLS, and is complete. Raises OSError, also at its end."""
        self._encryption.keep(self._read())
        return self._encryption.decrypt()

    def _lost(self, reason: str) -> None:
        self._hang_up()
        self.failed(reason)

    # The bytes

    def _watch_both(self) -> None:
        """Watch the sockets: each to be read when nothing of it is kept, and to be written when
        something of the other is. Close in good order once both ends have said all, or this one has
        and is over."""
        assert self._program is not None
        assert self._agent is not None
        self._traffic.moved()
        state = (self._is_sent, self._is_received, bool(self._to_agent), bool(self._to_program))
        if state == self._watched:
            return
        self._watched = state
        has_all = self._is_received and not self._to_program
        if self._is_sent and not self._to_agent and (has_all or self._traffic.is_finishing):
            for ended in (self._agent, self._program):
                self._traffic.watch.remove(ended.fileno())
                ended.close()
            self._agent = self._program = None
            self._traffic.connections.discard(self)
            return
        ways = (
            (self._program, self._to_agent or self._is_sent, self._to_program, self._program_ready),
            (self._agent, self._to_program or self._is_received, self._to_agent, self._agent_ready),
        )
        for own, holds_back, kept, ready in ways:
            events = (0 if holds_back else select.POLLIN) | (select.POLLOUT if kept else 0)
            if events:
                self._traffic.watch.add(own.fileno(), events, ready)
            else:  # a hang-up would wake us again and again
                self._traffic.watch.remove(own.fileno())

    def _program_ready(self, events: int) -> None:
        is_flush = events & select.POLLOUT or self._to_agent or self._is_sent
        self._move(self._flush_to_program if is_flush else self._read_program)

    def _agent_ready(self, events: int) -> None:
        is_flush = events & select.POLLOUT or self._to_program or self._is_received
        self._move(self._flush_to_agent if is_flush else self._read_agent)

    def _move(self, step: Callable[[], None]) -> None:
        try:
            step()
        except BlockingIOError:
            return
        except OSError:
            self.close()

    def _read_program(self) -> None:
        assert self._program is not None
        size = self._program.recv_into(_READ[HEAD_BYTES:])
        _READ[:HEAD_BYTES] = size.to_bytes(HEAD_BYTES, "big")
        self._is_sent = size == 0
        self._count(size)
        self._to_agent = memoryview(self._encryption.encrypt(_READ[: HEAD_BYTES + size]))
        self._flush_to_agent()

    def _read_agent(self) -> None:
        self._give(self._contents(self._decrypted()))

    def _contents(self, data: memoryview | bytes) -> memoryview:
        """Return the contents of blocks; an empty one is the end of them."""
        left, parts = memoryview(self._unread + data if self._unread else data), []
        while left:
            if self._left:
                parts.append(left[: self._left])
                left = left[self._left :]
                self._left -= len(parts[-1])
            elif len(left) >= HEAD_BYTES:
                self._left = int.from_bytes(left[:HEAD_BYTES], "big")
                self._is_received = not self._left
                left = left[HEAD_BYTES:]
            else:
                break
        self._unread = bytes(left)
        return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))

    def _give(self, contents: memoryview) -> None:
        """Give the program contents of blocks, and their end. Raises OSError."""
        self._count(len(contents))
        self._to_program = contents
        if contents or self._is_received:
            self._flush_to_program()

    def _flush_to_agent(self) -> None:
        self._to_agent = memoryview(bytes(_sent(self._agent, self._to_agent)))
        self._watch_both()

    def _flush_to_program(self) -> None:
        self._to_program = memoryview(bytes(_sent(self._program, self._to_program)))
        if self._is_received and not self._to_program:
            assert self._program is not None
            self._program.shutdown(socket.SHUT_WR)
        self._watch_both()

    def _count(self, size: int) -> None:
        if self.use is not None and size:
            self.use.size_bytes += size
            self.use.is_busy = True


class Call(CarriedConnection):
    """A connection that a process of the program made to a port of another component."""

    IS_DIALLER = True

    def __init__(self, traffic: PortTraffic, use: Use, called: socket.socket) -> None:
        super().__init__(traffic, use.port)
        self.use = use
        self._called = called
        self._until = boot_now() + DIAL_S
        _set_up(called)
        send_at_once(called)

    def close(self) -> None:
        super().close()
        if self._called.fileno() >= 0:
            _reset(self._called)

    def failed(self, reason: str) -> None:
        if boot_now() + AGAIN_S < self._until:
            self._traffic.later(AGAIN_S, self._again)
            return
        assert self.use is not None
        self.use.refuse(reason)
        self.close()

    def _again(self) -> None:
        if self in self._traffic.connections:
            self.dial()

    def joined(self) -> None:
        """Wait for the greeting of the owner's end."""
        assert self._agent is not None
        self._traffic.watch.add(self._agent.fileno(), select.POLLIN, self._greeted)
        self._move(lambda: self._begin(b""))

    def _greeted(self, _events: int) -> None:
        try:
            data = self._decrypted()
        except BlockingIOError:
            return
        except OSError:  # nothing was sent yet: it may be tried again
            self._lost(f"nothing listens at {self.port.port}, or site.ports_max is reached there")
            return
        self._move(lambda: self._begin(data))

    def _begin(self, data: memoryview | bytes) -> None:
        """Carry once the other end has greeted. Raises OSError."""
        greeted = self._contents(data)
        if greeted:
            assert self.use is not None
            self.use.rtt_s = boot_now() - self._asked_at
            self.use.connections += 1
            self._program = self._called
            self._watch_both()
            self._give(greeted[1:])


class Offer(CarriedConnection):
    """An own port, offered for one connection of another component."""

    def __init__(self, traffic: PortTraffic, port: Port, pause_s: float) -> None:
        super().__init__(traffic, port)
        self._pause_s = pause_s
        self._until = math.inf

    def failed(self, reason: str) -> None:
        self.close()
        log(f"ports: {self.port.name} is not offered: {reason}")
        pause_s = min(AGAIN_MAX_S, 2 * self._pause_s)
        self._traffic.later(self._pause_s, lambda: self._traffic.offer(self.port, pause_s))

    def joined(self) -> None:
        """Offer the port anew, and reach the program. The other end has nothing to say before."""
        assert self._agent is not None
        self._traffic.watch.add(self._agent.fileno(), select.POLLIN, lambda _events: self.close())
        self._traffic.offer(self.port)
        self._until = boot_now() + DIAL_S
        self._pause_s = AGAIN_S
        self._reach()

    def _reach(self) -> None:
        """Dial the program's own listener."""
        if self._agent is None:  # closed meanwhile
            return
        host = self._traffic.owners.find_listener(self.port.port)
        if not host:
            self._refused()
            return
        program = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        _set_up(program)
        send_at_once(program)
        self._program = program
        error = program.connect_ex((host, self.port.port))
        if error not in (0, errno.EINPROGRESS):
            self.close()
            return
        self._traffic.watch.add(
            program.fileno(), select.POLLOUT, lambda _events: self._reached(program)
        )

    def _refused(self) -> None:
        """Try again later: the program may be about to listen."""
        if boot_now() + self._pause_s < self._until:
            self._traffic.later(self._pause_s, self._reach)
            self._pause_s = min(LOOK_MAX_S, 2 * self._pause_s)
            return
        log(f"ports: {self.port.name}: no process of this claim listens at {self.port.port}")
        self.close()

    def _reached(self, program: socket.socket) -> None:
        if program.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.close()
            return
        try:
            self._send(self._encryption.encrypt(GREETING))
        except OSError:
            self.close()
            return
        self._watch_both()


def _sent(connection: socket.socket | None, data: memoryview) -> memoryview:
    """Send what can be sent at once; return the rest. Raises OSError."""
    assert connection is not None
    try:
        return data[connection.send(data) :]
    except BlockingIOError:
        return data


def _set_up(connection: socket.socket) -> None:
    """Let a connection never wait, and bound what the kernel keeps of it."""
    connection.settimeout(0)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        connection.setsockopt(socket.SOL_SOCKET, option, 2 * BUFFER_BYTES)


def _reset(connection: socket.socket) -> None:
    """Close a connection so that its other end gets an error, and not an end in good order."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
