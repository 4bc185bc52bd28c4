"""Cut connections that send much and ask for nothing.

gRPC has no limit for several kinds of frames: a header block that never ends (CONTINUATION), PING,
SETTINGS, PRIORITY, frames of unknown types. Whoever reaches a port can keep a processor busy with
them for ever, and no call of ours is ever made. So each server compares the bytes that the kernel
has counted for a connection (TCP_INFO) with what came of them. A stranger, who has not shown who it
is in any call, has `STRANGER_BYTES` in all. A known caller has `KNOWN_BYTES` for each call under
way, counted anew from each message. Beyond that the connection is shut down.

The sockets are gRPC's own. They are found among the descriptors of this process by the port and the
address of the other end, which needs no rights. Linux only; elsewhere nothing is cut.
"""

from __future__ import annotations

import asyncio
import ctypes
import ipaddress
import os
import socket
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias
from urllib.parse import unquote

import structlog

from koala.wire import connection_limits as strangers

STRANGER_BYTES = 2**20
"""Of a connection on which nobody has shown who it is. Its first call is answered before the body
is read, so this is for the handshake, headers, and what gRPC sends unasked (64 kB)."""

STRANGER_S = strangers.IDLE_S + 30
"""How long such a connection may last. One that is idle has been told to go before."""

KNOWN_BYTES = 64 * 2**20
"""Of a known caller, for each call under way and one besides, between two messages."""

LOOK_S = 0.1
LOOK_SOON_S = 0.02
"""The pauses between two looks; the shorter one as long as there was something to cut."""

EACH_S = 0.000_25
"""A pause is at least so long for each socket of this process: with thousands of them, a look takes
a hundredth of a second, and all looks together some per cent of a processor."""

TELL_S = 10.0
"""One line of the log in so many seconds; it says how many connections it stands for."""

DESCRIPTORS = "/proc/self/fd"
_BYTES_RECEIVED = struct.Struct("=128xQ")  # tcpi_bytes_received, since Linux 4.1
_RESET = struct.pack("ii", 1, 0)
"""Linger for no time: the other end is told of a reset, even where it takes and hears nothing."""

Peer: TypeAlias = tuple[str, int]

log = structlog.get_logger()


@dataclass(slots=True, eq=False)
class _Connection:
    """One socket: `inode` tells it from another one with the same number. One that is not of our
    ports has no peer. `from_bytes` is what it had received when message number `messages` came."""

    inode: int
    peer: Peer | None
    since: float
    from_bytes: int = 0
    messages: int = 0


@dataclass(slots=True, eq=False)
class _Caller:
    """What is known of the other end of a connection, from its calls."""

    is_known: bool = False
    calls: int = 0
    messages: int = 0
    heard_at: float = 0.0
    connection: _Connection | None = None


@dataclass(slots=True, kw_only=True)
class _Cut:
    """Who was cut since this was last told."""

    connections: int = 0
    told_at: float = field(default=float("-inf"))


class FloodGuard:
    """Watches the connections of one server. `is_open`: whoever gets as far as a call is known,
    because the handshake asks for a certificate, or because plain text is spoken."""

    def __init__(self, *, is_open: bool) -> None:
        self._is_open = is_open
        self._ports: set[int] = set()
        self._callers: dict[Peer, _Caller] = {}
        self._connections: dict[int, _Connection] = {}
        self._cut = _Cut()
        self._looked_at = 0.0
        self._is_swollen = False

    def watch(self, port: int) -> None:
        """Watch the connections of this port, too."""
        self._ports.add(port)

    @contextmanager
    def call(self, peer: str) -> Iterator[None]:
        """Count a call as under way; `peer` is what gRPC calls the other end."""
        caller = self._caller(peer)
        caller.calls += 1
        if self._is_open:
            caller.is_known = True
        try:
            yield
        finally:
            caller.calls -= 1

    def believe(self, peer: str) -> None:
        """Take the other end for known from now on."""
        self._caller(peer).is_known = True

    def heard(self, peer: str) -> None:
        """Note that a message has come."""
        self._caller(peer)

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        if sys.platform != "linux":
            await asyncio.Event().wait()
        while True:
            try:
                has_cut = self.look(asyncio.get_running_loop().time())
            except OSError as error:  # of the listing: no descriptor is free for it just now
                log.debug("connections.not_looked_at", reason=str(error))
                has_cut = False
            if self._is_swollen and not has_cut:
                self._is_swollen = False
                await asyncio.to_thread(_give_back_memory)
            pause_s = LOOK_SOON_S if has_cut else LOOK_S
            await asyncio.sleep(max(pause_s, EACH_S * len(self._connections)))

    def look(self, now: float) -> bool:
        """Cut who has sent too much; whether there was anybody. Raises OSError."""
        self._connections = self._living(now)
        self._forget()
        self._looked_at = now
        has_cut = False
        for number, connection in self._connections.items():
            if connection.peer is not None:
                reason = self._judge(number, connection, connection.peer, now)
                if reason and _end(number, connection):
                    self._tell(connection.peer, reason, now)
                    has_cut = True
        return has_cut

    # --- callers ----------------------------------------------------------------------------------

    def _caller(self, peer: str) -> _Caller:
        caller = self._callers.setdefault(peer_of(peer), _Caller())
        caller.messages += 1
        caller.heard_at = asyncio.get_running_loop().time()
        return caller

    def _forget(self) -> None:
        """Drop callers whose connection is gone. One that was heard after the last look may have a
        connection that this look is the first to see."""
        for connection in self._connections.values():
            caller = self._callers.get(connection.peer) if connection.peer is not None else None
            if caller and (caller.heard_at >= self._looked_at or caller.connection is None):
                caller.connection = connection
        living = {id(connection) for connection in self._connections.values()}
        for peer, caller in tuple(self._callers.items()):
            is_gone = caller.connection is None or id(caller.connection) not in living
            if is_gone and not caller.calls and caller.heard_at < self._looked_at:
                del self._callers[peer]

    # --- connections ------------------------------------------------------------------------------

    def _living(self, now: float) -> dict[int, _Connection]:
        """The sockets that are open, by the numbers of their descriptors. Raises OSError."""
        living = {}
        for number in map(int, os.listdir(DESCRIPTORS)):  # noqa: PTH208 - names alone, and many
            try:
                status = os.fstat(number)
            except OSError:  # closed meanwhile, as is the listing's own
                continue
            if not stat.S_ISSOCK(status.st_mode):
                continue
            found = self._connections.get(number)
            if found is None or found.inode != status.st_ino:
                found = _Connection(status.st_ino, self._peer(number), now)
            living[number] = found
        return living

    def _peer(self, number: int) -> Peer | None:
        """The other end of a connection that came in at one of our ports; None for all else."""
        with suppress(OSError), _borrowed(number) as one:
            is_tcp = one.family in (socket.AF_INET, socket.AF_INET6)
            if is_tcp and one.getsockname()[1] in self._ports:
                host, port, *_ = one.getpeername()
                return _address(host), port
        return None

    def _judge(self, number: int, connection: _Connection, peer: Peer, now: float) -> str:
        """Why a connection is to be cut; empty when it is not."""
        received = _received(number)
        caller = self._callers.get(peer)
        if caller is None or not caller.is_known:
            if received > STRANGER_BYTES:
                return f"sent {received} bytes and has not shown who it is"
            is_old = now - connection.since > STRANGER_S
            return f"has not shown who it is in {STRANGER_S} s" if is_old else ""
        if caller.messages != connection.messages:
            connection.messages, connection.from_bytes = caller.messages, received
        sent = received - connection.from_bytes
        allowed = KNOWN_BYTES * (1 + caller.calls)
        return f"sent {sent} bytes that are no message" if sent > allowed else ""

    def _tell(self, peer: Peer, reason: str, now: float) -> None:
        self._cut.connections += 1
        if now - self._cut.told_at >= TELL_S:
            count = self._cut.connections
            where = f"{peer[0]}:{peer[1]}"
            log.warning("connection.cut", peer=where, reason=reason, connections=count)
            self._cut = _Cut(told_at=now)
            self._is_swollen = True


def _give_back_memory() -> None:
    """Give free memory back to the system: headers of floods are spread over the heaps of many
    threads, where the C library of GNU keeps it. Others do so by themselves, or never."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _end(number: int, connection: _Connection) -> bool:
    """Shut a connection down, if the descriptor still is that one's."""
    try:
        own = os.dup(number)
    except OSError:
        return False
    with socket.socket(fileno=own) as one, suppress(OSError):
        if os.fstat(own).st_ino == connection.inode:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            one.shutdown(socket.SHUT_RDWR)  # gRPC sees the end, and closes it
            return True
    return False


@contextmanager
def _borrowed(number: int) -> Iterator[socket.socket]:
    """A socket under its own number, which stays gRPC's."""
    one = socket.socket(fileno=number)
    try:
        yield one
    finally:
        one.detach()


def _received(number: int) -> int:
    """How many bytes a connection has received; 0 where the kernel does not say."""
    try:
        with _borrowed(number) as one:
            told = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED.size)
    except OSError:
        return 0
    return int(_BYTES_RECEIVED.unpack(told)[0]) if len(told) == _BYTES_RECEIVED.size else 0


@lru_cache(maxsize=4096)
def peer_of(text: str) -> Peer:
    """The other end of a connection as gRPC writes it: `ipv4:10.0.0.1:80`, `ipv6:%5B::1%5D:80`."""
    host, _, port = unquote(text.partition(":")[2]).rpartition(":")
    return (_address(host.strip("[]")), int(port)) if port.isdecimal() else (text, 0)


def _address(host: str) -> str:
    """An address in one form, whichever family the socket has."""
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)
