"""All file work of an agent in one component, `Files`.

Orders are plain values and may be repeated; reports go out through `on_report`. `inventory` returns
everything that was reported, for the start of a session. All calls belong to the event loop that
runs `run`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from grpc import aio

from koala.common.files.bandwidth_limits import BandwidthLimits, LinkLimits
from koala.common.files.channels import SERVER_OPTIONS, Channels
from koala.common.files.incoming import Incoming
from koala.common.files.orders import Report, Uploaded, UploadOrder
from koala.common.files.replica_store import FileStore
from koala.common.files.retries import RetryLimits
from koala.common.files.server import FileServer, Offer, ServeContext
from koala.common.files.transfer import LIMITS
from koala.common.files.transfer_driver import Fetch, FetchContext
from koala.common.files.uploads import UploadLimits, upload
from koala.common.identity.tls import IdentityFile, server_credentials
from koala.common.protocol.messages import (
    FetchOrder,
    FileFound,
    FileRemoved,
    ServeOrder,
    TransferFailed,
)
from koala.common.protocol.names import is_upload
from koala.common.runtime import clock
from koala.common.runtime.structured_log import get_logger
from koala.common.runtime.threads import in_thread
from koala.common.wire import connection_limits as strangers
from koala.common.wire.grpc_shutdown import start_uninterrupted
from koala.common.wire.interceptors import Readable
from koala.common.wire.listen_ports import cannot_listen, check_free
from koala.common.wire.v1 import files_pb2_grpc
from koala.errors import ConfigError, LocalManagerError, SpecError

log = get_logger(__name__)

ARRIVE_S = 5.0
"""Longest wait of a claim's submission for its staged files; it is tried again."""
KEPT_S = 3600.0
"""Time for which staged files are kept after their last claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSettings:
    """Settings of `Files`: folders, port, limits.

    `store` holds the replicas, `state` what must survive a restart; both are made when missing.
    `serve` (host:port, port 0: any) opens a port for other agents; with None files are served
    through the relay. With `identity` all traffic is TLS, between holders of certificates of one
    authority. `fetches_max` and `readers_max` bound copies in and out, `uploads_max` the claims
    whose outputs are sent at the same time. The store is scanned every `scan_s`. A served file is
    forgotten `serve_idle_s` after its last reader, `serve_after_s` after it was read to its end.
    Copies use no more disk space than `room_bytes` returns, and files that users add to the store
    no more than `added_bytes_max` in all (None: no limit). They may name files of this machine if
    it `may_take_local`.
    """

    site: str
    store: Path
    state: Path
    serve: str | None = None
    identity: IdentityFile | None = None
    rates: BandwidthLimits = field(default_factory=BandwidthLimits)
    fetches_max: int = 4
    readers_max: int = 8
    uploads_max: int = 4
    scan_s: float = 30.0
    serve_idle_s: float = 7200.0
    serve_after_s: float = 300.0
    transfers: RetryLimits = LIMITS
    uploads: UploadLimits = field(default_factory=UploadLimits)
    room_bytes: Callable[[], float] = lambda: math.inf
    added_bytes_max: int | None = None
    may_take_local: bool = False


class Files:
    """Files of one site: replicas, copies in and out, uploads of outputs.

    `relay` returns the address of the daemon's relay, empty when unknown: outputs go there, and it
    decides whose fault an unreachable address is.
    """

    def __init__(
        self,
        settings: FilesSettings,
        on_report: Callable[[Report], None],
        *,
        relay: Callable[[], str] = str,
    ) -> None:
        self.port: int | None = None
        self._relay = relay
        self._is_ready = asyncio.Event()
        self._is_listed = asyncio.Event()
        self._settings = settings
        self._on_report = on_report
        self._store = FileStore(settings.store, settings.state / "checksums.json")
        self._incoming = Incoming(settings.state / "incoming")
        self._channels = Channels(settings.identity)
        self._fetches: dict[str, Fetch] = {}
        self._leaving: dict[str, asyncio.Event] = {}
        self._offers: dict[str, asyncio.Task[None]] = {}
        self._held: dict[str, FileFound] = {}
        self._begun: asyncio.Queue[Callable[[], Coroutine[Any, Any, None]]] = asyncio.Queue()
        self._kept_until: dict[str, float] = {}
        self._scan_wanted = asyncio.Event()
        self._uploads = asyncio.Semaphore(settings.uploads_max)
        self._serving = ServeContext(
            site=settings.site,
            store=self._store,
            links=LinkLimits(settings.rates),
            channels=self._channels,
            readers_max=settings.readers_max,
            stalled_s=2 * settings.transfers.stalled_s,
            idle_s=settings.serve_idle_s,
            after_s=settings.serve_after_s,
        )
        self._fetching = FetchContext(
            site=settings.site,
            incoming=self._incoming,
            channels=self._channels,
            links=LinkLimits(settings.rates),
            limits=settings.transfers,
            places=asyncio.Semaphore(settings.fetches_max),
            send_report=on_report,
            relay=self._relay,
            room_bytes=settings.room_bytes,
        )

    async def run(self) -> None:
        """Serve until cancelled. The agent's next life resumes copies that are then under way."""
        server = self._server()
        try:
            async with asyncio.TaskGroup() as group:
                if server is not None:
                    await start_uninterrupted(server)
                group.create_task(self._start_begun(group))
                group.create_task(self._forget_served())
                self._is_ready.set()
                await self._watch_store()
        finally:
            if server is not None:
                await server.stop(None)

    async def ready(self) -> None:
        """Wait until the port is open and earlier copies go on."""
        await self._is_ready.wait()

    async def listed(self) -> None:
        """Wait until the store was scanned for the first time."""
        await self._is_listed.wait()

    def fetch(self, order: FetchOrder) -> None:
        """Copy a part of a file to this site. A repeated order changes nothing, or only the source;
        when the copy is over its end is reported again."""
        known = self._fetches.get(order.transfer)
        self._kept_until.pop(order.transfer, None)
        if known is not None:
            known.order_again(order)
            if order.keep_as and known.is_finished and order.keep_as in self._held:
                self._on_report(self._held[order.keep_as])
            return
        if reason := self._objection(order):
            failed = TransferFailed(transfer=order.transfer, reason=reason, at=self._settings.site)
            self._on_report(failed)
            return
        if order.path:
            self._begun.put_nowait(partial(self._take, order))
            return
        fetch = self._fetches[order.transfer] = Fetch(order, self._fetching)
        self._begun.put_nowait(partial(self._run, order.transfer, fetch))

    def remove_replica(self, name: str) -> None:
        """Delete a file that a user has added to the store; its removal is reported."""
        self._begun.put_nowait(partial(self._remove_replica, name))

    def serve(self, order: ServeOrder) -> None:
        """Serve a part of a file to holders of the token, until cancelled."""
        is_known = self._serving.orders.get(order.transfer) == order
        if not is_known:
            self._withdraw(order.transfer)
        self._serving.add(order)
        if not is_known and order.relay:
            self._begun.put_nowait(partial(self._offer, order))

    def cancel(self, transfer: str) -> None:
        """End a transfer, at either end; the local part of a copy is deleted."""
        self._withdraw(transfer)
        self.remove(transfer)

    def release(self, transfer: str) -> None:
        """Delete the file of a copy that has no reader any more. Staged files are kept for a while:
        the job, or a job like it, may come again."""
        if is_upload(transfer):
            self._kept_until[transfer] = clock.now() + KEPT_S
        else:
            self.remove(transfer)

    def remove(self, transfer: str) -> None:
        """Forget a copy and delete its file."""
        self._kept_until.pop(transfer, None)
        fetch = self._fetches.pop(transfer, None)
        if fetch is not None:
            before = self._leaving.get(transfer)
            gone = self._leaving[transfer] = asyncio.Event()
            self._begun.put_nowait(partial(self._end, transfer, fetch, before, gone))
        elif transfer not in self._leaving:
            self._incoming.remove(transfer)

    def retain(self, transfers: Collection[str]) -> None:
        """End and delete all transfers but these, also what an earlier life left behind."""
        kept = frozenset(transfers) | frozenset(self._kept_until)
        for transfer in sorted({*self._fetches, *self._serving.orders} - kept):
            self.cancel(transfer)
        self._incoming.retain(kept)

    def path(self, transfer: str) -> Path | None:
        """Return the finished copy; None as long as it is not complete and checked."""
        fetch = self._fetches.get(transfer)
        return self._incoming.path(transfer) if fetch is not None and fetch.is_finished else None

    async def arrived(self, transfer: str) -> Path:
        """Wait for a copy that was ordered, and return its path. Raises LocalManagerError when it
        failed, or is not here within `ARRIVE_S`: trying again may help."""
        fetch = self._fetches.get(transfer)
        if fetch is None:
            raise LocalManagerError("its staged files were not ordered", transient=True)
        try:
            async with asyncio.timeout(ARRIVE_S):
                await fetch.over.wait()
        except TimeoutError:
            reason = f"its staged files ({fetch.order.size_bytes} bytes) are still on their way"
            raise LocalManagerError(reason, transient=True) from None
        if not fetch.is_finished:
            reason = getattr(fetch.report, "reason", "the copy was cancelled")
            self.cancel(transfer)  # the next order begins again
            raise LocalManagerError(f"its staged files: {reason}")
        return self._incoming.path(transfer)

    def local_path(self, name: str) -> Path:
        """Return the site's own replica. Raises SpecError, UnusableFileError."""
        return self._store.find(name)

    def inventory(self) -> tuple[Report, ...]:
        """Return everything that was reported and still holds: files held, copies finished or
        failed."""
        ends = (fetch.report for fetch in self._fetches.values())
        return (*self._held.values(), *(report for report in ends if report is not None))

    def rescan(self) -> None:
        """Look through the store soon, not only at the next interval."""
        self._scan_wanted.set()

    async def upload(self, order: UploadOrder) -> tuple[Uploaded, ...]:
        """Send a claim's outputs and logs to the relay; report the result for each."""
        async with self._uploads:
            return await upload(order, self._channels, self._settings.uploads, relay=self._relay)

    def _objection(self, order: FetchOrder) -> str:
        """Return why the store does not take a file; empty when it does."""
        if order.path and not self._settings.may_take_local:
            return (
                f"users of {self._settings.site} may not read what its agent may: its administrator"
                " puts files into its store"
            )
        most = self._settings.added_bytes_max
        if not order.keep_as or most is None:
            return ""
        added = sum(f.size_bytes for name, f in self._held.items() if name.startswith("~"))
        if added + order.size_bytes <= most:
            return ""
        return (
            f"{self._settings.site} has {added} bytes of added files, and this one has"
            f" {order.size_bytes} (expected at most {most}: files.added_mb of its agent)"
        )

    # Inside -------------------------------------------------------------------------------------

    def _server(self) -> aio.Server | None:
        address = self._settings.serve
        if address is None:
            return None
        kept = self._kept_address(address)
        try:
            check_free("files.serve", kept)
            server = aio.server(
                options=SERVER_OPTIONS + strangers.options(ports=1),
                interceptors=(Readable(),),
            )
            files_pb2_grpc.add_FilesServicer_to_server(FileServer(self._serving), server)
            self.port = self._listen(server, kept)
        except (RuntimeError, ConfigError) as error:
            if kept == address:
                raise cannot_listen("files.serve", address) from error
            log.warning("files.port_taken", site=self._settings.site, address=kept)
            self._port_file.unlink(missing_ok=True)
            return self._server()
        self._port_file.write_text(f"{self.port}\n", encoding="ascii")
        return server

    def _listen(self, server: aio.Server, address: str) -> int:
        """Open the port on the server. Raises RuntimeError."""
        identity = self._settings.identity
        if identity is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, server_credentials(identity.read, is_mutual=True))

    @property
    def _port_file(self) -> Path:
        return self._settings.state / "port"

    def _kept_address(self, address: str) -> str:
        """Reuse the port of the previous agent if any port will do: copies that are under way know
        no other, and their targets do not receive a new address."""
        host, _, port = address.rpartition(":")
        try:
            kept = self._port_file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            return address
        return f"{host}:{kept}" if port == "0" and kept.isdigit() else address

    async def _run(self, transfer: str, fetch: Fetch) -> None:
        """Run a copy; one that was cancelled and ordered again waits until the old one is gone."""
        while (gone := self._leaving.get(transfer)) is not None:
            await gone.wait()
        if self._fetches.get(transfer) is fetch:
            await fetch.run()
            if fetch.is_finished and fetch.order.keep_as:
                await self._adopt(transfer, fetch.order)

    async def _adopt(self, transfer: str, order: FetchOrder) -> None:
        """Take a finished copy into the store, and report the file."""
        held = self._held.get(order.keep_as)
        if held is None or held.checksum != order.checksum:
            try:
                path = self._incoming.path(transfer)
                await in_thread(self._store.adopt, path, order.keep_as)
            except (OSError, SpecError) as error:
                reason = f"the store of {self._settings.site}: {error}"
                log.warning("file.not_added", file=order.keep_as, reason=reason)
                failed = TransferFailed(transfer=transfer, reason=reason, at=self._settings.site)
                self._on_report(failed)
                return
            log.info("file.added", file=order.keep_as, size_bytes=order.size_bytes)
            self.rescan()
        else:
            self._on_report(held)

    async def _take(self, order: FetchOrder) -> None:
        """Take a file of this machine into the store, and report it."""
        try:
            await in_thread(self._store.take, Path(order.path), order.keep_as)
        except (OSError, SpecError) as error:
            reason = f"{error.strerror}: {order.path}" if isinstance(error, OSError) else str(error)
            self._on_report(
                TransferFailed(transfer=order.transfer, reason=reason, at=self._settings.site)
            )
            return
        log.info("file.added_from_site", file=order.keep_as, path=order.path)
        self.rescan()

    async def _remove_replica(self, name: str) -> None:
        try:
            await in_thread(self._store.remove, name)
        except (OSError, SpecError) as error:
            log.warning("file.not_removed", file=name, reason=str(error))
            return
        log.info("file.removed", file=name)
        if name in self._held:
            self.rescan()
        else:
            self._on_report(FileRemoved(file=name))

    async def _end(
        self, transfer: str, fetch: Fetch, before: asyncio.Event | None, gone: asyncio.Event
    ) -> None:
        try:
            await fetch.cancel()
            if before is not None:
                await before.wait()
        finally:
            gone.set()
            if self._leaving.get(transfer) is gone:
                del self._leaving[transfer]

    async def _start_begun(self, group: asyncio.TaskGroup) -> None:
        """Start what was begun before this, and from now on."""
        while True:
            begin = await self._begun.get()
            group.create_task(begin())

    async def _offer(self, order: ServeOrder) -> None:
        """Offer a file to the relay, unless the order was withdrawn meanwhile."""
        task = asyncio.current_task()
        if task is not None and self._serving.orders.get(order.transfer) == order:
            self._offers[order.transfer] = task
            await Offer(order, self._serving, self._fail_offer).run()

    def _fail_offer(self, report: TransferFailed) -> None:
        """Drop a failed order, so that a repeated one is tried again."""
        self._serving.drop(report.transfer)
        self._on_report(report)

    def _withdraw(self, transfer: str) -> None:
        self._serving.drop(transfer)
        if (task := self._offers.pop(transfer, None)) is not None:
            task.cancel()

    async def _forget_served(self) -> None:
        while True:
            await asyncio.sleep(min(15.0, self._settings.serve_after_s / 4))
            for transfer in self._serving.expired():
                self._withdraw(transfer)
            for transfer, until in list(self._kept_until.items()):
                if until <= clock.now():
                    self.remove(transfer)

    async def _watch_store(self) -> None:
        while True:
            await self._scan()
            self._is_listed.set()
            try:
                async with asyncio.timeout(self._settings.scan_s):
                    await self._scan_wanted.wait()
            except TimeoutError:
                pass
            self._scan_wanted.clear()

    async def _scan(self) -> None:
        """Scan the store once and report new, changed and removed files."""
        try:
            listing = await in_thread(self._store.list)
            for name in sorted(self._held.keys() - listing.files.keys()):
                del self._held[name]
                self._on_report(FileRemoved(file=name))
            for name, stamp in listing.files.items():
                self._hold(self._store.found(name, stamp))
            for name in listing.unread:
                self._hold(await self._store.read(name))
            await in_thread(self._store.remember, listing)
        except OSError as error:
            log.warning("store.not_read", site=self._settings.site, reason=str(error))

    def _hold(self, file: FileFound | None) -> None:
        if file is not None and self._held.get(file.file) != file:
            self._held[file.file] = file
            self._on_report(file)
