"""The relay: file bytes of sites without an open port, and outputs on their way to the spool.

A process of its own beside the daemon, so that no byte of a file passes the daemon's event loop:

    python -m koala.daemon.files.relay    reads one line of JSON (RelaySettings) from standard
    input,
                                    prints {"port": N}, or {"error": WHY} at its end, and ends when
                                    its standard input closes

`Files.Read` of a target and `Relay.Offer` of its source are joined by the transfer's id; whoever
comes first waits, the reader only for a bounded time. Between them lie at most a few messages: when
the reader is slow, the source is not read. The newest reader wins, because an older one is most
likely a connection that died unnoticed. It keeps no state but the spool.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import grpc
import msgspec
import structlog
from grpc import aio

from koala.daemon.files.spool import Purpose, Spool, is_token
from koala.errors import ConfigError, SpecError, UnreachableError, first_error
from koala.files.channels import SERVER_OPTIONS, RefusalError
from koala.files.confined_folder import Descriptor
from koala.files.incoming import Digest
from koala.files.names import shown
from koala.files.rate_limits import TokenBucket, chunk_bytes
from koala.files.threads import in_thread
from koala.files.uploads import LOG_BYTES_MAX
from koala.identity.tls import IdentityFile, server_credentials
from koala.wire import connection_limits as strangers
from koala.wire.flood_guard import FloodGuard
from koala.wire.grpc_shutdown import to_the_end
from koala.wire.interceptors import Readable
from koala.wire.listen_ports import cannot_listen, check_free
from koala.wire.v1 import files_pb2, files_pb2_grpc

_ReadContext: TypeAlias = "aio.ServicerContext[files_pb2.ReadRequest, files_pb2.Chunk]"
_OfferContext: TypeAlias = "aio.ServicerContext[files_pb2.OfferUp, files_pb2.OfferDown]"
_StoreContext: TypeAlias = "aio.ServicerContext[files_pb2.StoreUp, files_pb2.StoreReply]"

log = structlog.get_logger(__name__)

_PIPE_CHUNKS = 4
_LARGE_BYTES = 64 * 2**20
"""Of an output; for smaller ones there is room, or the disk says so."""
_NO_START = RefusalError(grpc.StatusCode.INVALID_ARGUMENT, "the first message is `start`")
_START_S = 30.0
_END_S = 1.0
_RESTART_S = 0.2
_RESTART_S_MAX = 10.0
_PART_OF_SITE = 4
"""One site has at most a quarter of the places for readers or stores: who takes and sends a byte a
minute keeps its places for ever."""
_NOTE_BYTES_MAX = 1024
"""What an agent may add to a log of the greatest size to say that something is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    """`listen` is host:port, port 0 for any; `spool` a folder; `secret` the tokens' key, in hex.
    `identity` is the file of what it shows itself by; with it only holders of a certificate get
    through, empty means plain text.

    `bytes_per_s` bounds all copies together (None: no limit). A reader waits `offer_wait_s` for its
    source, and a peer that takes or sends nothing for `stalled_s` is cut.
    """

    secret: str = field(repr=False)
    identity: str = ""
    listen: str = "127.0.0.1:0"
    spool: str
    bytes_per_s: float | None = None
    offer_wait_s: float = 20.0
    stalled_s: float = 60.0
    offers_max: int = 4000
    readers_max: int = 32
    stores_max: int = 32
    output_bytes_max: int = 2**40
    log_bytes_max: int = LOG_BYTES_MAX
    free_bytes_min: int = 0
    """What a large file must leave of the spool's disk: the journal may be on it, too."""
    kept_bytes: int = 0
    """What every file must leave: so much the journal's ballast gives up, for the journal alone."""


class PipeClosedError(Exception):
    """The other end of a pipe is gone; nothing more will come."""


class Pipe:
    """A few messages between two tasks; either end may close it at any time."""

    def __init__(self, chunks_max: int) -> None:
        self._chunks: deque[files_pb2.Chunk] = deque()
        self._chunks_max = chunks_max
        self._changed = asyncio.Event()
        self._is_closed = False

    async def put(self, chunk: files_pb2.Chunk) -> None:
        """Waits for room. Raises PipeClosedError."""
        while len(self._chunks) >= self._chunks_max and not self._is_closed:
            await self._change()
        if self._is_closed:
            raise PipeClosedError
        self._chunks.append(chunk)
        self._changed.set()

    async def get(self) -> files_pb2.Chunk:
        """Waits for a message; those put before the pipe was closed still come, then it raises
        PipeClosedError."""
        while not self._chunks and not self._is_closed:
            await self._change()
        if not self._chunks:
            raise PipeClosedError
        self._changed.set()
        return self._chunks.popleft()

    def close(self) -> None:
        """Ends both sides. May be called again."""
        self._is_closed = True
        self._changed.set()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    @property
    def is_closed(self) -> bool:
        """Whether one end is gone."""
        return self._is_closed


@dataclass(kw_only=True, eq=False)
class _Meeting:
    """A reader and, once it has come, its source. `hang_up` ends the source's call early."""

    offset: int
    pipe: Pipe
    reader: str
    joined: asyncio.Event = field(default_factory=asyncio.Event)
    hang_up: Callable[[], None] | None = None

    def end(self) -> None:
        self.pipe.close()
        if self.hang_up is not None:
            self.hang_up()


class _Meetings:
    """Who waits for whom, by transfer. The newest of each kind wins."""

    def __init__(self) -> None:
        self._readers: dict[str, _Meeting] = {}
        self._sources: dict[str, asyncio.Future[_Meeting]] = {}

    @property
    def readers(self) -> int:
        """How many read or wait for their source."""
        return len(self._readers)

    @property
    def sources(self) -> int:
        """How many wait for their reader."""
        return len(self._sources)

    def readers_of(self, reader: str, but: str) -> int:
        """How many of these are of one site, besides that of the transfer `but`."""
        found = [name for name, one in self._readers.items() if one.reader == reader]
        return len(found) - (but in found)

    def enter(self, transfer: str, offset: int, reader: str) -> _Meeting:
        """A reader comes."""
        if (older := self._readers.get(transfer)) is not None:
            older.end()
        meeting = self._readers[transfer] = _Meeting(
            offset=offset, pipe=Pipe(_PIPE_CHUNKS), reader=reader
        )
        source = self._sources.pop(transfer, None)
        if source is not None and not source.done():
            source.set_result(meeting)
        return meeting

    def leave(self, transfer: str, meeting: _Meeting) -> None:
        """A reader goes."""
        meeting.end()
        if self._readers.get(transfer) is meeting:
            del self._readers[transfer]

    async def reader_for(self, transfer: str) -> _Meeting | None:
        """A source comes, and waits for its reader. None: it came again meanwhile."""
        meeting = self._readers.get(transfer)
        if meeting is not None and not meeting.joined.is_set():
            return meeting
        if meeting is not None:
            meeting.end()  # the source would not come again if the call that serves it still lived
        if (older := self._sources.pop(transfer, None)) is not None:
            older.cancel()
        waiting: asyncio.Future[_Meeting] = asyncio.get_running_loop().create_future()
        self._sources[transfer] = waiting
        try:
            await asyncio.wait([waiting])
            return None if waiting.cancelled() else waiting.result()
        finally:
            if self._sources.get(transfer) is waiting:
                del self._sources[transfer]


class RelayServer(files_pb2_grpc.FilesServicer, files_pb2_grpc.RelayServicer):
    """The three calls. Every one is refused without its token."""

    def __init__(self, settings: RelaySettings, spool: Spool) -> None:
        self._settings = settings
        self._secret = bytes.fromhex(settings.secret)
        self._spool = spool
        self._meetings = _Meetings()
        self._stores: Counter[str] = Counter()  # under way, of each site
        self._bucket: TokenBucket | None = None
        if settings.bytes_per_s is not None:
            burst = chunk_bytes(settings.bytes_per_s)
            self._bucket = TokenBucket(settings.bytes_per_s, burst_bytes=burst, now=_now())

    async def Read(  # type: ignore[override]  # noqa: N802 - the service's name for it
        self, request: files_pb2.ReadRequest, context: _ReadContext
    ) -> None:
        """Passes on what the transfer's source sends."""
        try:
            await self._read(request, context)
        except RefusalError as refusal:
            await context.abort(refusal.code, refusal.reason)
        except aio.InternalError as error:  # how a write says that the reader is gone
            log.debug("reader.gone", transfer=request.transfer, error=str(error))

    async def _read(self, request: files_pb2.ReadRequest, context: _ReadContext) -> None:
        self._check(request.token, Purpose.READ, request.transfer)
        if self._meetings.readers >= self._settings.readers_max:
            raise _busy(f"{self._meetings.readers} others are reading")
        reader = _who(context)
        own = self._meetings.readers_of(reader, but=request.transfer)
        _check_share(reader, own, self._settings.readers_max, "reading")
        meeting = self._meetings.enter(request.transfer, request.offset, reader)
        try:
            await self._join(meeting)
            await self._pass_on(meeting, context)
        except PipeClosedError as error:
            raise RefusalError(
                grpc.StatusCode.ABORTED, "the source's offer was cut, or another reader came"
            ) from error
        except TimeoutError as error:
            reason = "the reader takes nothing"
            raise RefusalError(grpc.StatusCode.DEADLINE_EXCEEDED, reason) from error
        finally:
            self._meetings.leave(request.transfer, meeting)

    async def _join(self, meeting: _Meeting) -> None:
        """Waits for the source."""
        wait_s = self._settings.offer_wait_s
        try:
            async with asyncio.timeout(wait_s):
                await meeting.joined.wait()
        except TimeoutError as error:
            reason = f"the source did not offer the file within {wait_s:g} s"
            raise RefusalError(grpc.StatusCode.ABORTED, reason) from error

    async def _pass_on(self, meeting: _Meeting, context: _ReadContext) -> None:
        async with asyncio.timeout(None) as limit:
            while True:
                chunk = await meeting.pipe.get()
                await self._hold_back(len(chunk.data))
                limit.reschedule(_now() + self._settings.stalled_s)
                await context.write(chunk)
                limit.reschedule(None)
                if chunk.checksum:
                    return

    async def Offer(  # type: ignore[override]  # noqa: N802 - the service's name for it
        self, request_iterator: AsyncIterator[files_pb2.OfferUp], context: _OfferContext
    ) -> None:
        """Waits until somebody reads the transfer, then takes its bytes in."""
        try:
            await self._offer(request_iterator, context)
        except RefusalError as refusal:
            await context.abort(refusal.code, refusal.reason)
        except aio.InternalError as error:
            log.debug("source.gone", error=str(error))

    async def _offer(
        self, messages: AsyncIterator[files_pb2.OfferUp], context: _OfferContext
    ) -> None:
        first = await anext(messages, None)
        if first is None or first.WhichOneof("kind") != "start":
            raise _NO_START
        transfer = first.start.transfer
        self._check(first.start.token, Purpose.OFFER, transfer)
        if self._meetings.sources >= self._settings.offers_max:
            raise _busy(f"{self._meetings.sources} others are offering")
        meeting = await self._meetings.reader_for(transfer)
        if meeting is None:
            raise RefusalError(grpc.StatusCode.ABORTED, "the same transfer was offered anew")
        try:
            await self._take_in(meeting, messages, context)
        except (PipeClosedError, TimeoutError) as error:
            raise RefusalError(grpc.StatusCode.ABORTED, "the reader is gone") from error
        finally:
            meeting.pipe.close()

    async def _take_in(
        self,
        meeting: _Meeting,
        messages: AsyncIterator[files_pb2.OfferUp],
        context: _OfferContext,
    ) -> None:
        """Reads from the source as fast as the reader takes. The source may send nothing for long;
        that the reader has left must end this also then."""
        if meeting.pipe.is_closed:
            raise PipeClosedError
        async with asyncio.timeout(None) as limit:
            meeting.hang_up = lambda: limit.reschedule(_now())
            meeting.joined.set()
            try:
                await context.write(files_pb2.OfferDown(offset=meeting.offset))
                async for message in messages:
                    await meeting.pipe.put(message.chunk)
                    if message.chunk.checksum:
                        return
            finally:
                meeting.hang_up = None

    async def Store(  # noqa: N802 - the service's name for it
        self, request_iterator: AsyncIterator[files_pb2.StoreUp], context: _StoreContext
    ) -> files_pb2.StoreReply:
        """Takes a file into the spool; it is there when this answers."""
        try:
            return await self._store(request_iterator, _who(context))
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
            reason = f"{shown(start.name)} has {start.size_bytes} bytes; allowed are {bytes_max}"
            raise RefusalError(grpc.StatusCode.OUT_OF_RANGE, reason)
        if start.size_bytes > _LARGE_BYTES:
            self._require_room(start)
        self._require_left(start.size_bytes)
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
            # The reason says it all, and the agent tries again.
            log.error("store.failed", claim=start.claim, name=start.name, reason=reason)  # noqa: TRY400
            raise RefusalError(grpc.StatusCode.UNAVAILABLE, reason) from error
        finally:
            self._stores[who] -= 1
            self._stores += Counter()  # forgets who stores nothing
            part.unlink(missing_ok=True)
        return files_pb2.StoreReply(size_bytes=start.size_bytes)

    def _require_room(self, start: files_pb2.StoreStart) -> None:
        """Raises RefusalError, for good: what a program has made of holes may be of any size."""
        room_bytes = self._spool.free_bytes() - self._settings.free_bytes_min
        if start.size_bytes > room_bytes:
            room = f"the spool has room for {max(0, room_bytes)}"
            reason = f"{shown(start.name)} has {start.size_bytes} bytes; {room}"
            raise RefusalError(grpc.StatusCode.OUT_OF_RANGE, reason)

    def _require_left(self, size_bytes: int) -> None:
        """Raises RefusalError, after which another try is worth it."""
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
        """Writes what comes to `part`, and makes it durable. Raises RefusalError, SpecError."""
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
                    self._require_left(len(message.data))  # others store meanwhile
                    await in_thread(_append, descriptor, digest, message.data)
                    await self._hold_back(len(message.data))
                    limit.reschedule(_now() + self._settings.stalled_s)
            # The stream of a client that was killed ends like any other, so the end proves nothing.
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

    async def _hold_back(self, size_bytes: int) -> None:
        if self._bucket is not None:
            await asyncio.sleep(self._bucket.take(size_bytes, _now()))


async def serve(settings: RelaySettings, on_listening: Callable[[int], None]) -> None:
    """Runs the relay until cancelled; tells its port once it answers. Raises ConfigError."""
    spool = Spool(Path(settings.spool))
    await in_thread(spool.sweep)
    relay, guard = RelayServer(settings, spool), FloodGuard(is_open=True)
    server = aio.server(
        options=SERVER_OPTIONS + strangers.options(ports=1), interceptors=(Readable(guard),)
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
    guard.watch(port)
    await server.start()
    try:
        on_listening(port)
        await guard.run()
    finally:
        await server.stop(None)


class RelayProcess:
    """The relay as a child of the daemon, started again when it dies, on the same port.

    Copies that it was passing on are cut and go on when it is back.
    """

    def __init__(self, settings: RelaySettings, on_started: Callable[[int], None]) -> None:
        self.process: asyncio.subprocess.Process | None = None
        self._settings = settings
        self._on_started = on_started
        self._status = 0

    async def run(self) -> None:
        """Until cancelled. Raises UnreachableError when the relay ends by itself at its first
        start: a port that is taken, a folder that cannot be used. One that is killed, or takes too
        long, is started again."""
        has_started = False
        pause_s = _RESTART_S
        while True:
            try:
                async with self._child() as (process, port):
                    host = self._settings.listen.rpartition(":")[0]
                    self._settings = replace(self._settings, listen=f"{host}:{port}")
                    self._on_started(port)
                    has_started = True
                    pause_s = _RESTART_S
                    status = await process.wait()
                    log.error("relay.ended", status=status)
            except UnreachableError as error:
                if not has_started and self._status > 0:
                    raise
                log.warning("relay.not_started", error=str(error))
            await asyncio.sleep(pause_s)
            pause_s = min(_RESTART_S_MAX, 2 * pause_s)

    @asynccontextmanager
    async def _child(self) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
        """A living relay and its port; it is gone when the block is left."""
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "koala.daemon.files.relay"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,  # Ctrl-C at the daemon must not end it first
            )
        except OSError as error:  # no process, descriptor or memory for it: that may pass
            reason = f"no process can be started for the relay: {error.strerror}"
            raise UnreachableError(reason) from error
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        try:
            process.stdin.write(json.dumps(asdict(self._settings)).encode() + b"\n")
            yield process, await _port(process.stdout)
        finally:
            self.process = None
            process.stdin.close()
            # It ends by that. Killed before it is reaped, its own status would be lost; but whoever
            # is cancelled once more does not wait, and leaves none behind either.
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_END_S):
                        await process.wait()
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                self._status = await process.wait()


async def _port(stdout: asyncio.StreamReader) -> int:
    try:
        async with asyncio.timeout(_START_S):
            said = json.loads(await stdout.readline())
        if reason := said.get("error"):
            raise UnreachableError(f"the relay did not start: {reason}")
        return int(said["port"])
    except (TimeoutError, ValueError, KeyError, TypeError, ConnectionError) as error:
        message = "the relay did not start; what it wrote to standard error says why"
        raise UnreachableError(message) from error


async def _main() -> None:
    """Reads the settings, serves, and ends when standard input closes: the daemon is gone then."""
    loop = asyncio.get_running_loop()
    stdin = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    line = await stdin.readline()
    if not line.endswith(b"\n"):
        return  # the daemon was killed before it had said all
    settings = msgspec.json.decode(line, type=RelaySettings)
    try:
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(serve(settings, lambda port: _print(port=port)))
            await stdin.read()
            serving.cancel()
    except* ConfigError as group_of_one:
        _print(error=str(first_error(group_of_one)))
        sys.exit(1)


def _print(**said: int | str) -> None:
    with suppress(BrokenPipeError):  # the daemon was killed meanwhile: standard input says so, too
        os.write(sys.stdout.fileno(), json.dumps(said).encode() + b"\n")


def _append(descriptor: Descriptor, digest: Digest, content: bytes) -> None:
    descriptor.write(content, digest.size_bytes)
    digest.update(content)


def _who(context: _ReadContext | _StoreContext) -> str:
    """The site that has proved to be at the other end; empty in plain text."""
    uris = context.auth_context().get("peer_uri", ())
    return b" ".join(uris).decode("utf-8", "replace")


def _check_share(who: str, own: int, most: int, what: str) -> None:
    """Raises RefusalError for a site that has its part already."""
    if who and own >= max(1, most // _PART_OF_SITE):
        raise _busy(f"{own} others of the same site are {what}")


def _busy(reason: str) -> RefusalError:
    return RefusalError(grpc.StatusCode.RESOURCE_EXHAUSTED, reason)


def _now() -> float:
    return asyncio.get_running_loop().time()


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(to_the_end(_main()))
