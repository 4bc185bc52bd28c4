"""An attacker of HTTP/2: frames by hand, over TLS or in plain text."""

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from koala.common.identity.tls import Identity

DATA, HEADERS, PRIORITY, SETTINGS, PING, CONTINUATION, UNKNOWN = 0, 1, 2, 4, 6, 9, 0xEE
END_STREAM, END_HEADERS = 1, 4
FLOODS = {
    "a header block without an end": (CONTINUATION, 1, 12_000),
    "small pieces of it": (CONTINUATION, 1, 5),
    "pings": (PING, 0, 8),
    "settings": (SETTINGS, 0, 0),
    "many settings in one frame": (SETTINGS, 0, 12_000),
    "priorities": (PRIORITY, 1, 5),
    "frames of no known type": (UNKNOWN, 0, 12_000),
}


def frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    """One frame."""
    length = struct.pack(">I", len(content))[1:]
    return length + bytes([kind, flags]) + struct.pack(">I", stream) + content


def header(name: str, value: str) -> bytes:
    """One header, literally, as HPACK has it; at most 126 characters each."""
    return b"\x10" + b"".join(bytes([len(text)]) + text.encode() for text in (name, value))


def headers(path: str, **more: str) -> bytes:
    """Those of a call."""
    found = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "daemon.koala.invalid",
        "content-type": "application/grpc",
        "te": "trailers",
        **{key.replace("_", "-"): value for key, value in more.items()},
    }
    return b"".join(header(name, value) for name, value in found.items())


def pieces(kind: int, stream: int, size: int) -> bytes:
    """Some hundred frames of a flood, each with so many bytes of content that is right."""
    one = {
        CONTINUATION: header("a" * 20, "b" * 100) if size > 100 else header("a", ""),
        SETTINGS: struct.pack(">HI", 3, 100),
        PRIORITY: b"\0\0\0\0\x10",
    }.get(kind, b"z" * 8)
    return frame(kind, 0, stream, one * (size // len(one))) * 200


class Attacker:
    """A connection that was opened as HTTP/2 demands."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def call(self, path: str, message: bytes, **metadata: str) -> None:
        """One whole call."""
        body = b"\0" + struct.pack(">I", len(message)) + message
        block = frame(HEADERS, END_HEADERS, 1, headers(path, **metadata))
        self._writer.write(block + frame(DATA, END_STREAM, 1, body))

    def begin(self, stream: int = 1) -> None:
        """Headers that are not at their end."""
        block = headers("/koala.wire.v1.Enrolment/Where")
        self._writer.write(frame(HEADERS, 0, stream, block))

    async def flood(self, kind: int, stream: int, size: int) -> None:
        """Until the other end has closed the connection."""
        async with asyncio.TaskGroup() as group:
            hearing = group.create_task(self.closed())
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                while not hearing.done():
                    self._writer.write(pieces(kind, stream, size))
                    await self._writer.drain()
                    await asyncio.sleep(0)

    async def answered(self) -> bytes:
        """Return the answers so far."""
        return await self._reader.read(65_536)

    async def closed(self) -> None:
        """Until the other end has closed the connection."""
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while await self._reader.read(65_536):
                pass


@asynccontextmanager
async def attacker(address: str, context: ssl.SSLContext | None) -> AsyncIterator[Attacker]:
    """A connection over TLS, or in plain text."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0))
    try:
        yield Attacker(reader, writer)
    finally:
        writer.transport.abort()


def any_server(identity: Identity | None = None, folder: Path | None = None) -> ssl.SSLContext:
    """TLS of a client that believes every server, and shows this certificate or none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    if identity is not None:
        assert folder is not None
        path = folder / "attacker.pem"
        path.write_bytes(identity.key + identity.certificate)
        context.load_cert_chain(path)
    return context
