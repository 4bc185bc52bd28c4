"""The gRPC streams to the daemon.

- One stream at a time, each on a channel of its own: a failed channel keeps its own back-off, which
  would add to the session's.
- Outgoing messages wait in a bounded queue for one writer, which sends all that wait together
  (`common.wire.packing`). A full queue means that the daemon does not read, and cuts the stream
  (backpressure).
- Reads and writes have no time-out, because gRPC would then cancel the whole stream; the session's
  silence limit ends it. Keepalive only finds dead machines; a hanging event loop is found by
  unanswered heartbeats.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

import grpc
from google.protobuf.message import DecodeError

from koala.common.identity.tls import IdentityFile
from koala.common.protocol.limits import MESSAGE_BYTES_MAX
from koala.common.protocol.messages import Watermark
from koala.common.protocol.versions import PROTOCOL
from koala.common.runtime.structured_log import get_logger
from koala.common.wire.connection_limits import BACK_OFF
from koala.common.wire.packing import PACK_MAX, PACKS, Spacing, can_unpack, packed, unpacked
from koala.common.wire.v1 import link_pb2
from koala.common.wire.v1.link_pb2_grpc import AgentLinkStub
from koala.errors import ConfigError, SpecError, UnreachableError
from koala_agent.link.endpoints import dial, why_refused
from koala_agent.link.session_driver import Post, Stream
from koala_agent.link.session_events import Dialled, FromDaemon, Received

SEND_QUEUE_MAX = 10_000
"""Entries that may wait for the writer; messages of one batch, such as an inventory, count as
one."""

LAST_WORDS_S = 2.0
"""Longest time that an orderly end may take to send its Goodbye."""

_LOST_STATUS = "Internal error from Core"

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    *BACK_OFF,
    # ping_timeout bounds the detection; keepalive_timeout alone leaves it at a minute.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.ping_timeout_ms", 3_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
)

log = get_logger()

Call: TypeAlias = "grpc.aio.StreamStreamCall[link_pb2.FromAgent, link_pb2.ToAgent]"


Encode: TypeAlias = Callable[[object], link_pb2.FromAgent]
Decode: TypeAlias = "Callable[[link_pb2.ToAgent], FromDaemon | None]"
"""Decoder; None for a message kind of a later version. Raises SpecError for an invalid message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFactory:
    """Address of the daemon, and the codec of its messages."""

    target: str
    encode: Encode
    decode: Decode
    mark: Callable[[link_pb2.ToAgent], Watermark | None] = lambda _: None
    queue_max: int = SEND_QUEUE_MAX
    identity: IdentityFile | None = None
    """The site's certificate and key; None: plain text."""

    def open(self, connection: int, post: Post) -> Stream:
        """Return a new gRPC stream."""
        return _GrpcStream(connection, self, post)


def describe_error(error: grpc.aio.AioRpcError) -> str:
    """Describe the end of a stream for a person. When the daemon ends it during our write, gRPC
    reports no more than this; the next attempt to connect gets the daemon's reason."""
    if error.code() is grpc.StatusCode.INTERNAL and error.details() == _LOST_STATUS:
        return "ended by the daemon while it was written to"
    return f"{error.code().name}: {error.details()}"


class _GrpcStream:
    """Connection: a channel, a stream on it, a reader and a writer."""

    def __init__(self, connection: int, wire: StreamFactory, post: Post) -> None:
        self._connection = connection
        self._wire = wire
        self._post = post
        self._outbox: asyncio.Queue[Sequence[object]] = asyncio.Queue(wire.queue_max)
        self._ended = asyncio.Event()
        self._is_orderly = False
        self._is_packing = False  # the daemon reads packed messages
        self._reason = "hung up"

    def send(self, batch: Sequence[object]) -> bool:
        """See `Stream`."""
        try:
            self._outbox.put_nowait(batch)
        except asyncio.QueueFull:
            self.hang_up(is_orderly=False)
            return False
        return True

    def hang_up(self, *, is_orderly: bool) -> None:
        """See `Stream`."""
        self._is_orderly = is_orderly
        self._ended.set()

    async def run(self, startable: Callable[[], int]) -> str:
        """See `Stream`."""
        log.debug("link.dialled", daemon=self._wire.target)
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            connecting = group.create_task(self._connect(stack))
            ending = group.create_task(self._ended.wait())
            await asyncio.wait({connecting, ending}, return_when=asyncio.FIRST_COMPLETED)
            is_in_time = connecting.done() and not self._ended.is_set()
            channel = connecting.result() if is_in_time else None
            connecting.cancel()
            if channel is not None:
                await self._run_stream(channel, startable, ending)
            ending.cancel()
        return self._reason

    async def _connect(self, stack: AsyncExitStack) -> grpc.aio.Channel | None:
        """Connect once; None when that fails, because retries are the session's."""
        wire = self._wire
        try:
            channel = await dial(wire.target, wire.identity, options=CHANNEL_OPTIONS)
        except (UnreachableError, ConfigError, OSError) as error:
            self._reason = f"{wire.target} is not reached: {error}"
            return None
        await stack.enter_async_context(channel)
        state = channel.get_state(try_to_connect=True)
        while state in (grpc.ChannelConnectivity.IDLE, grpc.ChannelConnectivity.CONNECTING):
            await channel.wait_for_state_change(state)
            state = channel.get_state(try_to_connect=True)
        if state is grpc.ChannelConnectivity.READY:
            return channel
        await self._diagnose(channel)
        return None

    async def _diagnose(self, channel: grpc.aio.Channel) -> None:
        """Find out why a channel failed (no listener, a wrong certificate): a channel does not
        report it, but a call on it fails at once with the reason."""
        self._reason = f"{self._wire.target} is not reached"
        call = AgentLinkStub(channel).Connect()
        try:
            await call.read()
        except grpc.aio.AioRpcError as error:
            self._reason += f": {await self._refusal() or error.details()}"
        finally:
            call.cancel()

    async def _refusal(self) -> str:
        """Diagnose a failed handshake, because gRPC does not pass on its reason."""
        if self._wire.identity is None:
            return ""
        try:
            return await why_refused(self._wire.target, self._wire.identity)
        except (UnreachableError, ConfigError, OSError) as error:
            return str(error)

    async def _run_stream(
        self, channel: grpc.aio.Channel, startable: Callable[[], int], ending: asyncio.Task[bool]
    ) -> None:
        call = AgentLinkStub(channel).Connect(metadata=(("koala-protocol", str(PROTOCOL)), *PACKS))
        session = secrets.token_hex(8)
        self._post(Dialled(connection=self._connection, session=session, idle=startable()))
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(self._read(call))
            writing = group.create_task(self._write(call))
            await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
            if self._is_orderly and not reading.done():
                finishing = group.create_task(self._finish(call))
                # The daemon ends its side when it has read all; a call that is cancelled before
                # may take our Goodbye with it. One that ends at the same time does not read it.
                await asyncio.wait({reading}, timeout=LAST_WORDS_S)
                finishing.cancel()
            reading.cancel()
            writing.cancel()
        call.cancel()

    async def _read(self, call: Call) -> None:
        """Pass on messages until the stream ends."""
        has_metadata = False
        try:
            while (message := await call.read()) is not grpc.aio.EOF:
                assert isinstance(message, link_pb2.ToAgent)
                if not has_metadata:
                    has_metadata = True  # it came with the first message
                    self._is_packing = can_unpack(await call.initial_metadata())
                for part in unpacked(message):
                    self._receive(part)
        except grpc.aio.AioRpcError as error:
            self._reason = describe_error(error)
        except DecodeError as error:
            self._reason = f"the daemon sent no message: {error}"
        else:
            if not self._ended.is_set():
                self._reason = f"ended by the daemon: {await call.details() or 'without a word'}"

    def _receive(self, message: link_pb2.ToAgent) -> None:
        try:
            decoded = self._wire.decode(message)
        except SpecError as error:
            log.warning("link.message_invalid", reason=str(error))
            self._reason = f"invalid message of the daemon: {error}"
            self.hang_up(is_orderly=False)
        else:
            if decoded is None:
                log.warning("link.unknown_message_ignored")
            else:
                received = Received(
                    connection=self._connection, message=decoded, mark=self._wire.mark(message)
                )
                self._post(received)

    async def _write(self, call: Call) -> None:
        spacing = Spacing()
        try:
            while True:
                batches = [await self._outbox.get()]
                if self._is_packing:
                    await spacing.wait()
                while self._is_packing and len(batches) < PACK_MAX and not self._outbox.empty():
                    batches.append(self._outbox.get_nowait())
                encoded = map(self._wire.encode, chain.from_iterable(batches))
                for message in packed(encoded) if self._is_packing else encoded:
                    await call.write(message)
                for _ in batches:
                    self._outbox.task_done()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass  # the reader has the reason

    async def _finish(self, call: Call) -> None:
        """Flush the queue, and half-close the stream."""
        await self._outbox.join()
        with suppress(asyncio.InvalidStateError, grpc.aio.AioRpcError):
            await call.done_writing()
