"""TLS between a starter that carries and its agent, over bytes that others move.

Nobody has signed the agent's certificate: its proof that it knows the claim's secret is of the
certificate, too (`challenge_response`), and the starter says nothing before it has checked that.
What never leaves a machine is not encrypted, if both ends see that: it would cost a third of the
bytes a second.
"""

from __future__ import annotations

import errno
import ssl

from koala_agent.starter.light import socket

RECORD_BYTES = 16 * 1024
_PLAIN = memoryview(bytearray(1024 * 1024))


def starter_context() -> ssl.SSLContext:
    """Make the settings of a starter's end."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def is_within_machine(own: object, peer: object) -> bool:
    """Test for a connection between these addresses that never leaves the machine: both are the
    same, and no other machine can have it."""
    hosts = [end[0] if isinstance(end, tuple) else None for end in (own, peer)]
    return hosts[0] == hosts[1] is not None


def send_at_once(connection: socket.socket) -> None:
    """Let a connection within the machine send without pauses: those of BBR, where that is the
    machine's choice for networks, cost there more than the bytes."""
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
    except OSError:
        return  # it is not allowed here


class Clear:
    """One end of a connection without encryption."""

    is_begun = True
    proven = ()
    """The agent's proof is of nothing else."""

    def __init__(self) -> None:
        self._received: list[bytes] = []
        self.kept_bytes = 0
        """Bytes that came and are not taken yet."""

    def keep(self, data: bytes | memoryview) -> None:
        """Keep what has come."""
        self._received.append(bytes(data))
        self.kept_bytes += len(data)

    def decrypt(self) -> bytes:
        """Return what has come."""
        data = b"".join(self._received)
        self._received.clear()
        self.kept_bytes = 0
        return data

    def encrypt(self, data: bytes | memoryview = b"") -> bytes | memoryview:
        """Return what is to be sent: this."""
        return data


class Encryption:
    """One end of a connection. All errors are OSError."""

    def __init__(self, context: ssl.SSLContext, *, is_server: bool) -> None:
        self._received, self._sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._sent, server_side=is_server)
        self.is_begun = False
        """True once both ends have agreed on keys."""

    @property
    def proven(self) -> tuple[str, ...]:
        """The other end's certificate in hexadecimal digits: the agent's proof is of it, too."""
        return ((self._tls.getpeercert(binary_form=True) or b"").hex(),)

    @property
    def kept_bytes(self) -> int:
        """Bytes that came and are not decrypted yet."""
        return self._received.pending

    def keep(self, data: bytes | memoryview) -> None:
        """Keep what has come."""
        self._received.write(data)

    def decrypt(self) -> memoryview:
        """Return what has come, as far as it is complete; the next call reuses the place. Then
        there may be something to send."""
        size = 0
        try:
            if not self.is_begun:
                self._tls.do_handshake()
                self.is_begun = True
            while size < len(_PLAIN):
                part = self._tls.read(RECORD_BYTES, _PLAIN[size:])
                if not part:
                    raise OSError(errno.ECONNRESET, "it hung up")
                size += int(part)
        except ssl.SSLWantReadError:
            pass
        return _PLAIN[:size]

    def encrypt(self, data: bytes | memoryview = b"") -> bytes:
        """Return what is to be sent: this, and what TLS itself has to say."""
        left = memoryview(data)
        while left:
            left = left[self._tls.write(left) :]
        return self._sent.read()
