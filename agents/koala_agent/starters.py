"""The port at which starters check in: TCP, JSON lines, a secret for each claim.

A connection begins with a hello that names the claim and proves to know its secret (`proof`); until
then nothing it says is heard, and it is closed after a while. What comes afterwards is translated
into events of the claim table; what cannot be meant closes the connection, and a starter that means
well comes back. A hello of a courier begins questions about the claim's files instead (`mirror`).
Nothing here keeps state that matters: a starter says all it knows in its next hello.

Protocols with callbacks, not streams: asyncio's stream server makes tasks that nobody owns.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import structlog

from koala_agent import values
from koala_agent.claim_events import (
    Adopted,
    CheckedIn,
    Dismissed,
    EndNoted,
    Event,
    StarterArmed,
    StarterEnded,
    StarterGet,
    StarterLost,
    StarterPassed,
    StarterPinged,
    StarterProgressed,
    StarterPut,
    StarterTried,
    ToStarter,
)
from koala_agent.placeholders import end_of
from koala_agent.starter.proof import AGENT, STARTER, challenge, is_proof, proof
from koala_agent.values import ArmNumber, ClaimId

LINE_MAX_BYTES = 256 * 1024
UNSENT_MAX_BYTES = 8 * 1024 * 1024
HOSTS_MAX = 4096
CONNECTIONS_MAX = 20_000
HELLO_LIMIT_S = 10.0

log = structlog.get_logger()

Message = dict[str, object]


class Timer(Protocol):
    """A call to come."""

    def cancel(self) -> None:
        """Never make it."""


def call_later(delay_s: float, call: Callable[[], None]) -> Timer:
    """On the running loop."""
    return asyncio.get_running_loop().call_later(delay_s, call)


Ask = Callable[[ClaimId, str, Message, Callable[[Message], None]], None]
"""Has a courier's question answered."""


class Starters:
    """The listener and its connections, by claim and nonce."""

    def __init__(
        self,
        *,
        tell: Callable[[Event], None],
        secret: Callable[[ClaimId], str | None],
        later: Callable[[float, Callable[[], None]], Timer] = call_later,
        ask: Ask | None = None,
    ) -> None:
        self.later = later
        self._tell = tell
        self._secret = secret
        self._ask = ask
        self._connections: dict[tuple[str, str], Connection] = {}
        self._open: dict[int, Connection] = {}
        self._server: asyncio.Server | None = None

    async def listen(self, address: str, port: int, *, is_fixed: bool = False) -> int:
        """Opens the port, another one when this one is taken, unless it is the one that the site
        wants; answers which. Raises OSError."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(self.accept, address, port)
        except OSError:
            if port == 0 or is_fixed:
                raise
            # Starters of an earlier life will not find us; their leases end them.
            log.warning("starters.port_taken", port=port)
            self._server = await loop.create_server(self.accept, address, 0)
        return int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Closes port and connections; starters go on, and look for the next agent."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._open.values()):
            connection.abort()

    def send(self, claim: ClaimId, nonce: str, message: ToStarter) -> None:
        """Says this to the starter if it is connected."""
        connection = self._connections.get((claim, nonce))
        if connection is not None:
            connection.send(encode(message))
            if isinstance(message, Dismissed):
                connection.close()

    def accept(self) -> Connection:
        """The protocol of a connection that is being made."""
        return Connection(self)

    def opened(self, connection: Connection) -> bool:
        """Whether one more connection is allowed."""
        self._open[id(connection)] = connection
        return len(self._open) <= CONNECTIONS_MAX

    def hello(self, connection: Connection, message: Message) -> tuple[ClaimId, str] | None:
        """Who a connection is; None when the secret is not the claim's. Raises ValueError."""
        event = replace(_checked_in(message), address=connection.address())
        known = self._secret(event.claim)
        if known is not None and not connection.is_proved(message, known):
            log.warning("starter.refused", claim=event.claim, reason="wrong secret")
            return None
        key = (event.claim, event.nonce)
        earlier = self._connections.pop(key, None)
        if earlier is not None:
            earlier.abort()
        self._connections[key] = connection
        log.info("starter.connected", claim=event.claim, nonce=event.nonce)
        self._tell(event)
        return event.claim, event.nonce

    def answer(self, message: Message, challenge: str) -> Message:
        """To a starter that wants to know whom it speaks with. Raises ValueError."""
        claim = ClaimId(_text(message, "claim", most=256))
        theirs = _text(message, "challenge", most=64)
        answer: Message = {"kind": "challenge", "challenge": challenge}
        known = self._secret(claim)
        if known is not None:
            answer["proof"] = proof(known, AGENT, claim, theirs)
        return answer

    def courier(self, connection: Connection, message: Message) -> tuple[ClaimId, str] | None:
        """Whose files are brought; None when the secret is not the claim's. Raises ValueError."""
        claim = ClaimId(_text(message, "claim", most=256))
        known = self._secret(claim)
        if known is None or not connection.is_proved(message, known):
            log.warning("courier.refused", claim=claim)
            return None
        return claim, _text(message, "nonce", most=64)

    def ask(
        self, bringer: tuple[ClaimId, str], question: Message, answer: Callable[[Message], None]
    ) -> None:
        """A question about files, answered some time later."""
        if self._ask is None:
            answer({"ok": False, "error": "this agent takes no files"})
        else:
            self._ask(*bringer, question, answer)

    def heard(self, claim: ClaimId, nonce: str, message: Message) -> None:
        """A message of a starter that has said hello. Raises ValueError."""
        self._tell(decode(claim, nonce, message))

    def lost(self, connection: Connection, identity: tuple[ClaimId, str] | None) -> None:
        """A connection is gone."""
        self._open.pop(id(connection), None)
        if identity is not None and self._connections.get(identity) is connection:
            del self._connections[identity]
            claim, nonce = identity
            self._tell(StarterLost(claim=claim, nonce=nonce))


class Connection(asyncio.Protocol):
    """One connection of a starter, or of whoever found the port."""

    def __init__(self, starters: Starters) -> None:
        self._starters = starters
        self._identity: tuple[ClaimId, str] | None = None
        self._bringer: tuple[ClaimId, str] | None = None
        self._challenge = ""
        self._unread = b""
        self._transport: asyncio.Transport | None = None
        self._limit: Timer | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if not self._starters.opened(self):
            transport.abort()
        self._limit = self._starters.later(HELLO_LIMIT_S, self.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._limit is not None:
            self._limit.cancel()
        self._transport = None
        self._starters.lost(self, self._identity)

    def data_received(self, data: bytes) -> None:
        *lines, self._unread = (self._unread + data).split(b"\n")
        if len(self._unread) > LINE_MAX_BYTES:
            self._refuse("a line too long")
            return
        for line in lines:
            if self._transport is None or self._transport.is_closing():
                return
            try:
                self._take(line)
            except (ValueError, RecursionError) as error:
                self._refuse(str(error))

    def send(self, message: Message) -> None:
        """Queues a message; a starter that does not read is cut off and may come back."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(json.dumps(message).encode() + b"\n")
            if self._transport.get_write_buffer_size() > UNSENT_MAX_BYTES:
                self._refuse("it does not read")

    def is_proved(self, message: Message, secret: str) -> bool:
        """Whether the other end knows the secret. Starters of an earlier version say it."""
        if "secret" in message:
            shown = _text(message, "secret", most=256)
            return hmac.compare_digest(secret.encode(), shown.encode())
        said = (_text(message, "claim", most=256), _text(message, "nonce", most=64))
        asked = self._challenge
        return bool(asked) and is_proof(message.get("proof"), secret, STARTER, *said, asked)

    def address(self) -> str:
        """Where the other end is."""
        if self._transport is None:
            return ""
        host, *_rest = self._transport.get_extra_info("peername") or ("",)
        return str(host)

    def close(self) -> None:
        """Hangs up after what is queued is sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Hangs up now."""
        if self._transport is not None:
            self._transport.abort()

    def _take(self, line: bytes) -> None:
        message = json.loads(line)
        if not isinstance(message, dict):
            raise ValueError("no JSON object")  # noqa: TRY004 - whatever comes, one kind
        if self._identity is not None:
            self._starters.heard(*self._identity, message)
            return
        if self._bringer is not None:
            self._starters.ask(self._bringer, message, self.send)
            return
        if message.get("kind") == "prove" and not self._challenge:
            self._challenge = challenge()
            self.send(self._starters.answer(message, self._challenge))
            return
        if message.get("kind") == "courier":
            self._take_courier(message)
            return
        self._identity = self._starters.hello(self, message)
        if self._identity is None:
            self.abort()
        elif self._limit is not None:
            self._limit.cancel()

    def _take_courier(self, message: Message) -> None:
        self._bringer = self._starters.courier(self, message)
        if self._bringer is None:
            self.abort()
            return
        if self._limit is not None:
            self._limit.cancel()
        self.send({"ok": True})

    def _refuse(self, reason: str) -> None:
        log.warning("starter.cut", reason=reason[:200], identity=self._identity)
        self.abort()


# Messages ----------------------------------------------------------------------------------------


def encode(message: ToStarter) -> Message:  # noqa: C901 - a line a kind
    """A message to a starter, as it goes over the line."""
    match message:
        case Adopted(leases=leases):
            return {
                "kind": "adopted",
                "hold_lease_s": leases.hold_lease_s,
                "run_lease_s": leases.run_lease_s,
                "kill_s": leases.kill_s,
            }
        case Dismissed(reason=reason):
            return {"kind": "dismissed", "reason": reason}
        case EndNoted():
            return {"kind": "noted"}
        case values.TryPaths(label=label, address=address, listens=listens, limit_s=limit_s):
            targets = [[t.label, t.address, t.port, t.claim] for t in message.targets]
            return {
                "kind": "paths",
                "label": label,
                "address": address,
                "listens": listens,
                "targets": targets,
                "limit_s": limit_s,
            }
        case values.Arm(claim=claim, number=number, peers=peers):
            return {
                "kind": "arm",
                "number": [number.epoch, number.counter],
                "release_at": message.release_at,
                "late_s": message.late_s,
                "bundle": values.bundle(claim, peers),
            }
        case values.Release(number=number, release_at=release_at):
            number_said = [number.epoch, number.counter]
            return {"kind": "release", "number": number_said, "release_at": release_at}
        case values.Pace(share=share):
            return {"kind": "pace", "share": share}
        case values.Stop():
            return {"kind": "stop"}
        case values.Pong(sent_at=sent_at, now=now):
            return {"kind": "pong", "sent_at": sent_at, "now": now}
        case values.KvAnswer(request=request, ok=ok, value=value, error=error):
            return {"kind": "answer", "request": request, "ok": ok, "value": value, "error": error}


def decode(claim: ClaimId, nonce: str, message: Message) -> Event:
    """A message of a starter. Raises ValueError that names what is wrong and what is allowed."""
    kind = message.get("kind")
    match kind:
        case "ping":
            sent_at = _number(message, "sent_at")
            return StarterPinged(claim=claim, nonce=nonce, sent_at=sent_at)
        case "armed":
            number = _arm_number(message.get("number"))
            return StarterArmed(claim=claim, nonce=nonce, number=number)
        case "tried":
            problem = _text(message, "problem", most=2000)
            return StarterTried(claim=claim, nonce=nonce, problem=problem)
        case "progress":
            return StarterProgressed(
                claim=claim,
                nonce=nonce,
                cycle=_whole(message, "cycle"),
                work=_number(message, "work"),
                is_told=message.get("is_told") is True,
                can_pace=message.get("can_pace") is True,
            )
        case "passed":
            passed_at = _number(message, "passed_at")
            return StarterPassed(claim=claim, nonce=nonce, passed_at=passed_at)
        case "ended":
            return StarterEnded(claim=claim, nonce=nonce, end=end_of(message.get("end")))
        case "put":
            return StarterPut(
                claim=claim,
                nonce=nonce,
                request=_whole(message, "request"),
                name=_text(message, "name", most=256),
                value=_text(message, "value", most=4096),
            )
        case "get":
            return StarterGet(
                claim=claim,
                nonce=nonce,
                request=_whole(message, "request"),
                name=_text(message, "name", most=256),
                wait_s=_number(message, "wait_s"),
            )
        case _:
            raise ValueError(f"a message of kind {str(kind)[:40]!r}")


def _checked_in(message: Message) -> CheckedIn:
    if message.get("kind") != "hello":
        raise ValueError(f"{str(message.get('kind'))[:40]!r} instead of a hello")
    claim = _text(message, "claim", most=256)
    if not values.is_claim_id(claim):
        raise ValueError(f"{claim!r} is no claim")
    nonce = _text(message, "nonce", most=64)
    if not nonce:
        raise ValueError("an empty nonce")
    armed, passed_at, end = (message.get(name) for name in ("armed", "passed_at", "end"))
    return CheckedIn(
        claim=ClaimId(claim),
        nonce=nonce,
        hosts=_hosts(message.get("hosts", [])),
        armed=None if armed is None else _arm_number(armed),
        passed_at=None if passed_at is None else _number(message, "passed_at"),
        end=None if end is None else end_of(end),
    )


def _arm_number(value: object) -> ArmNumber:
    match value:
        case [int() as epoch, int() as counter]:
            return ArmNumber(epoch=epoch, counter=counter)
        case _:
            raise ValueError(f"number = {value!r}: allowed is [epoch, counter]")


def _hosts(value: object) -> values.Hosts:
    """The machines of an allocation: pairs of name and processors."""
    if not isinstance(value, list) or len(value) > HOSTS_MAX:
        raise ValueError(f"hosts = {str(value)[:80]!r}: allowed are up to {HOSTS_MAX} pairs")
    hosts = []
    for pair in value:
        match pair:
            case [str() as name, int() as count] if 0 < count < 2**31 and 0 < len(name) <= 253:
                hosts.append((name, count))
            case _:
                raise ValueError(f"{str(pair)[:80]!r} among hosts: allowed is [name, processors]")
    return tuple(hosts)


def _number(message: Message, key: str) -> float:
    value = message.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{key} = {value!r}: allowed is a finite number")
    return float(value)


def _whole(message: Message, key: str) -> int:
    value = message.get(key)
    if type(value) is not int or value < 0:
        raise ValueError(f"{key} = {value!r}: allowed is a whole number")
    return value


def _text(message: Message, key: str, *, most: int) -> str:
    """Raises ValueError, also for half a pair of surrogates, which neither the store nor the wire
    can hold."""
    value = message.get(key)
    if not isinstance(value, str) or len(value.encode()) > most:
        raise ValueError(f"{key} = {str(value)[:40]!r}: allowed is a text of up to {most} bytes")
    return value
