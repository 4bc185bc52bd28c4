"""The relay: a proxy for files of sites without an open port, and for uploads to the spool.

It is a separate process, so that file bytes do not pass through the daemon's event loop:

    python -m koala.daemon.files.relay

reads one line of JSON (RelaySettings) from standard input, prints {"port": N}, or {"error": WHY} at
its end, and ends when its standard input closes.

- `Get` of a target and `Put` of its source are joined by the transfer's id. The first to arrive
  waits, a reader only for a bounded time.
- At most a few messages are buffered between them: a slow reader exerts backpressure.
- `Carry` is one end of a connection to a port of a program (`carried_connections`).
- The newest reader wins, because an older one is most likely a dead connection.
- The relay keeps no state but the spool, and there the bytes of outputs that a cut has left.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import grpc
import msgspec
from google.protobuf.message import DecodeError
from grpc import aio

from koala.common.files.bandwidth_limits import chunk_bytes
from koala.common.files.channels import SERVER_OPTIONS
from koala.common.files.confined_folder import Folder, UnusableFileError
from koala.common.files.exchange import (
    CutError,
    RefusalError,
    SpoiltError,
    answer_get,
    answering,
    first_of,
    frames,
    receive,
)
from koala.common.files.names import shown
from koala.common.files.parts import PartReader
from koala.common.identity.tls import IdentityFile, server_credentials
from koala.common.metrics.settings import MetricsSettings
from koala.common.protocol.names import SpooledName, is_upload
from koala.common.runtime.structured_log import get_logger, log_plainly
from koala.common.runtime.threads import in_thread
from koala.common.runtime.token_bucket import TokenBucket
from koala.common.wire import connection_limits
from koala.common.wire.grpc_shutdown import run_and_drain, start_uninterrupted
from koala.common.wire.interceptors import Readable
from koala.common.wire.listen_ports import cannot_listen
from koala.common.wire.v1 import files_pb2, files_pb2_grpc
from koala.daemon.files.carried_connections import CarriedConnections, carry_handler
from koala.daemon.files.relay_pairings import Pairing, Pairings, PipeClosedError
from koala.daemon.files.relay_settings import RelaySettings, RelayUsage
from koala.daemon.files.spool import Spool
from koala.daemon.files.transfer_tokens import Purpose, is_token
from koala.daemon.files.uploads import served_content
from koala.errors import ConfigError, SpecError, first_error, system_error_text

if TYPE_CHECKING:
    from koala.daemon.files.relay_metrics import RelayMetrics

_GetContext: TypeAlias = "aio.ServicerContext[files_pb2.GetRequest, files_pb2.Frame]"
_CarryContext: TypeAlias = "aio.ServicerContext[bytes, bytes]"
_PutContext: TypeAlias = "aio.ServicerContext[files_pb2.Frame, files_pb2.PutDown]"

log = get_logger(__name__)

_OPTIONS = (
    *(option for option in SERVER_OPTIONS if option[0] != "grpc.so_reuseport"),
    ("grpc.so_reuseport", 1),  # the daemon has reserved the port
    *connection_limits.options(ports=1),
)
_LARGE_BYTES = 64 * 2**20
"""Larger outputs must leave `free_bytes_min`; smaller ones fit, or the write fails."""
_PART_OF_SITE = 4
"""One site has at most a quarter of the slots for readers or stores: a peer that moves a byte a
minute could occupy its slots indefinitely."""
_SWEEP_S = 600.0
_NOTE_BYTES_MAX = 1024
"""Allowance for the agent's note, in a log of the greatest size, that a part was left out."""


class RelayServer(files_pb2_grpc.FilesServicer, files_pb2_grpc.RelayServicer):
    """The relay's calls; each requires its token."""

    def __init__(self, settings: RelaySettings, spool: Spool) -> None:
        self._settings = settings
        self._secret = bytes.fromhex(settings.secret)
        self._spool = spool
        self._moved_bytes: Counter[str] = Counter()  # since the start, by direction
        self._pairings = Pairings()
        self._storing: dict[Path, str] = {}  # the part under way, and the site
        self._connections = CarriedConnections(
            wait_s=settings.offer_wait_s,
            most=settings.connections_max,
            throttle=self._throttle,
        )
        self._bucket: TokenBucket | None = None
        if settings.bytes_per_s is not None:
            burst = chunk_bytes(settings.bytes_per_s)
            self._bucket = TokenBucket(settings.bytes_per_s, burst=burst, now=_now())

    def usage(self) -> RelayUsage:
        """Return what is under way, and what was moved so far."""
        return RelayUsage(
            readers=self._pairings.readers,
            sources=self._pairings.sources,
            stores=len(self._storing),
            moved_bytes={**self._moved_bytes, "carried": self._connections.moved_bytes},
            free_bytes=self._spool.free_bytes(),
        )

    async def Get(  # type: ignore[override]  # noqa: N802 - the service's name for it
        self, request: files_pb2.GetRequest, context: _GetContext
    ) -> None:
        """Send an uploaded file of the spool, or pass on what the source of a transfer sends."""
        async with answering(context):
            self._check(request.token, Purpose.GET, request.name)
            uploaded = served_content(Path(self._settings.spool), request.name)
            if uploaded is None and is_upload(request.name):
                reason = "the daemon's spool lacks this upload"
                raise RefusalError(grpc.StatusCode.NOT_FOUND, reason)
            if uploaded is not None:
                sent = self._uploaded(uploaded, request.offset)
                await answer_get(context, sent, self._settings.stalled_s)
            else:
                await self._forward(request, context)

    async def _uploaded(self, path: Path, offset: int) -> AsyncGenerator[files_pb2.Frame, None]:
        """Yield the frames of an uploaded file. Raises RefusalError."""
        try:
            descriptor = await in_thread(Folder(path.parent).open, path.name)
            try:
                part = PartReader(descriptor, path.name)
                async with aclosing(frames(part, offset, pace=self._throttle)) as sent:
                    async for frame in sent:
                        yield frame
                        self._moved_bytes["uploaded"] += len(frame.data)
            finally:
                descriptor.close()
        except (OSError, UnusableFileError) as error:
            raise RefusalError(grpc.StatusCode.NOT_FOUND, f"the upload is gone: {error}") from error

    async def _forward(self, request: files_pb2.GetRequest, context: _GetContext) -> None:
        """Pass on the frames of a transfer from its source to the reader. Raises RefusalError."""
        if self._pairings.readers >= self._settings.readers_max:
            raise _busy(f"{self._pairings.readers} others are reading")
        reader = _site_of(context)
        own = self._pairings.readers_of(reader, but=request.name)
        _check_share(reader, own, self._settings.readers_max, "reading")
        pairing = self._pairings.enter(request.name, request.offset, reader)
        try:
            async with asyncio.timeout(self._settings.offer_wait_s):
                await pairing.joined.wait()
        except TimeoutError as error:
            wait_s = self._settings.offer_wait_s
            reason = f"the source did not offer the file within {wait_s:g} s"
            raise RefusalError(grpc.StatusCode.ABORTED, reason) from error
        else:
            await answer_get(context, self._piped(pairing), self._settings.stalled_s)
        finally:
            self._pairings.leave(request.name, pairing)

    async def _piped(self, pairing: Pairing) -> AsyncGenerator[files_pb2.Frame, None]:
        checksum = ""
        while not checksum:
            try:
                frame = await pairing.pipe.get()
            except PipeClosedError as error:
                reason = "the source's offer was cut, or another reader came"
                raise RefusalError(grpc.StatusCode.ABORTED, reason) from error
            await self._throttle(len(frame.data))
            yield frame
            self._moved_bytes["forwarded"] += len(frame.data)
            checksum = frame.checksum

    async def Put(  # type: ignore[override]  # noqa: N802 - the service's name for it
        self, request_iterator: AsyncIterator[files_pb2.Frame], context: _PutContext
    ) -> None:
        """Receive an output or a log into the spool, or the bytes of a transfer for its reader."""
        async with answering(context):
            try:
                start = await first_of(request_iterator, self._settings.stalled_s)
                spooled = SpooledName.read(start.name)
                if spooled is None:
                    await self._offer(start.name, start.token, request_iterator, context)
                else:
                    self._check(start.token, Purpose.PUT, spooled.claim)
                    await self._store(spooled, start, request_iterator, context)
            except SpecError as error:
                raise RefusalError(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from error
            except (CutError, SpoiltError) as error:
                raise RefusalError(grpc.StatusCode.DATA_LOSS, str(error)) from error
            await context.write(files_pb2.PutDown(is_done=True))

    async def Carry(  # type: ignore[override]  # noqa: N802 - the service's name for it
        self, request_iterator: AsyncIterator[bytes], context: _CarryContext
    ) -> None:
        """Be one end of a connection to a port of a program."""
        async with answering(context):
            start = files_pb2.PutStart()
            with suppress(DecodeError, StopAsyncIteration, TimeoutError):
                async with asyncio.timeout(self._settings.stalled_s):
                    first = files_pb2.Frame.FromString(await anext(request_iterator))
                    start = first.start
            purpose = Purpose.DIAL if start.label == Purpose.DIAL else Purpose.LISTEN
            self._check(start.token, purpose, start.name)
            if purpose is Purpose.DIAL:
                await self._connections.dial(start.name, request_iterator, context)
            else:
                await self._connections.listen(start.name, request_iterator, context)

    async def _offer(
        self,
        transfer: str,
        shown_token: str,
        messages: AsyncIterator[files_pb2.Frame],
        context: _PutContext,
    ) -> None:
        """Wait for a reader of the transfer, then receive its bytes. Raises RefusalError."""
        self._check(shown_token, Purpose.PUT, transfer)
        if self._pairings.sources >= self._settings.offers_max:
            raise _busy(f"{self._pairings.sources} others are offering")
        pairing = await self._pairings.reader_for(transfer)
        if pairing is None:
            raise RefusalError(grpc.StatusCode.ABORTED, "the same transfer was offered again")
        try:
            await self._receive_offer(pairing, messages, context)
        except (PipeClosedError, TimeoutError) as error:
            raise RefusalError(grpc.StatusCode.ABORTED, "the reader is gone") from error
        finally:
            pairing.pipe.close()

    async def _receive_offer(
        self,
        pairing: Pairing,
        messages: AsyncIterator[files_pb2.Frame],
        context: _PutContext,
    ) -> None:
        """Read from the source as fast as the reader reads.

        The reader's departure must end this even while the source sends nothing.
        """
        if pairing.pipe.is_closed:
            raise PipeClosedError
        async with asyncio.timeout(None) as limit:
            pairing.hang_up = lambda: limit.reschedule(_now())
            pairing.joined.set()
            try:
                await context.write(files_pb2.PutDown(offset=pairing.offset))
                async for message in messages:
                    await pairing.pipe.put(message)
                    if message.checksum:
                        return
            finally:
                pairing.hang_up = None

    async def _store(
        self,
        spooled: SpooledName,
        start: files_pb2.PutStart,
        messages: AsyncIterator[files_pb2.Frame],
        context: _PutContext,
    ) -> None:
        """Receive a file into the spool, durably. Raises RefusalError, SpecError."""
        self._spool.check(spooled, start.label)
        self._check_size(spooled, start.size_bytes)
        path = self._spool.part(spooled)
        who = _site_of(context)
        with self._place_for(path, who):
            try:
                answers = receive(
                    messages,
                    path,
                    start.size_bytes,
                    admit=self._admit,
                    stalled_s=self._settings.stalled_s,
                )
                async with aclosing(answers):
                    async for answer in answers:
                        await context.write(answer)
                await in_thread(self._spool.store, path, spooled, start.label)
            except (NotADirectoryError, IsADirectoryError) as error:
                raise SpecError(str(error)) from error
            except OSError as error:
                reason = f"the spool: {error.strerror}"
                # No traceback: the reason suffices, and the agent tries again.
                log.error("upload.not_stored", name=start.name, reason=reason)  # noqa: TRY400
                raise RefusalError(grpc.StatusCode.UNAVAILABLE, reason) from error

    @contextmanager
    def _place_for(self, path: Path, who: str) -> Iterator[None]:
        """Take a place for a file of a site; one call writes a file at a time. Raises
        RefusalError."""
        if len(self._storing) >= self._settings.stores_max:
            raise _busy(f"{len(self._storing)} others are storing")
        own = sum(site == who for site in self._storing.values())
        _check_share(who, own, self._settings.stores_max, "storing")
        if path in self._storing:
            raise _busy("the same file is being stored")
        self._storing[path] = who
        try:
            yield
        finally:
            del self._storing[path]

    async def _admit(self, size_bytes: int) -> None:
        """Wait until so many bytes may be stored. Raises RefusalError."""
        self._require_reserve(size_bytes)  # others store meanwhile
        self._moved_bytes["stored"] += size_bytes
        await self._throttle(size_bytes)

    def _check_size(self, spooled: SpooledName, size_bytes: int) -> None:
        """Check the size of a file before it comes: a sparse file may have any. Raises
        RefusalError, a final one but for the journal's reserve."""
        settings = self._settings
        most = settings.output_bytes_max
        if spooled.is_log:
            most = settings.log_bytes_max + _NOTE_BYTES_MAX
        expected = ""
        room_bytes = self._spool.free_bytes() - settings.free_bytes_min
        if size_bytes > most:
            expected = f" (expected at most {most})"
        elif size_bytes > _LARGE_BYTES and size_bytes > room_bytes:
            expected = f"; the spool has room for {max(0, room_bytes)}"
        if expected:
            reason = f"{shown(spooled.name)} has {size_bytes} bytes{expected}"
            raise RefusalError(grpc.StatusCode.OUT_OF_RANGE, reason)
        self._require_reserve(size_bytes)

    def _require_reserve(self, size_bytes: int) -> None:
        """Check that the journal's reserve stays free. Raises a RefusalError, to be retried."""
        kept_bytes = self._settings.kept_bytes
        if kept_bytes and self._spool.free_bytes() - size_bytes < kept_bytes:
            reason = f"the spool's disk is full but for {kept_bytes} bytes of the journal's"
            raise RefusalError(grpc.StatusCode.UNAVAILABLE, reason)

    def _check(self, shown_token: str, purpose: Purpose, identity: str) -> None:
        if not is_token(shown_token, self._secret, purpose, identity):
            log.warning("token.refused", purpose=purpose.value, identity=shown(identity))
            raise RefusalError(grpc.StatusCode.UNAUTHENTICATED, "wrong token")

    async def _throttle(self, size_bytes: int) -> None:
        if self._bucket is not None:
            await asyncio.sleep(self._bucket.reserve(size_bytes, _now()))


async def serve(settings: RelaySettings, on_listening: Callable[[int], None]) -> None:
    """Run the relay until cancelled; report its port once it listens. Raises ConfigError."""
    spool = Spool(Path(settings.spool))
    relay = RelayServer(settings, spool)
    metrics = _metrics(settings.metrics, relay)
    server = aio.server(
        options=_OPTIONS,
        interceptors=(*(() if metrics is None else (metrics.calls,)), Readable()),
    )
    server.add_generic_rpc_handlers((carry_handler(relay.Carry),))  # before that of the service
    files_pb2_grpc.add_FilesServicer_to_server(relay, server)
    files_pb2_grpc.add_RelayServicer_to_server(relay, server)
    try:
        if settings.identity:
            read = IdentityFile(Path(settings.identity)).read
            shown_by = server_credentials(read, is_mutual=True)
            port = server.add_secure_port(settings.listen, shown_by)
        else:
            port = server.add_insecure_port(settings.listen)
    except RuntimeError as error:
        raise cannot_listen("relay.listen", settings.listen) from error
    try:
        await start_uninterrupted(server)
        on_listening(port)
        async with asyncio.TaskGroup() as group:
            if metrics is not None:
                group.create_task(metrics.run())
            while True:  # until cancelled
                await in_thread(spool.sweep)
                await asyncio.sleep(_SWEEP_S)
    finally:
        await server.stop(None)


def _metrics(settings: MetricsSettings | None, relay: RelayServer) -> RelayMetrics | None:
    if settings is None:
        return None
    from koala.daemon.files.relay_metrics import RelayMetrics  # noqa: PLC0415 - needs an extra

    return RelayMetrics(settings, relay.usage)


async def _main() -> None:
    """Read the settings, and serve until standard input closes: the daemon is gone then."""
    loop = asyncio.get_running_loop()
    stdin = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    line = await stdin.readline()
    if not line.endswith(b"\n"):
        return  # the daemon was killed before it had sent all settings
    settings = msgspec.json.decode(line, type=RelaySettings)
    try:
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(serve(settings, lambda port: _print(port=port)))
            await stdin.read()
            serving.cancel()
    except* (ConfigError, OSError) as group_of_one:
        error = first_error(group_of_one)
        _print(error=system_error_text(error) if isinstance(error, OSError) else str(error))
        sys.exit(1)


def _print(**reply: int | str) -> None:
    with suppress(BrokenPipeError):  # the daemon was killed meanwhile; standard input closes, too
        os.write(sys.stdout.fileno(), json.dumps(reply).encode() + b"\n")


def _site_of(context: _GetContext | _PutContext) -> str:
    """Return the authenticated site at the other end; empty in plain text."""
    uris = context.auth_context().get("peer_uri", ())
    return b" ".join(uris).decode("utf-8", "replace")


def _check_share(who: str, own: int, most: int, what: str) -> None:
    """Check a site's share of the slots. Raises RefusalError."""
    if who and own >= max(1, most // _PART_OF_SITE):
        raise _busy(f"{own} others of the same site are {what}")


def _busy(reason: str) -> RefusalError:
    return RefusalError(grpc.StatusCode.RESOURCE_EXHAUSTED, reason)


def _now() -> float:
    return asyncio.get_running_loop().time()


def main() -> None:
    """Run the relay that a daemon has started as its child process."""
    log_plainly()
    asyncio.run(run_and_drain(_main()))


if __name__ == "__main__":
    main()
