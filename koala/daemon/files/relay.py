"""The relay: a proxy for files of sites without an open port, and for uploads to the spool.

It is a separate process, so that file bytes do not pass through the daemon's event loop:

    python -m koala.daemon.files.relay

reads one line of JSON (RelaySettings) from standard input, prints {"port": N}, or {"error": WHY} at
its end, and ends when its standard input closes.

- `Files.Read` of a target and `Relay.Offer` of its source are joined by the transfer's id. The
  first to arrive waits, a reader only for a bounded time.
- At most a few messages are buffered between them: a slow reader exerts backpressure.
- The newest reader wins, because an older one is most likely a dead connection.
- The relay keeps no state but the spool.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import grpc
import msgspec
from grpc import aio

from koala.common.files.bandwidth_limits import CHUNK_BYTES, chunk_bytes
from koala.common.files.channels import SERVER_OPTIONS, RefusalError
from koala.common.files.confined_folder import Descriptor, Folder, UnusableFileError
from koala.common.files.incoming import Digest
from koala.common.files.names import shown
from koala.common.files.replica_store import PartReader
from koala.common.identity.tls import IdentityFile, server_credentials
from koala.common.metrics.settings import MetricsSettings
from koala.common.protocol.names import is_upload
from koala.common.runtime.structured_log import get_logger, log_plainly
from koala.common.runtime.threads import in_steps, in_thread
from koala.common.runtime.token_bucket import TokenBucket
from koala.common.wire import connection_limits
from koala.common.wire.grpc_shutdown import run_and_drain, start_uninterrupted
from koala.common.wire.interceptors import Readable
from koala.common.wire.listen_ports import cannot_listen, check_free
from koala.common.wire.v1 import files_pb2, files_pb2_grpc
from koala.daemon.files.relay_pairings import Pairing, Pairings, PipeClosedError
from koala.daemon.files.relay_settings import RelaySettings, RelayUsage
from koala.daemon.files.spool import Spool
from koala.daemon.files.transfer_tokens import Purpose, is_token
from koala.daemon.files.uploads import served_content
from koala.errors import ConfigError, SpecError, first_error, system_error_text

if TYPE_CHECKING:
    from koala.daemon.files.relay_metrics import RelayMetrics

_ReadContext: TypeAlias = "aio.ServicerContext[files_pb2.ReadRequest, files_pb2.Chunk]"
_OfferContext: TypeAlias = "aio.ServicerContext[files_pb2.OfferUp, files_pb2.OfferDown]"
_StoreContext: TypeAlias = "aio.ServicerContext[files_pb2.StoreUp, files_pb2.StoreReply]"

log = get_logger(__name__)

_LARGE_BYTES = 64 * 2**20
"""Larger outputs must leave `free_bytes_min`; smaller ones fit, or the write fails."""
_NO_START = RefusalError(grpc.StatusCode.INVALID_ARGUMENT, "the first message is `start`")
_PART_OF_SITE = 4
"""One site has at most a quarter of the slots for readers or stores: a peer that moves a byte a
minute could occupy its slots indefinitely."""
_NOTE_BYTES_MAX = 1024
"""Allowance for the agent's note, in a log of the greatest size, that a part was left out."""


class RelayServer(files_pb2_grpc.FilesServicer, files_pb2_grpc.RelayServicer):
    """The relay's three calls; each requires its token."""

    def __init__(self, settings: RelaySettings, spool: Spool) -> None:
        self._settings = settings
        self._secret = bytes.fromhex(settings.secret)
        self._spool = spool
        self._moved_bytes: Counter[str] = Counter()  # since the start, by direction
        self._pairings = Pairings()
        self._stores: Counter[str] = Counter()  # under way, of each site
        self._bucket: TokenBucket | None = None
        if settings.bytes_per_s is not None:
            burst = chunk_bytes(settings.bytes_per_s)
            self._bucket = TokenBucket(settings.bytes_per_s, burst=burst, now=_now())

    def usage(self) -> RelayUsage:
        """Return what is under way, and what was moved so far."""
        return RelayUsage(
            readers=self._pairings.readers,
            sources=self._pairings.sources,
            stores=self._stores.total(),
            moved_bytes=self._moved_bytes,
            free_bytes=self._spool.free_bytes(),
        )

    async def Read(  # type: ignore[override]  # noqa: N802 - the service's name for it
        self, request: files_pb2.ReadRequest, context: _ReadContext
    ) -> None:
        """Forward the bytes of a transfer from its source to the reader."""
        try:
            await self._read(request, context)
        except RefusalError as refusal:
            await context.abort(refusal.code, refusal.reason)
        except aio.InternalError as error:  # raised by a write when the reader is gone
            log.debug("reader.lost", transfer=request.transfer, reason=str(error))

    async def _read(self, request: files_pb2.ReadRequest, context: _ReadContext) -> None:
        self._check(request.token, Purpose.READ, request.transfer)
        if (uploaded := served_content(Path(self._settings.spool), request.transfer)) is not None:
            await self._send_upload(uploaded, request.offset, context)
            return
        if is_upload(request.transfer):
            raise RefusalError(grpc.StatusCode.NOT_FOUND, "the daemon's spool lacks this upload")
        if self._pairings.readers >= self._settings.readers_max:
            raise _busy(f"{self._pairings.readers} others are reading")
        reader = _site_of(context)
        own = self._pairings.readers_of(reader, but=request.transfer)
        _check_share(reader, own, self._settings.readers_max, "reading")
        pairing = self._pairings.enter(request.transfer, request.offset, reader)
        try:
            await self._join(pairing)
            await self._forward(pairing, context)
        except PipeClosedError as error:
            raise RefusalError(
                grpc.StatusCode.ABORTED, "the source's offer was cut, or another reader came"
            ) from error
        except TimeoutError as error:
            reason = "the reader takes nothing"
            raise RefusalError(grpc.StatusCode.DEADLINE_EXCEEDED, reason) from error
        finally:
            self._pairings.leave(request.transfer, pairing)

    async def _send_upload(self, path: Path, offset: int, context: _ReadContext) -> None:
        """Send an uploaded file of the spool, as a source does."""
        try:
            part = await in_thread(_open_upload, path)
        except (OSError, UnusableFileError) as error:
            raise RefusalError(grpc.StatusCode.NOT_FOUND, f"the upload is gone: {error}") from error
        try:
            if offset > part.size_bytes:
                raise RefusalError(
                    grpc.StatusCode.INVALID_ARGUMENT,
                    f"offset {offset} (expected at most {part.size_bytes})",
                )
            await in_steps(partial(part.skip, offset))
            async with asyncio.timeout(None) as limit:
                while block := await in_thread(part.read, CHUNK_BYTES):
                    await self._throttle(len(block))
                    limit.reschedule(_now() + self._settings.stalled_s)
                    await context.write(files_pb2.Chunk(data=block))
                    limit.reschedule(None)
                    self._moved_bytes["uploaded"] += len(block)
            await context.write(files_pb2.Chunk(checksum=await in_thread(part.checksum)))
        except TimeoutError as error:
            reason = "the reader takes nothing"
            raise RefusalError(grpc.StatusCode.DEADLINE_EXCEEDED, reason) from error
        finally:
            part.close()

    async def _join(self, pairing: Pairing) -> None:
        """Wait for the source."""
        wait_s = self._settings.offer_wait_s
        try:
            async with asyncio.timeout(wait_s):
                await pairing.joined.wait()
        except TimeoutError as error:
            reason = f"the source did not offer the file within {wait_s:g} s"
            raise RefusalError(grpc.StatusCode.ABORTED, reason) from error

    async def _forward(self, pairing: Pairing, context: _ReadContext) -> None:
        async with asyncio.timeout(None) as limit:
            while True:
                chunk = await pairing.pipe.get()
                await self._throttle(len(chunk.data))
                limit.reschedule(_now() + self._settings.stalled_s)
                await context.write(chunk)
                limit.reschedule(None)
                self._moved_bytes["forwarded"] += len(chunk.data)
                if chunk.checksum:
                    return

    async def Offer(  # type: ignore[override]  # noqa: N802 - the service's name for it
        self, request_iterator: AsyncIterator[files_pb2.OfferUp], context: _OfferContext
    ) -> None:
        """Wait for a reader of the transfer, then receive its bytes."""
        try:
            await self._offer(request_iterator, context)
        except RefusalError as refusal:
            await context.abort(refusal.code, refusal.reason)
        except aio.InternalError as error:
            log.debug("source.gone", reason=str(error))

    async def _offer(
        self, messages: AsyncIterator[files_pb2.OfferUp], context: _OfferContext
    ) -> None:
        first = await anext(messages, None)
        if first is None or first.WhichOneof("kind") != "start":
            raise _NO_START
        transfer = first.start.transfer
        self._check(first.start.token, Purpose.OFFER, transfer)
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
        messages: AsyncIterator[files_pb2.OfferUp],
        context: _OfferContext,
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
                await context.write(files_pb2.OfferDown(offset=pairing.offset))
                async for message in messages:
                    await pairing.pipe.put(message.chunk)
                    if message.chunk.checksum:
                        return
            finally:
                pairing.hang_up = None

    async def Store(  # noqa: N802 - the service's name for it
        self, request_iterator: AsyncIterator[files_pb2.StoreUp], context: _StoreContext
    ) -> files_pb2.StoreReply:
        """Receive a file into the spool; it is durable when this answers."""
        try:
            return await self._store(request_iterator, _site_of(context))
        except RefusalError as refusal:
            await context.abort(refusal.code, refusal.reason)

    async def _store(
        self, messages: AsyncIterator[files_pb2.StoreUp], who: str
    ) -> files_pb2.StoreReply:
        first = await anext(messages, None)
        if first is None or first.WhichOneof("kind") != "start":
            raise _NO_START
        start = first.start
        self._check(start.token, Purpose.STORE, start.claim)
        bytes_max = self._settings.output_bytes_max
        if start.is_log:
            bytes_max = self._settings.log_bytes_max + _NOTE_BYTES_MAX
        if start.size_bytes > bytes_max:
            reason = (
                f"{shown(start.name)} has {start.size_bytes} bytes (expected at most {bytes_max})"
            )
            raise RefusalError(grpc.StatusCode.OUT_OF_RANGE, reason)
        if start.size_bytes > _LARGE_BYTES:
            self._require_room(start)
        self._require_reserve(start.size_bytes)
        if (others := self._stores.total()) >= self._settings.stores_max:
            raise _busy(f"{others} others are storing")
        _check_share(who, self._stores[who], self._settings.stores_max, "storing")
        self._stores[who] += 1
        part = self._spool.incoming / f"{secrets.token_hex(16)}.part"
        try:
            await self._receive(start, part, messages)
            await in_thread(
                self._spool.store,
                part,
                claim=start.claim,
                label=start.label,
                name=start.name,
                is_log=start.is_log,
            )
        except (SpecError, NotADirectoryError, IsADirectoryError) as error:
            raise RefusalError(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from error
        except TimeoutError as error:
            reason = "nothing came any more"
            raise RefusalError(grpc.StatusCode.DEADLINE_EXCEEDED, reason) from error
        except OSError as error:
            reason = f"the spool: {error.strerror}"
            # No traceback: the reason suffices, and the agent tries again.
            log.error("upload.not_stored", claim=start.claim, name=start.name, reason=reason)  # noqa: TRY400
            raise RefusalError(grpc.StatusCode.UNAVAILABLE, reason) from error
        finally:
            self._stores[who] -= 1
            self._stores += Counter()  # drops zero entries
            part.unlink(missing_ok=True)
        return files_pb2.StoreReply(size_bytes=start.size_bytes)

    def _require_room(self, start: files_pb2.StoreStart) -> None:
        """Check that a large file fits. Raises a permanent RefusalError: a sparse file may have any
        size."""
        room_bytes = self._spool.free_bytes() - self._settings.free_bytes_min
        if start.size_bytes > room_bytes:
            room = f"the spool has room for {max(0, room_bytes)}"
            reason = f"{shown(start.name)} has {start.size_bytes} bytes; {room}"
            raise RefusalError(grpc.StatusCode.OUT_OF_RANGE, reason)

    def _require_reserve(self, size_bytes: int) -> None:
        """Check that the journal's reserve stays free. Raises a RefusalError, to be retried."""
        kept_bytes = self._settings.kept_bytes
        if kept_bytes and self._spool.free_bytes() - size_bytes < kept_bytes:
            reason = f"the spool's disk is full but for {kept_bytes} bytes of the journal's"
            raise RefusalError(grpc.StatusCode.UNAVAILABLE, reason)

    async def _receive(
        self,
        start: files_pb2.StoreStart,
        part: Path,
        messages: AsyncIterator[files_pb2.StoreUp],
    ) -> None:
        """Write the received bytes to `part` and sync it. Raises RefusalError, SpecError."""
        self._spool.check(
            claim=start.claim, label=start.label, name=start.name, is_log=start.is_log
        )
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = Descriptor(await in_thread(os.open, part, flags, 0o600))
        try:
            digest = Digest()
            async with asyncio.timeout(self._settings.stalled_s) as limit:
                async for message in messages:
                    limit.reschedule(None)
                    if digest.size_bytes + len(message.data) > start.size_bytes:
                        raise SpecError(f"more came than the announced {start.size_bytes} bytes")
                    self._require_reserve(len(message.data))  # others store meanwhile
                    await in_thread(_append, descriptor, digest, message.data)
                    self._moved_bytes["stored"] += len(message.data)
                    await self._throttle(len(message.data))
                    limit.reschedule(_now() + self._settings.stalled_s)
            # The stream of a killed client ends like any other, so check size and checksum.
            if (digest.size_bytes, digest.value()) != (start.size_bytes, start.checksum):
                reason = f"{digest.size_bytes} of {start.size_bytes} bytes came, or wrong ones"
                raise RefusalError(grpc.StatusCode.DATA_LOSS, reason)
            await in_thread(descriptor.sync)
        finally:
            descriptor.close()

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
    await in_thread(spool.sweep)
    relay = RelayServer(settings, spool)
    metrics = _metrics(settings.metrics, relay)
    server = aio.server(
        options=SERVER_OPTIONS + connection_limits.options(ports=1),
        interceptors=(*(() if metrics is None else (metrics.calls,)), Readable()),
    )
    files_pb2_grpc.add_FilesServicer_to_server(relay, server)
    files_pb2_grpc.add_RelayServicer_to_server(relay, server)
    check_free("relay.listen", settings.listen)
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
            await asyncio.Event().wait()  # until cancelled
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


def _open_upload(path: Path) -> PartReader:
    descriptor = Folder(path.parent).open(path.name)
    try:
        size_bytes = descriptor.stamp().size_bytes
        return PartReader(descriptor, path.name, offset=0, size_bytes=size_bytes)
    except (UnusableFileError, OSError):
        descriptor.close()
        raise


def _append(descriptor: Descriptor, digest: Digest, content: bytes) -> None:
    descriptor.write(content, digest.size_bytes)
    digest.update(content)


def _site_of(context: _ReadContext | _StoreContext) -> str:
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
