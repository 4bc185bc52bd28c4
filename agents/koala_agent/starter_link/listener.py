"""The port at which starters check in: TCP, JSON lines, a secret for each claim. Where they cannot
dial it, a `mailbox` makes the connections.

A connection begins with a hello that names the claim and proves knowledge of its secret
(`authentication`). Until then no other message is processed, and the
connection is closed after a time limit. Later messages are decoded into events of the claim table.
An invalid one closes the connection; a well-behaved starter reconnects. A file sync's hello begins
requests about the claim's files instead (`file_sync`). No state here matters: a starter repeats all
that it knows in its next hello.

Protocols with callbacks, not streams: asyncio's stream server makes tasks that have no owner.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from koala.common.protocol.names import ClaimId
from koala.common.runtime import clock
from koala.common.runtime.structured_log import get_logger
from koala.common.runtime.token_bucket import RateLimits, TokenBucket
from koala.common.wire.listen_ports import cannot_listen
from koala_agent.claims.events import Dismissed, Event, StarterLost, ToStarter
from koala_agent.starter.ports.encryption import Clear, Encryption, is_within_machine
from koala_agent.starter_link.authentication import Authentication
from koala_agent.starter_link.codec import (
    NONCE_BYTES_MAX,
    Message,
    checked_in,
    decode,
    encode,
    text,
)

LINE_MAX_BYTES = 256 * 1024
UNSENT_MAX_BYTES = 8 * 1024 * 1024
CONNECTIONS_MAX = 20_000
UNAUTHENTICATED_MAX = 128
"""Unauthenticated connections; one more closes the oldest."""
FILE_SYNCS_SPARE = 2
"""File syncs of a claim beyond one for each node: one reconnects before its old connection
is detected as lost."""
HELLO_LIMIT_S = 10.0
MAILBOX_HELLO_S = 60.0
"""The same for a connection by files, whose messages take longer."""
PROGRAMS = ("put", "get", "progress")
"""Kinds of messages that programs cause."""
PROGRAMS_PER_S, PROGRAMS_BURST = 250, 2_000
"""Rate limit of these messages, for all starters together. The daemon accepts twice as much of an
agent by default, and disconnects an agent that sends more: the rest is for pings and reports."""
OWN_PER_S, OWN_BURST = 1, 60
"""Rate limit of other messages of one claim's starter. Messages beyond it come from a program that
impersonates its starter, and count as caused by programs."""

log = get_logger()


class ScheduledCall(Protocol):
    """Scheduled call that can be cancelled."""

    def cancel(self) -> None:
        """Cancel the call."""


def call_later(delay_s: float, call: Callable[[], None]) -> ScheduledCall:
    """Schedule a call on the running loop."""
    return asyncio.get_running_loop().call_later(delay_s, call)


def one_node(_claim: ClaimId) -> int:
    """Return 1: a site of one node."""
    return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CarryOrder:
    """Wish of a starter: that its connection be one end of one to a port, the end that `dials` or
    the one that offers it."""

    claim: ClaimId
    port: str
    token: str
    dials: bool


Carry = Callable[[asyncio.Transport, Encryption | Clear, CarryOrder], None]
"""Takes over a connection from which nothing more is read here."""
Ask = Callable[[ClaimId, str, Message, Callable[[Message], None]], None]
"""Asynchronous answer to a file sync's request."""


class StarterListener:
    """Listener of starters, with its connections by claim and nonce."""

    def __init__(
        self,
        *,
        emit: Callable[[Event], None],
        secret: Callable[[ClaimId], str | None],
        later: Callable[[float, Callable[[], None]], ScheduledCall] = call_later,
        now: Callable[[], float] = clock.now,
        ask: Ask | None = None,
        nodes: Callable[[ClaimId], int] = one_node,
        carry: Carry | None = None,
    ) -> None:
        """`nodes` returns the number of nodes of a claim: each has a file sync."""
        self.later = later
        self.now = now
        self._emit = emit
        self._secret = secret
        self._ask = ask
        self._nodes = nodes
        self._carry = carry
        self._connections: dict[tuple[str, str], StarterConnection] = {}
        self._program_tokens = TokenBucket(PROGRAMS_PER_S, burst=PROGRAMS_BURST, now=now())
        self._own_tokens = RateLimits[ClaimId](OWN_PER_S, burst=OWN_BURST)
        self._file_syncs: dict[ClaimId, list[StarterConnection]] = {}
        self._open: dict[int, StarterConnection] = {}
        self._unauthenticated: dict[int, StarterConnection] = {}
        self._server: asyncio.Server | None = None

    async def listen(self, address: str, port: int, *, is_fixed: bool = False) -> int:
        """Open the port and return its number. A taken port is replaced by another one, unless the
        site's configuration fixes it. Raises ConfigError, OSError."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(self.accept, address, port)
        except OSError as error:
            if is_fixed:
                raise cannot_listen("starter.port", f"{address}:{port}") from error
            if port == 0:
                raise
            # Starters of an earlier life will not find us; their leases end them.
            log.warning("starters.port_taken", port=port)
            self._server = await loop.create_server(self.accept, address, 0)
        return int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Close the port and all connections; starters go on, and look for the next agent."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._open.values()):
            connection.abort()

    def send(self, claim: ClaimId, nonce: str, message: ToStarter) -> None:
        """Send a message to the starter if it is connected."""
        connection = self._connections.get((claim, nonce))
        if connection is not None:
            connection.send(encode(message))
            if isinstance(message, Dismissed):
                connection.close()

    def accept(self) -> StarterConnection:
        """Return the protocol of a new connection."""
        return StarterConnection(self, Authentication(self._secret))

    def accept_mailbox(self) -> StarterConnection:
        """Return the protocol of a new connection by files."""
        authentication = Authentication(self._secret)
        return StarterConnection(self, authentication, hello_limit_s=MAILBOX_HELLO_S)

    def register(self, connection: StarterConnection) -> bool:
        """Register a connection; False when there are too many."""
        self._open[id(connection)] = connection
        self._unauthenticated[id(connection)] = connection
        if len(self._unauthenticated) > UNAUTHENTICATED_MAX:
            oldest = next(iter(self._unauthenticated.values()))
            self.mark_authenticated(oldest)
            oldest.abort()
        return len(self._open) <= CONNECTIONS_MAX

    def mark_authenticated(self, connection: StarterConnection) -> None:
        """Remove a connection from the unauthenticated ones."""
        self._unauthenticated.pop(id(connection), None)

    def authenticate_starter(
        self, connection: StarterConnection, message: Message
    ) -> tuple[ClaimId, str] | None:
        """Authenticate a starter; None when its connection was closed. Raises ValueError."""
        event = checked_in(message, connection.address())
        known = self._secret(event.claim)
        if known is None:
            # No event: the claim might be accepted before the table handles it, and an
            # unauthenticated starter would then be bound to it.
            log.info("starter.dismissed", claim=event.claim)
            connection.send(encode(Dismissed(reason="this claim is not known here")))
            connection.close()
            return None
        if not connection.authentication.is_valid(message, known):
            log.warning("starter.refused", claim=event.claim, reason="wrong secret")
            connection.abort()
            return None
        if self.acquire_turn(event.claim, message) > 0:
            self.refund()
            log.warning("starter.refused", claim=event.claim, reason="it dials too often")
            connection.abort()
            return None
        key = (event.claim, event.nonce)
        earlier = self._connections.pop(key, None)
        if earlier is not None:
            earlier.abort()
        self._connections[key] = connection
        log.info("starter.connected", claim=event.claim, nonce=event.nonce)
        self._emit(event)
        return event.claim, event.nonce

    def authenticate_file_sync(
        self, connection: StarterConnection, message: Message
    ) -> tuple[ClaimId, str] | None:
        """Authenticate a file sync; None when the secret is not the claim's. Raises ValueError."""
        claim = ClaimId(text(message, "claim", most=256))
        known = self._secret(claim)
        if known is None or not connection.authentication.is_valid(message, known):
            log.warning("file_sync.refused", claim=claim)
            return None
        sync_identity = claim, text(message, "nonce", most=NONCE_BYTES_MAX)
        file_syncs = self._file_syncs.setdefault(claim, [])
        file_syncs.append(connection)
        if len(file_syncs) > self._nodes(claim) + FILE_SYNCS_SPARE:
            log.warning("file_sync.cut", claim=claim, reason="more file syncs than nodes")
            file_syncs.pop(0).abort()
        return sync_identity

    def ask(
        self,
        sync_identity: tuple[ClaimId, str],
        question: Message,
        answer: Callable[[Message], None],
    ) -> None:
        """Pass on a request about files, to be answered later."""
        if self._ask is None:
            answer({"ok": False, "error": "this agent takes no files"})
        else:
            self._ask(*sync_identity, question, answer)

    def acquire_turn(self, claim: ClaimId, message: Message) -> float:
        """Consume rate-limit tokens for a message; return the seconds until it may be processed."""
        now = self.now()
        if message.get("kind") not in PROGRAMS:
            own = self._own_tokens.of(claim, now)
            if own.reserve(1, now) == 0:
                return 0.0
            own.refund(1)
        return self._program_tokens.reserve(1, now)

    def refund(self) -> None:
        """Refund the token of a message that is no longer processed. Without the refund, a starter
        that reconnects again and again would build up a debt that delays the others."""
        self._program_tokens.refund(1)

    def handle(self, claim: ClaimId, nonce: str, message: Message) -> None:
        """Handle a message of an authenticated starter. Raises ValueError."""
        self._emit(decode(claim, nonce, message))

    def unregister(
        self,
        connection: StarterConnection,
        identity: tuple[ClaimId, str] | None,
        sync_identity: tuple[ClaimId, str] | None,
    ) -> None:
        """Unregister a lost connection."""
        self._open.pop(id(connection), None)
        self.mark_authenticated(connection)
        if sync_identity is not None:
            self._unregister_file_sync(connection, sync_identity[0])
        if identity is not None and self._connections.get(identity) is connection:
            del self._connections[identity]
            claim, nonce = identity
            self._emit(StarterLost(claim=claim, nonce=nonce))

    def carry(
        self,
        connection: StarterConnection,
        message: Message,
        transport: asyncio.Transport,
        encryption: Encryption | Clear,
    ) -> None:
        """Hand over a connection that carries another one of a program. Raises ValueError."""
        claim = ClaimId(text(message, "claim", most=256))
        known = self._secret(claim)
        if known is None or not connection.authentication.is_valid(message, known):
            log.warning("port.refused", claim=claim, reason="wrong secret")
            connection.abort()
        elif self._carry is None:
            connection.send({"error": "this agent carries no connections"})
            connection.close()
        else:
            order = CarryOrder(
                claim=claim,
                port=text(message, "port", most=512),
                token=text(message, "token", most=256),
                dials=message.get("dials") is True,
            )
            self.unregister(connection, None, None)  # it has other limits from now on
            self._carry(transport, encryption, order)

    def _unregister_file_sync(self, connection: StarterConnection, claim: ClaimId) -> None:
        file_syncs = self._file_syncs[claim]
        if connection in file_syncs:
            file_syncs.remove(connection)
        if not file_syncs:
            del self._file_syncs[claim]


class StarterConnection(asyncio.Protocol):
    """Connection of a starter, or of anything else that found the port.

    A starter's messages are processed as its rate limit allows, a file sync's when the previous one
    is answered. At most one waits, and reading is paused meanwhile (backpressure).
    """

    def __init__(
        self,
        listener: StarterListener,
        authentication: Authentication,
        *,
        hello_limit_s: float = HELLO_LIMIT_S,
    ) -> None:
        self.authentication = authentication
        self._listener = listener
        self._hello_limit_s = hello_limit_s
        self._identity: tuple[ClaimId, str] | None = None
        self._file_sync_identity: tuple[ClaimId, str] | None = None
        self._unread = b""
        self._lines: deque[bytes] = deque()
        self._is_answering = False  # a file sync's request is being answered
        self._delayed: Message | None = None  # waits for its rate limit
        self._is_processing = False
        self._is_paused = False
        self._transport: asyncio.Transport | None = None
        self._encryption: Encryption | Clear | None = None
        self._limit: ScheduledCall | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if not self._listener.register(self):
            transport.abort()
        self._limit = self._listener.later(self._hello_limit_s, self.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._limit is not None:
            self._limit.cancel()
        self._transport = None
        self._lines.clear()
        if self._delayed is not None:
            self._delayed = None
            self._listener.refund()
        self._listener.unregister(self, self._identity, self._file_sync_identity)

    def data_received(self, data: bytes) -> None:
        if self._encryption is not None and self._transport is not None:
            try:
                self._encryption.keep(data)
                data = bytes(self._encryption.decrypt())
                self._transport.write(self._encryption.encrypt())
            except OSError as error:
                self._refuse(str(error))
                return
        *lines, self._unread = (self._unread + data).split(b"\n")
        self._lines.extend(lines)
        if max(map(len, (*lines, self._unread))) > LINE_MAX_BYTES:
            self._refuse("a line too long")
        self._process_lines()

    def _process_lines(self) -> None:
        """Process the waiting lines until one of them must wait."""
        if self._is_processing:
            return
        self._is_processing = True
        while self._lines and self._is_open and not self._is_waiting:
            try:
                self._process(self._lines.popleft())
            except (ValueError, RecursionError) as error:
                self._refuse(str(error))
        self._is_processing = False
        self._set_paused(self._is_waiting)

    def _set_paused(self, is_paused: bool) -> None:  # noqa: FBT001 - it is what it sets
        if self._transport is None or not self._is_open or is_paused == self._is_paused:
            return
        self._is_paused = is_paused
        if is_paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _handle_in_turn(self, identity: tuple[ClaimId, str], message: Message) -> None:
        """Process a message now, or when its rate limit allows."""
        wait_s = self._listener.acquire_turn(identity[0], message)
        if wait_s > 0:
            self._delayed = message
            self._listener.later(wait_s, self._handle_delayed)
        else:
            self._listener.handle(*identity, message)

    def _handle_delayed(self) -> None:
        """Process the delayed message, if the connection is still open."""
        message, self._delayed = self._delayed, None
        if message is None or self._identity is None or not self._is_open:
            return
        try:
            self._listener.handle(*self._identity, message)
        except (ValueError, RecursionError) as error:
            self._refuse(str(error))
        self._process_lines()

    @property
    def _is_waiting(self) -> bool:
        return self._is_answering or self._delayed is not None

    @property
    def _is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def send(self, message: Message) -> None:
        """Queue a message; a starter that does not read is disconnected and may reconnect."""
        if self._transport is not None and not self._transport.is_closing():
            data = json.dumps(message).encode() + b"\n"
            self._transport.write(
                data if self._encryption is None else self._encryption.encrypt(data)
            )
            if self._transport.get_write_buffer_size() > UNSENT_MAX_BYTES:
                self._refuse("it does not read")

    def address(self) -> str:
        """Return the address of the other end."""
        if self._transport is None:
            return ""
        host, *_rest = self._transport.get_extra_info("peername") or ("",)
        return str(host)

    def close(self) -> None:
        """Close the connection after queued messages are sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def _process(self, line: bytes) -> None:
        message = json.loads(line)
        if not isinstance(message, dict):
            raise ValueError("no JSON object")  # noqa: TRY004 - whatever comes, one kind
        if self._identity is not None:
            self._handle_in_turn(self._identity, message)
            return
        if self._file_sync_identity is not None:
            self._is_answering = True
            self._listener.ask(self._file_sync_identity, message, self._answer)
            return
        if message.get("kind") == "prove" and not self.authentication.is_begun:
            self._begin_proof(message)
            return
        if message.get("kind") == "courier":
            self._begin_file_sync(message)
            return
        if message.get("kind") == "carry":
            self._begin_carrying(message)
            return
        self._identity = self._listener.authenticate_starter(self, message)
        if self._identity is not None:
            self._mark_authenticated()

    def _begin_proof(self, message: Message) -> None:
        """Answer a challenge, and encrypt from then on if the starter asks for it."""
        asked = message.get("encrypts")
        if asked is None or self._transport is None:
            self.send(self.authentication.begin(message))
            return
        if self._lines or self._unread:
            raise ValueError("more than a challenge (expected TLS after it)")
        ends = [self._transport.get_extra_info(f"{end}name") for end in ("sock", "peer")]
        if asked == "unless within this machine" and is_within_machine(*ends):
            self.send({**self.authentication.begin(message), "encrypts": False})
            self._encryption = Clear()
            return
        from koala_agent.starter_link.encryption import agent_context  # noqa: PLC0415 - takes 50 ms

        context, certificate = agent_context()
        self.send(self.authentication.begin(message, certificate))
        self._encryption = Encryption(context, is_server=True)

    def _begin_carrying(self, message: Message) -> None:
        if self._encryption is None or self._transport is None:
            raise ValueError("it carries in the clear (expected TLS)")
        self._mark_authenticated()
        self._listener.carry(self, message, self._transport, self._encryption)

    def _mark_authenticated(self) -> None:
        """Mark the connection as authenticated."""
        self._listener.mark_authenticated(self)
        if self._limit is not None:
            self._limit.cancel()

    def _answer(self, message: Message) -> None:
        self._is_answering = False
        self.send(message)
        self._process_lines()

    def _begin_file_sync(self, message: Message) -> None:
        self._file_sync_identity = self._listener.authenticate_file_sync(self, message)
        if self._file_sync_identity is None:
            self.abort()
            return
        self._mark_authenticated()
        self.send({"ok": True})

    def _refuse(self, reason: str) -> None:
        log.warning("starter.cut", reason=reason[:200], identity=self._identity)
        self.abort()
