"""Rendezvous of the reader and the source of a transfer at the relay, and the pipe between them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from koala.common.wire.v1 import files_pb2

PIPE_CHUNKS = 4


class PipeClosedError(Exception):
    """The other end of the pipe has closed it."""


class Pipe:
    """Bounded queue of messages between two tasks; either end may close it at any time."""

    def __init__(self, chunks_max: int) -> None:
        self._chunks: deque[files_pb2.Frame] = deque()
        self._chunks_max = chunks_max
        self._changed = asyncio.Event()
        self._is_closed = False

    async def put(self, chunk: files_pb2.Frame) -> None:
        """Wait for room, and queue a message. Raises PipeClosedError."""
        while len(self._chunks) >= self._chunks_max and not self._is_closed:
            await self._change()
        if self._is_closed:
            raise PipeClosedError
        self._chunks.append(chunk)
        self._changed.set()

    async def get(self) -> files_pb2.Frame:
        """Wait for a message. Raises PipeClosedError once a closed pipe is drained."""
        while not self._chunks and not self._is_closed:
            await self._change()
        if not self._chunks:
            raise PipeClosedError
        self._changed.set()
        return self._chunks.popleft()

    def close(self) -> None:
        """Close both ends. Idempotent."""
        self._is_closed = True
        self._changed.set()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    @property
    def is_closed(self) -> bool:
        """True when either end has closed the pipe."""
        return self._is_closed


@dataclass(kw_only=True, eq=False)
class Pairing:
    """Reader and, once it has arrived, its source. `hang_up` ends the source's call early."""

    offset: int
    pipe: Pipe
    reader: str
    joined: asyncio.Event = field(default_factory=asyncio.Event)
    hang_up: Callable[[], None] | None = None

    def end(self) -> None:
        """End the call of both."""
        self.pipe.close()
        if self.hang_up is not None:
            self.hang_up()


class Pairings:
    """Rendezvous of readers and sources, by transfer. The newest of each kind wins."""

    def __init__(self) -> None:
        self._readers: dict[str, Pairing] = {}
        self._sources: dict[str, asyncio.Future[Pairing]] = {}

    @property
    def readers(self) -> int:
        """Number of readers that read or wait for their source."""
        return len(self._readers)

    @property
    def sources(self) -> int:
        """Number of sources that wait for their reader."""
        return len(self._sources)

    def readers_of(self, reader: str, but: str) -> int:
        """Return the number of one site's readers, without that of the transfer `but`."""
        names = [name for name, pairing in self._readers.items() if pairing.reader == reader]
        return len(names) - (but in names)

    def enter(self, transfer: str, offset: int, reader: str) -> Pairing:
        """Register a reader; it replaces an older one of the transfer."""
        if (older := self._readers.get(transfer)) is not None:
            older.end()
        pairing = self._readers[transfer] = Pairing(
            offset=offset, pipe=Pipe(PIPE_CHUNKS), reader=reader
        )
        source = self._sources.pop(transfer, None)
        if source is not None and not source.done():
            source.set_result(pairing)
        return pairing

    def leave(self, transfer: str, pairing: Pairing) -> None:
        """Remove a reader."""
        pairing.end()
        if self._readers.get(transfer) is pairing:
            del self._readers[transfer]

    async def reader_for(self, transfer: str) -> Pairing | None:
        """Wait, as a source, for the reader; None when a newer source replaced this one."""
        pairing = self._readers.get(transfer)
        if pairing is not None and not pairing.joined.is_set():
            return pairing
        if pairing is not None:
            pairing.end()  # a source that offers again has lost its earlier call
        if (older := self._sources.pop(transfer, None)) is not None:
            older.cancel()
        waiting: asyncio.Future[Pairing] = asyncio.get_running_loop().create_future()
        self._sources[transfer] = waiting
        try:
            await asyncio.wait([waiting])
            return None if waiting.cancelled() else waiting.result()
        finally:
            if self._sources.get(transfer) is waiting:
                del self._sources[transfer]
