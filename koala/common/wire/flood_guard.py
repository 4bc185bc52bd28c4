"""Cut connections that send much and ask for nothing.

gRPC has no limit for several kinds of frames: a header block that never ends (CONTINUATION), PING,
SETTINGS, PRIORITY, frames of unknown types. Anyone who reaches a port could keep a processor busy
with them, without a single call. So each server compares the bytes that the kernel
has counted for a connection (TCP_INFO) with its messages. A stranger, which has not authenticated
in any call, has `STRANGER_BYTES` in all. A known caller has `KNOWN_BYTES` for each call under
way, counted again from each message. Beyond that the connection is shut down.

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
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias
from urllib.parse import unquote

from koala.common.runtime.structured_log import LogRate, get_logger
from koala.common.wire import connection_limits

STRANGER_BYTES = 2**20
"""Most bytes of an unauthenticated connection. Its first call is answered before the body
is read, so this is for the handshake, headers, and gRPC's own frames (64 kB)."""

STRANGER_S = connection_limits.IDLE_S + 30
"""Longest life of such a connection. gRPC closes an idle one before."""

KNOWN_BYTES = 64 * 2**20
"""Most bytes of a known caller between two messages, for each call under way and one besides."""

POLL_S = 0.1
POLL_SOON_S = 0.02
"""Pauses between two polls; the shorter one after a poll that cut a connection."""

REST_S = 1.0
REST_SHARE = 0.1
"""Longest pause between two polls of a process at rest, and the share of a processor below which it
is at rest. A flood worth a hurry takes more; what takes less can wait a second. A poll asks the
kernel about each descriptor, so that ten of them in a second would be most of what an idle daemon
or agent does."""

EACH_S = 0.000_25
"""Least pause for each socket of this process: with thousands of them, a poll takes
a hundredth of a second, and all polls together some per cent of a processor."""

DESCRIPTORS = "/proc/self/fd"
_BYTES_RECEIVED = struct.Struct("=128xQ")  # tcpi_bytes_received, since Linux 4.1
_RESET = struct.pack("ii", 1, 0)
"""Linger for no time: the other end gets a reset, even if it reads nothing."""

Peer: TypeAlias = tuple[str, int]

log = get_logger()


@dataclass(slots=True, eq=False)
class _Connection:
    """One socket; its `inode` distinguishes it from a later one with the same number.

    A socket that is not of our ports has no peer. `from_bytes` had been received when message
    number `messages` came.
    """

    inode: int
    peer: Peer | None
    since: float
    from_bytes: int = 0
    messages: int = 0


@dataclass(slots=True, eq=False)
class _Caller:
    """State of the other end of a connection, known from its calls."""

    is_known: bool = False
    calls: int = 0
    messages: int = 0
    heard_at: float = 0.0
    connection: _Connection | None = None


@dataclass(slots=True)
class _Load:
    """Processor time of this process, all its threads included, when it was last looked at."""

    at: float = 0.0
    used_s: float = 0.0

    def is_busy(self, now: float, used_s: float) -> bool:
        """Check whether more than a tenth of a processor was used since the last call."""
        is_busy = used_s - self.used_s > REST_SHARE * (now - self.at)
        self.at, self.used_s = now, used_s
        return is_busy


class FloodGuard:
    """Watches the connections of one server, and cuts those that flood it.

    `is_open`: any caller that makes a call is known, because the handshake asks for a certificate,
    or because plain text is spoken.
    """

    def __init__(self, *, is_open: bool) -> None:
        self._is_open = is_open
        self._ports: set[int] = set()
        self._callers: dict[Peer, _Caller] = {}
        self._connections: dict[int, _Connection] = {}
        self._cut = LogRate()
        self._polled_at = 0.0
        self._is_swollen = False
        self._load = _Load()

    def watch(self, port: int) -> None:
        """Add a port whose connections are watched."""
        self._ports.add(port)

    @contextmanager
    def call(self, peer: str) -> Iterator[None]:
        """Count a call as under way inside the block; `peer` is gRPC's name of the other end."""
        caller = self._caller(peer)
        caller.calls += 1
        if self._is_open:
            caller.is_known = True
        try:
            yield
        finally:
            caller.calls -= 1

    def mark_known(self, peer: str) -> None:
        """Mark the other end as known."""
        self._caller(peer).is_known = True

    def count_message(self, peer: str) -> None:
        """Count a message of the other end."""
        self._caller(peer)

    async def run(self) -> None:
        """Poll until cancelled."""
        if sys.platform != "linux":
            await asyncio.Event().wait()
        has_cut = False
        while True:
            now = asyncio.get_running_loop().time()
            is_busy = self._load.is_busy(now, time.process_time())
            if has_cut or is_busy or now - self._polled_at >= REST_S:
                has_cut = self._try_poll(now)
            if self._is_swollen and not has_cut:
                self._is_swollen = False
                await asyncio.to_thread(_give_back_memory)
            pause_s = POLL_SOON_S if has_cut else POLL_S
            await asyncio.sleep(max(pause_s, EACH_S * len(self._connections)))

    def _try_poll(self, now: float) -> bool:
        try:
            return self.poll(now)
        except OSError as error:  # no descriptor is free for the listing
            log.debug("connections.poll_failed", reason=str(error))
            return False

    def poll(self, now: float) -> bool:
        """Cut the connections that sent too much; return True if there were any. Raises OSError."""
        self._connections = self._living(now)
        self._forget()
        self._polled_at = now
        has_cut = False
        for number, connection in self._connections.items():
            if connection.peer is not None:
                reason = self._evaluate(number, connection, connection.peer, now)
                if reason and _end(number, connection):
                    self._report(connection.peer, reason, now)
                    has_cut = True
        return has_cut

    # --- callers ----------------------------------------------------------------------------------

    def _caller(self, peer: str) -> _Caller:
        caller = self._callers.setdefault(peer_of(peer), _Caller())
        caller.messages += 1
        caller.heard_at = asyncio.get_running_loop().time()
        return caller

    def _forget(self) -> None:
        """Drop callers whose connection is gone.

        A caller that was heard after the last poll may have a connection that this poll is the
        first to see.
        """
        for connection in self._connections.values():
            caller = self._callers.get(connection.peer) if connection.peer is not None else None
            if caller and (caller.heard_at >= self._polled_at or caller.connection is None):
                caller.connection = connection
        living = {id(connection) for connection in self._connections.values()}
        for peer, caller in tuple(self._callers.items()):
            is_gone = caller.connection is None or id(caller.connection) not in living
            if is_gone and not caller.calls and caller.heard_at < self._polled_at:
                del self._callers[peer]

    # --- connections ------------------------------------------------------------------------------

    def _living(self, now: float) -> dict[int, _Connection]:
        """Return the open sockets by descriptor number. Raises OSError."""
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
        """Return the other end of a connection to one of our ports; None for other sockets."""
        with suppress(OSError), _borrowed(number) as one:
            is_tcp = one.family in (socket.AF_INET, socket.AF_INET6)
            if is_tcp and one.getsockname()[1] in self._ports:
                host, port, *_ = one.getpeername()
                return _address(host), port
        return None

    def _evaluate(self, number: int, connection: _Connection, peer: Peer, now: float) -> str:
        """Return the reason to cut a connection; empty to keep it."""
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

    def _report(self, peer: Peer, reason: str, now: float) -> None:
        if count := self._cut.count(now):
            where = f"{peer[0]}:{peer[1]}"
            log.warning("connection.cut", peer=where, reason=reason, connections=count)
            self._is_swollen = True


def _give_back_memory() -> None:
    """Return free memory to the system.

    Headers of floods are spread over the heaps of many threads, where GNU's C library keeps it.
    Other C libraries return it by themselves, or never.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _end(number: int, connection: _Connection) -> bool:
    """Shut a connection down, if its descriptor still is the same socket."""
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
    """Wrap a descriptor in a socket for the block; gRPC keeps the descriptor."""
    one = socket.socket(fileno=number)
    try:
        yield one
    finally:
        one.detach()


def _received(number: int) -> int:
    """Return the bytes that a connection has received; 0 where the kernel does not say."""
    try:
        with _borrowed(number) as one:
            told = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED.size)
    except OSError:
        return 0
    return int(_BYTES_RECEIVED.unpack(told)[0]) if len(told) == _BYTES_RECEIVED.size else 0


@lru_cache(maxsize=4096)
def peer_of(text: str) -> Peer:
    """Parse gRPC's name of a peer: `ipv4:10.0.0.1:80`, `ipv6:%5B::1%5D:80`."""
    host, _, port = unquote(text.partition(":")[2]).rpartition(":")
    return (_address(host.strip("[]")), int(port)) if port.isdecimal() else (text, 0)


def _address(host: str) -> str:
    """Normalize an address, whichever family the socket has."""
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)
