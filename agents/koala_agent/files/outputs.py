"""Output files and logs of a claim, on their way to the relay's spool.

An output that is missing, not a regular file, or reached through a symbolic link is an error that
names it; the others are sent all the same. Of a log only the last `log_bytes_max` bytes are sent,
below a line that says how many are left out. Everything is streamed; the checksum goes ahead, so
that the relay keeps only what came whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import grpc
import structlog
from grpc import aio

from koala.errors import SpecError
from koala.wire.v1 import files_pb2, files_pb2_grpc
from koala_agent import clock
from koala_agent.files.channels import Channels
from koala_agent.files.folders import Descriptor, Folder, UnusableFileError, open_beside
from koala_agent.files.incoming import Summing
from koala_agent.files.names import check_name, shown
from koala_agent.files.orders import Uploaded, UploadOrder
from koala_agent.files.rates import CHUNK_BYTES
from koala_agent.files.threads import in_steps, in_thread

log = structlog.get_logger(__name__)

LOG_BYTES_MAX = 10 * 1024 * 1024
_FINAL = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNIMPLEMENTED,
)
"""Answers of the relay that no other try changes."""
_PAUSE_S = 0.25
_PAUSE_S_MAX = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadLimits:
    """`time_s` for all tries of one file together; `log_bytes_max` of each log."""

    time_s: float = 600.0
    log_bytes_max: int = LOG_BYTES_MAX


async def upload(
    order: UploadOrder,
    channels: Channels,
    limits: UploadLimits,
    *,
    relay: Callable[[], str] = str,
) -> tuple[Uploaded, ...]:
    """Sends one file after the other; the result says of each whether the relay has it.

    `relay` answers where the relay is now, empty when it is where the order says: each life of a
    daemon has a relay of its own.
    """
    folder = Folder(order.folder)
    wanted: list[tuple[str, bool, Callable[[], Descriptor]]] = [
        (name, False, partial(folder.open, name)) for name in order.outputs
    ]
    wanted += [(name, True, partial(_open_log, name, path)) for name, path in order.logs.items()]
    results = []
    for name, is_log, open_it in wanted:
        sender = _Sender(
            order=order, name=name, is_log=is_log, limits=limits, channels=channels, relay=relay
        )
        results.append(await sender.send(open_it))
    for result in results:
        if result.error:
            log.warning("output.failed", claim=order.claim, error=result.error)
    return tuple(results)


class _Payload:
    """What is sent of one file: the last bytes of an open file, below a line about the others."""

    def __init__(self, descriptor: Descriptor, *, bytes_max: int | None) -> None:
        self._descriptor = descriptor
        self._file_bytes = descriptor.stamp().size_bytes
        self._start = max(0, self._file_bytes - bytes_max) if bytes_max is not None else 0
        note = f"[koala: the first {self._start} bytes are left out]\n" if self._start else ""
        self._note = note.encode()
        self.size_bytes = len(self._note) + self._file_bytes - self._start
        self.checksum = ""

    async def compute(self) -> None:
        """Reads all of it for the checksum."""
        size_bytes = self._file_bytes - self._start
        summing = Summing(
            self._descriptor, offset=self._start, size_bytes=size_bytes, head=self._note
        )
        await in_steps(summing.step)
        self.checksum = summing.digest.value()

    async def blocks(self) -> AsyncGenerator[bytes, None]:
        """The bytes in messages' size."""
        if self._note:
            yield self._note
        offset = self._start
        while block := await in_thread(self._read, offset, CHUNK_BYTES):
            yield block
            offset += len(block)

    def _read(self, offset: int, size_bytes: int) -> bytes:
        # A log may grow while it is read; what comes later is not part of this payload.
        return self._descriptor.read(min(size_bytes, self._file_bytes - offset), offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sender:
    """One file, tried until the relay has it or the time is over."""

    order: UploadOrder
    name: str
    is_log: bool
    limits: UploadLimits
    channels: Channels
    relay: Callable[[], str]

    async def send(self, open_it: Callable[[], Descriptor]) -> Uploaded:
        """Opens, sends, tries again."""
        until = clock.now() + self.limits.time_s
        pause_s = _PAUSE_S
        while True:
            try:
                return await self._try(open_it, until)
            except (SpecError, UnusableFileError) as error:
                return self._failed(str(error))
            except OSError as error:
                return self._failed(f"file {shown(self.name)}: {error.strerror or error}")
            except aio.AioRpcError as error:
                reason = f"{error.code().name}: {error.details()}"
                if error.code() in _FINAL or clock.now() + pause_s >= until:
                    return self._failed(f"file {shown(self.name)} to {self._address()}: {reason}")
                log.info("output.retried", claim=self.order.claim, name=self.name, reason=reason)
            await asyncio.sleep(pause_s)
            pause_s = min(_PAUSE_S_MAX, 2 * pause_s)

    async def _try(self, open_it: Callable[[], Descriptor], until: float) -> Uploaded:
        descriptor = await in_thread(open_it)
        try:
            bytes_max = self.limits.log_bytes_max if self.is_log else None
            payload = _Payload(descriptor, bytes_max=bytes_max)
            await payload.compute()
            async with self.channels.use(self._address()) as channel:
                stub = files_pb2_grpc.RelayStub(channel)
                stored_bytes = await self._call(stub, payload, until)
            return Uploaded(name=self.name, is_log=self.is_log, size_bytes=stored_bytes)
        finally:
            descriptor.close()

    def _address(self) -> str:
        return self.relay() or self.order.relay

    async def _call(
        self, stub: files_pb2_grpc.RelayAsyncStub, payload: _Payload, until: float
    ) -> int:
        start = files_pb2.StoreStart(
            claim=self.order.claim,
            token=self.order.token,
            label=self.order.label,
            name=self.name,
            is_log=self.is_log,
            size_bytes=payload.size_bytes,
            checksum=payload.checksum,
        )
        call = stub.Store(timeout=max(1.0, until - clock.now()))
        try:
            try:
                await call.write(files_pb2.StoreUp(start=start))
                async with aclosing(payload.blocks()) as blocks:
                    async for block in blocks:
                        await call.write(files_pb2.StoreUp(data=block))
                await call.done_writing()
            except asyncio.InvalidStateError:
                log.debug("output.cut", name=self.name)  # the answer below says why
            return (await call).size_bytes
        finally:
            call.cancel()

    def _failed(self, error: str) -> Uploaded:
        return Uploaded(name=self.name, is_log=self.is_log, error=error)


def _open_log(name: str, path: Path) -> Descriptor:
    check_name(name)
    return open_beside(path)
