"""Sites with real file servers, a relay, and a bad network, for live tests of files."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from grpc import aio

from koala.common.files.channels import CHANNEL_OPTIONS
from koala.common.files.orders import Report
from koala.common.files.retries import RetryLimits
from koala.common.protocol.messages import (
    FetchOrder,
    FileFound,
    ServeOrder,
    TransferFailed,
    TransferFinished,
)
from koala.common.wire.v1 import files_pb2, files_pb2_grpc
from koala.daemon.files import relay
from koala.daemon.files.relay_settings import RelaySettings
from koala.daemon.files.transfer_tokens import Purpose, token
from koala_agent.files import Files, FilesSettings
from tests.harness.moments import moment

SOON_S = 0.01
"""Between two looks at what comes true soon."""
LIMIT_S = 60.0
SECRET = b"a secret of the tests"
QUICK = RetryLimits(tries_max=12, busy_s=3600.0, pause_s=0.02, pause_s_max=0.1, stalled_s=5.0)

_T = TypeVar("_T")


class Reports:
    """Collect a site's reports in order; wait for one of a kind."""

    def __init__(self) -> None:
        self.all: list[Report] = []
        self._changed = asyncio.Event()

    def __call__(self, report: Report) -> None:
        self.all.append(report)
        self._changed.set()

    async def wait(self, is_it: Callable[[Report], bool], *, after: int = 0) -> Report:
        """The first report of the kind, past the first `after` reports."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                for report in self.all[after:]:
                    if is_it(report):
                        return report
                self._changed.clear()
                await self._changed.wait()

    async def end_of(self, transfer: str) -> TransferFinished | TransferFailed:
        """Return how a transfer ended."""
        report = await self.wait(
            lambda r: isinstance(r, TransferFinished | TransferFailed) and r.transfer == transfer
        )
        assert isinstance(report, TransferFinished | TransferFailed)
        return report

    async def found(self, name: str) -> FileFound:
        """That a replica was found."""
        report = await self.wait(lambda r: isinstance(r, FileFound) and r.file == name)
        assert isinstance(report, FileFound)
        return report


class SiteOfFiles:
    """A site in this process: its folder, its `Files`, and what it reported."""

    def __init__(self, settings: FilesSettings) -> None:
        self.settings = settings
        self.reports = Reports()
        self.relay = ""
        self.files = Files(settings, self.reports, relay=lambda: self.relay)

    @property
    def address(self) -> str:
        """Return the address of its server."""
        return f"127.0.0.1:{self.files.port}"

    def put(self, name: str, content: bytes) -> Path:
        """A new replica."""
        path = self.settings.store / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def copied(self, transfer: str) -> bytes:
        """Read the copy of a finished transfer."""
        path = self.files.path(transfer)
        assert path is not None
        return path.read_bytes()

    def spooled(self) -> list[str]:
        """The names of what is there of incoming copies."""
        return sorted(p.name for p in (self.settings.state / "incoming").iterdir())


def a_site(folder: Path, name: str, *, serve: bool = True, **changes: object) -> FilesSettings:
    """Settings of a site in its own folders below `folder`."""
    settings = FilesSettings(
        site=name,
        store=folder / name / "store",
        state=folder / name / "state",
        serve="127.0.0.1:0" if serve else None,
        transfers=QUICK,
    )
    return replace(settings, **changes)  # type: ignore[arg-type]


@asynccontextmanager
async def running(settings: FilesSettings) -> AsyncIterator[SiteOfFiles]:
    """The site, alive for the length of the block."""
    site = SiteOfFiles(settings)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(site.files.run())
        await site.files.ready()
        try:
            yield site
        finally:
            task.cancel()


@asynccontextmanager
async def a_relay(spool: Path, **changes: object) -> AsyncIterator[str]:
    """A relay in this process; its address."""
    settings = RelaySettings(secret=SECRET.hex(), spool=str(spool))
    listening: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as group:
        settings = replace(settings, **changes)  # type: ignore[arg-type]
        task = group.create_task(relay.serve(settings, listening.set_result))
        try:
            yield f"127.0.0.1:{await listening}"
        finally:
            task.cancel()


async def until(event: asyncio.Event) -> None:
    """Waits for an event, but not for ever."""
    async with asyncio.timeout(LIMIT_S):
        await event.wait()


async def comes_true(condition: Callable[[], bool]) -> None:
    """Waits for what shows only on the disk, and so wakes nobody."""
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await moment(SOON_S)


async def finished(site: SiteOfFiles, transfer: str) -> TransferFinished:
    """The transfer's end, which must be a good one."""
    end = await site.reports.end_of(transfer)
    assert isinstance(end, TransferFinished), end
    return end


async def failed(site: SiteOfFiles, transfer: str) -> TransferFailed:
    """The transfer's end, which must be a bad one."""
    end = await site.reports.end_of(transfer)
    assert isinstance(end, TransferFailed), end
    return end


def orders(
    content: bytes, *, address: str, transfer: str = "j1/1/t1", file: str = "input.dat"
) -> tuple[ServeOrder, FetchOrder]:
    """Both halves of a copy of a whole file from the site delft to the site leiden."""
    serve = ServeOrder(
        transfer=transfer, file=file, target="leiden", token="t" * 64, size_bytes=len(content)
    )
    fetch = FetchOrder(
        transfer=transfer,
        file=file,
        source="delft",
        address=address,
        token="t" * 64,
        size_bytes=len(content),
        checksum=sha256(content),
    )
    return serve, fetch


def relayed(serve: ServeOrder, fetch: FetchOrder) -> tuple[ServeOrder, FetchOrder]:
    """The same copy through the relay at the fetch's address."""
    return (
        replace(serve, relay=fetch.address, token=token(SECRET, Purpose.PUT, serve.transfer)),
        replace(fetch, token=token(SECRET, Purpose.GET, fetch.transfer)),
    )


def sha256(content: bytes) -> str:
    """In hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def some_bytes(count: int, *, seed: int = 1) -> bytes:
    """Bytes without a pattern, the same for the same seed."""
    return hashlib.shake_256(seed.to_bytes(8, "big")).digest(count)


class Proxy:
    """A TCP proxy that cuts or freezes connections, or changes bytes on their way from the server.

    `cuts` and `freezes` hold after how many bytes from the server each of the first connections is
    cut, or goes silent, `up_cuts` and `up_freezes` after how many to it; later ones are left alone.
    `swap` replaces bytes by others of the same length, which the framing around them does not
    notice.
    """

    def __init__(
        self,
        target: str,
        *,
        cuts: tuple[int, ...] = (),
        up_cuts: tuple[int, ...] = (),
        freezes: tuple[int, ...] = (),
        up_freezes: tuple[int, ...] = (),
        swap: tuple[bytes, bytes] | None = None,
    ) -> None:
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self._cuts = list(cuts)
        self._up_cuts = list(up_cuts)
        self._freezes = list(freezes)
        self._up_freezes = list(up_freezes)
        self._swap = swap
        self._connections: list[asyncio.Task[None]] = []
        self.cut_connections = 0
        self.frozen_connections = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Its address."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            yield f"127.0.0.1:{port}"
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.append(connection)
        cut = self._cuts.pop(0) if self._cuts else None
        up_cut = self._up_cuts.pop(0) if self._up_cuts else None
        freeze = self._freezes.pop(0) if self._freezes else None
        up_freeze = self._up_freezes.pop(0) if self._up_freezes else None
        try:
            up_reader, up_writer = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.close()
            return
        try:
            async with asyncio.TaskGroup() as group:
                up = group.create_task(self._pass(reader, up_writer, up_cut, up_freeze))
                down = group.create_task(self._pass(up_reader, writer, cut, freeze))
                await asyncio.wait([up, down], return_when=asyncio.FIRST_COMPLETED)
                up.cancel()
                down.cancel()
        finally:
            for each in (writer, up_writer):
                each.close()
                with suppress(OSError):
                    await each.wait_closed()

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        cut: int | None,
        freeze: int | None,
    ) -> None:
        passed = 0
        with suppress(ConnectionError):
            while block := await reader.read(16 * 1024):
                if self._swap is not None:
                    block = block.replace(*self._swap)
                passed += len(block)
                if freeze is not None and passed >= freeze:
                    self.frozen_connections += 1
                    await asyncio.Event().wait()
                if cut is not None and passed >= cut:
                    self.cut_connections += 1
                    writer.transport.abort()
                    return
                writer.write(block)
                await writer.drain()


@asynccontextmanager
async def a_lazy_reader(fetch: FetchOrder) -> AsyncIterator[None]:
    """Somebody who asks for a file, takes its first message, and then nothing more."""
    async with aio.insecure_channel(fetch.address, options=CHANNEL_OPTIONS) as channel:
        request = files_pb2.GetRequest(name=fetch.transfer, token=fetch.token)
        call = files_pb2_grpc.FilesStub(channel).Get(request)
        await call.read()
        yield
        call.cancel()
