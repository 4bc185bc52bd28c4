"""Connections to ports of programs through the grid: between starters and the relay.

Each is a connection of a starter and a call `Carry` at the relay, for either end. What one sends
waits until the other takes it: a slow reader stops its sender, and at most some blocks are kept
here. The limits of the site hold for all its claims together.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from traceback import clear_frames
from typing import Any

from grpc import aio
from msgspec import json

from koala.common.files.bandwidth_limits import CHUNK_BYTES, chunk_bytes
from koala.common.files.channels import WINDOW_BYTES, Channels
from koala.common.protocol.names import ClaimId
from koala.common.runtime import clock
from koala.common.runtime.freed_memory import keep_buffers
from koala.common.runtime.structured_log import get_logger
from koala.common.runtime.token_bucket import TokenBucket
from koala.common.wire.v1 import files_pb2 as pb
from koala.errors import ConfigError, first_error
from koala_agent.starter.ports.encryption import Clear, Encryption, send_at_once
from koala_agent.starter_link.listener import CarryOrder

CARRY = "/koala.wire.v1.Relay/Carry"
END = b""
"""Message that ends its direction: the starter has hung up."""
CARRIED = b'{"kind": "carried"}\n'
"""Tells a starter that the other end is there. What follows are the bytes."""

BLOCK_BYTES = WINDOW_BYTES // 2
"""Most bytes of one read from a starter, and those kept before reading pauses: a message has twice
as many at most."""
WAITING_MAX = 512
"""Connections of one claim that wait for their other ends; an honest one has four for each port."""
_READ = memoryview(bytearray(BLOCK_BYTES))
LOST = (OSError, EOFError, asyncio.InvalidStateError)
"""Errors of an end that is gone; the last one is of a write to a call that has just ended."""
ENDED_S = 30.0
"""Longest wait for the relay after both ends have said all."""

log = get_logger()


class Line(asyncio.BufferedProtocol):
    """Connection of a starter. What it sends goes on in blocks as large as they come, because each
    costs as much as some 300 kB; streams would copy them twice."""

    def __init__(
        self, transport: asyncio.Transport, encryption: Encryption | Clear, block_bytes: int
    ) -> None:
        self.transport = transport
        self._encryption = encryption
        self._block_bytes = block_bytes
        self._is_joined = self._is_over = False
        self._error: Exception | None = None
        self._changed = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        transport.set_write_buffer_limits(high=CHUNK_BYTES)
        if isinstance(encryption, Clear):
            send_at_once(transport.get_extra_info("socket"))
        transport.set_protocol(self)

    async def read(self) -> bytes:
        """Return what has come, empty once the starter has hung up. Raises OSError."""
        while not (data := bytes(self._encryption.decrypt())):
            if self._error is not None:
                raise self._error
            if self._is_over:
                return END
            self._changed.clear()
            await self._changed.wait()
        self.transport.resume_reading()
        return data

    async def join(self) -> None:
        """Tell the starter that the other end is there. Raises OSError."""
        self._is_joined = True
        await self.write(CARRIED)

    def refuse(self, reason: str) -> None:
        """Tell the starter why the other end will not be there, unless it is, and hang up."""
        if not self._is_joined and not self.transport.is_closing():
            line = json.encode({"kind": "refused", "reason": reason}) + b"\n"
            self.transport.write(self._encryption.encrypt(line))
            self.transport.close()

    async def write(self, data: bytes) -> None:
        """Give it to the starter, and wait until most of it is taken. Raises OSError."""
        self.transport.write(self._encryption.encrypt(data))
        await self._writable.wait()
        if self._error is not None:
            raise self._error

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the place for what comes: all lines share it."""
        return _READ[: self._block_bytes]

    def buffer_updated(self, nbytes: int) -> None:
        """Stop to read while enough is kept."""
        self._encryption.keep(_READ[:nbytes])
        if self._encryption.kept_bytes >= self._block_bytes:
            self.transport.pause_reading()
        self._changed.set()

    def eof_received(self) -> bool:
        """Keep the connection for the other direction."""
        self._is_over = True
        self._changed.set()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Let those that wait go."""
        self._is_over, self._error = True, exc
        self._changed.set()
        self._writable.set()

    def pause_writing(self) -> None:
        """Let the writer wait."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let the writer go on."""
        self._writable.set()


class Ports:
    """Connections to ports that this site's starters make and offer.

    `relay` returns the address of the daemon's relay, empty when unknown. At most `connections_max`
    are carried at a time, and `bytes_per_s` in all (None: no limit).
    """

    def __init__(
        self,
        relay: Callable[[], str],
        channels: Channels,
        *,
        connections_max: int,
        bytes_per_s: float | None = None,
    ) -> None:
        self._relay = relay
        self._channels = channels
        self._connections_max = connections_max
        self._carried = 0
        self._waiting = Counter[ClaimId]()
        self._begun: asyncio.Queue[Callable[[], Coroutine[Any, Any, None]]] = asyncio.Queue()
        self._bucket: TokenBucket | None = None
        self._block_bytes = BLOCK_BYTES
        if bytes_per_s is not None:
            self._block_bytes = chunk_bytes(bytes_per_s)
            self._bucket = TokenBucket(bytes_per_s, burst=CHUNK_BYTES, now=clock.now())

    async def run(self) -> None:
        """Carry until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                begin = await self._begun.get()
                group.create_task(begin())

    def carry(
        self, transport: asyncio.Transport, encryption: Encryption | Clear, order: CarryOrder
    ) -> None:
        """Take over a starter's connection."""
        keep_buffers()
        line = Line(transport, encryption, self._block_bytes)
        self._begun.put_nowait(partial(self._serve, line, order))

    async def _serve(self, line: Line, order: CarryOrder) -> None:
        """Carry one connection to its end, which is a reset unless both ends have said all."""
        reason = ""
        try:
            if self._relay():
                with self._place() if order.dials else nullcontext():
                    reason = await self._through(line, order)
                if not reason:
                    line.transport.close()
            else:
                reason = "the daemon's relay is unknown yet"
        except (ConfigError, *LOST) as error:
            reason = str(error)
        finally:
            if reason:
                log.info("port.ended", claim=order.claim, port=order.port, reason=reason)
                line.refuse(reason)
            if not line.transport.is_closing():
                line.transport.abort()

    async def _through(self, line: Line, order: CarryOrder) -> str:
        """Join the connection with a call at the relay, to the end; return why it was lost. Raises
        ConfigError."""
        reason = ""
        async with self._channels.use(self._relay()) as channel:
            call: Any = channel.stream_stream(CARRY)()
            try:
                label = "dial" if order.dials else "listen"
                start = pb.PutStart(name=order.port, token=order.token, label=label)
                await call.write(pb.Frame(start=start).SerializeToString())
                with self._wait(order.claim):
                    await self._joined(line, call)
                with nullcontext() if order.dials else self._place():
                    await line.join()
                    async with asyncio.TaskGroup() as group:
                        group.create_task(self._up(line, call))
                        group.create_task(self._down(call, line))
                    await self._ended(call)
            except* (aio.AioRpcError, *LOST) as errors:
                reason = _reason(first_error(errors))
                # Else the errors refer to their own frames, and so keep the call and the relay's
                # connection open until the next collection of cycles.
                clear_frames(errors.__traceback__)
            finally:
                call.cancel()
        return reason

    @contextmanager
    def _wait(self, claim: ClaimId) -> Iterator[None]:
        """Count a connection that waits for its other end. Raises EOFError."""
        if self._waiting[claim] >= WAITING_MAX:
            raise EOFError(f"{WAITING_MAX} of its connections wait (expected fewer)")
        self._waiting[claim] += 1
        try:
            yield
        finally:
            self._waiting[claim] -= 1
            if not self._waiting[claim]:
                del self._waiting[claim]

    @contextmanager
    def _place(self) -> Iterator[None]:
        """Take a place for a connection. Raises EOFError."""
        if self._carried >= self._connections_max:
            most = self._connections_max
            raise EOFError(
                f"{self._carried} are carried here (expected at most {most}: site.ports_max)"
            )
        self._carried += 1
        try:
            yield
        finally:
            self._carried -= 1

    async def _joined(self, line: Line, call: Any) -> None:  # noqa: ANN401 - of a call
        """Wait for the other end, while the starter waits. Raises EOFError when it is gone, and the
        call's error."""
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(self._until_gone(line))
            first = await call.read()
            waiting.cancel()
        if first is aio.EOF:
            raise await _error_of(call)

    async def _until_gone(self, line: Line) -> None:
        """Wait for a starter that hangs up. Raises EOFError."""
        await line.read()
        raise EOFError("the starter is gone")

    async def _ended(self, call: Any) -> None:  # noqa: ANN401 - of a call
        """Wait until the relay has passed on both ends: a call that ends before cuts the other."""
        await call.done_writing()
        async with asyncio.timeout(ENDED_S):
            await call.read()

    async def _up(self, line: Line, call: Any) -> None:  # noqa: ANN401 - of a call
        """Send what the starter sends, to its hang-up."""
        while data := await line.read():
            await self._throttle(len(data))
            await call.write(data)
        await call.write(END)

    async def _down(self, call: Any, line: Line) -> None:  # noqa: ANN401 - of a call
        """Give the starter what comes, until the other one has hung up."""
        while True:
            data = await call.read()
            if data is aio.EOF:
                raise await _error_of(call)
            if data == END:
                line.transport.close()
                return
            await self._throttle(len(data))
            await line.write(data)

    async def _throttle(self, size_bytes: int) -> None:
        if self._bucket is not None:
            await asyncio.sleep(self._bucket.reserve(size_bytes, clock.now()))


def _reason(error: BaseException) -> str:
    if isinstance(error, aio.AioRpcError):
        return error.details() or error.code().name
    return str(error) or type(error).__name__


async def _error_of(call: Any) -> Exception:  # noqa: ANN401 - of a call
    """Return the error of a call that has ended too early."""
    return EOFError(await call.details() or "the other end is gone")
