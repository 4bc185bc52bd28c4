"""Upload the output files and logs of a claim to the relay's spool.

An output that is missing, not a regular file, or reached through a symbolic link is an error that
names it; the others are still sent. Of a log only the last `log_bytes_max` bytes are sent, below a
line that says how many are left out. Everything is streamed. The checksum goes first, so that the
relay keeps only complete files.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import grpc
from grpc import aio

from koala.common.files.bandwidth_limits import CHUNK_BYTES
from koala.common.files.channels import Channels
from koala.common.files.confined_folder import Descriptor, UnusableFileError, is_passing, kept_in
from koala.common.files.incoming import Summing
from koala.common.files.names import check_name, shown
from koala.common.files.orders import Uploaded, UploadOrder
from koala.common.runtime import clock
from koala.common.runtime.structured_log import get_logger
from koala.common.runtime.threads import in_steps, in_thread
from koala.common.wire.v1 import files_pb2, files_pb2_grpc
from koala.errors import ConfigError, SpecError

log = get_logger(__name__)

LOG_BYTES_MAX = 10 * 1024 * 1024
OUTPUT_BYTES_MAX = 2**40
"""The relay accepts no more, and reading a huge sparse file would never end."""
_FINAL = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNIMPLEMENTED,
)
"""Statuses of the relay that a retry would not change."""
_StoreCall: TypeAlias = "aio.StreamUnaryCall[files_pb2.StoreUp, files_pb2.StoreReply]"
_PAUSE_S = 0.25
_PAUSE_S_MAX = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadLimits:
    """Limits of an upload: `stalled_s` without progress of a file, `log_bytes_max` of each log, and
    `output_bytes_max` of an output.

    A try goes on as long as bytes move. Retries go on until `stalled_s` after a try came further
    than all before it, so that a link which keeps breaking ends the upload at some time.
    """

    stalled_s: float = 600.0
    log_bytes_max: int = LOG_BYTES_MAX
    output_bytes_max: int = OUTPUT_BYTES_MAX


async def upload(
    order: UploadOrder,
    channels: Channels,
    limits: UploadLimits,
    *,
    relay: Callable[[], str] = str,
) -> tuple[Uploaded, ...]:
    """Send one file after the other; each result says if the relay has it.

    `relay` returns the relay's present address, empty when that of the order holds: each life of a
    daemon has a relay of its own.
    """
    wanted = [(name, path, False) for name, path in order.outputs.items()]
    wanted += [(name, path, True) for name, path in order.logs.items()]
    results = []
    for name, path, is_log in wanted:
        sender = _Sender(
            order=order, name=name, is_log=is_log, limits=limits, channels=channels, relay=relay
        )
        results.append(await sender.send(partial(_open, order, name, path)))
    for result in results:
        if result.error:
            log.warning("output.failed", claim=order.claim, reason=result.error)
    return tuple(results)


class _Payload:
    """Bytes to send of one file: the end of an open file, below a note on the omitted part."""

    def __init__(self, descriptor: Descriptor, *, bytes_max: int | None) -> None:
        self._descriptor = descriptor
        self._file_bytes = descriptor.stamp().size_bytes
        self._start = max(0, self._file_bytes - bytes_max) if bytes_max is not None else 0
        note = f"[koala: the first {self._start} bytes are left out]\n" if self._start else ""
        self._note = note.encode()
        self.size_bytes = len(self._note) + self._file_bytes - self._start
        self.checksum = ""

    async def compute(self) -> None:
        """Compute the checksum of the payload."""
        size_bytes = self._file_bytes - self._start
        summing = Summing(
            self._descriptor, offset=self._start, size_bytes=size_bytes, head=self._note
        )
        await in_steps(summing.step)
        self.checksum = summing.digest.value()

    async def blocks(self) -> AsyncGenerator[bytes, None]:
        """Yield the bytes in blocks of one message each."""
        if self._note:
            yield self._note
        offset = self._start
        while block := await in_thread(self._read, offset, CHUNK_BYTES):
            yield block
            offset += len(block)

    def _read(self, offset: int, size_bytes: int) -> bytes:
        # A log may grow while it is read; what comes later is not part of this payload.
        return self._descriptor.read(min(size_bytes, self._file_bytes - offset), offset)


class _Progress:
    """Progress over all tries of one file, and the time of the last gain."""

    def __init__(self) -> None:
        self._at = clock.now()
        self._furthest_bytes = 0

    def note(self, sent_bytes: int) -> None:
        """Record the bytes sent in this try."""
        if sent_bytes > self._furthest_bytes:
            self._furthest_bytes = sent_bytes
            self._at = clock.now()

    def excuse(self, seconds: float) -> None:
        """Leave out a span that was not the link's fault."""
        self._at += seconds

    def is_over(self, stalled_s: float, *, after_s: float) -> bool:
        """True when the stall limit will be exceeded `after_s` from now."""
        return clock.now() + after_s >= self._at + stalled_s


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sender:
    """Upload of one file, retried until the relay has it or the stall limit is exceeded."""

    order: UploadOrder
    name: str
    is_log: bool
    limits: UploadLimits
    channels: Channels
    relay: Callable[[], str]
    progress: _Progress = field(default_factory=_Progress)

    async def send(self, open_it: Callable[[], Descriptor]) -> Uploaded:
        """Open and send the file, with retries and back-off."""
        pause_s = _PAUSE_S
        while True:
            try:
                return await self._try(open_it)
            except SpecError as error:
                return self._failed(str(error))
            except TimeoutError:
                reason = f"nothing went forward for {self.limits.stalled_s:g} s"
                return self._failed(f"file {shown(self.name)} to {self._address()}: {reason}")
            except (UnusableFileError, ConfigError, OSError) as error:
                # An error of the disk or of our identity is not the user's.
                is_ours = isinstance(error, ConfigError) or is_passing(error)
                reason = self._words(error)
                if not is_ours or self._is_over(pause_s):
                    return self._failed(reason)
                log.warning("output.retried", claim=self.order.claim, reason=reason)
            except aio.AioRpcError as error:
                reason = f"{error.code().name}: {error.details()}"
                if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
                    self.progress.excuse(pause_s)  # the relay is up, and busy with other files
                elif error.code() in _FINAL or self._is_over(pause_s):
                    return self._failed(f"file {shown(self.name)} to {self._address()}: {reason}")
                log.info("output.retried", claim=self.order.claim, name=self.name, reason=reason)
            await asyncio.sleep(pause_s)
            pause_s = min(_PAUSE_S_MAX, 2 * pause_s)

    def _words(self, error: Exception) -> str:
        if isinstance(error, OSError):
            return f"file {shown(self.name)}: {error.strerror or error}"
        return str(error)

    def _is_over(self, pause_s: float) -> bool:
        return self.progress.is_over(self.limits.stalled_s, after_s=pause_s)

    async def _try(self, open_it: Callable[[], Descriptor]) -> Uploaded:
        descriptor = await in_thread(open_it)
        try:
            bytes_max = self.limits.log_bytes_max if self.is_log else None
            payload = _Payload(descriptor, bytes_max=bytes_max)
            self._check_size(payload)
            began_at = clock.now()
            await payload.compute()
            self.progress.excuse(clock.now() - began_at)
            async with self.channels.use(self._address()) as channel:
                stub = files_pb2_grpc.RelayStub(channel)
                stored_bytes = await self._call(stub, payload)
            return Uploaded(name=self.name, is_log=self.is_log, size_bytes=stored_bytes)
        finally:
            descriptor.close()

    def _check_size(self, payload: _Payload) -> None:
        """Raise UnusableFileError for an output above the limit."""
        size_bytes, most = payload.size_bytes, self.limits.output_bytes_max
        if size_bytes > most and not self.is_log:
            reason = f"has {size_bytes} bytes (expected at most {most})"
            raise UnusableFileError(f"file {shown(self.name)} {reason}")

    def _address(self) -> str:
        return self.relay() or self.order.relay

    async def _call(self, stub: files_pb2_grpc.RelayAsyncStub, payload: _Payload) -> int:
        """Store the payload. Raises TimeoutError when the relay stops reading or responding."""
        start = files_pb2.StoreStart(
            claim=self.order.claim,
            token=self.order.token,
            label=self.order.label,
            name=self.name,
            is_log=self.is_log,
            size_bytes=payload.size_bytes,
            checksum=payload.checksum,
        )
        call = stub.Store()
        try:
            async with asyncio.timeout(self.limits.stalled_s) as limit:
                try:
                    await call.write(files_pb2.StoreUp(start=start))
                    async with aclosing(payload.blocks()) as blocks:
                        await self._write(call, blocks, limit)
                    await call.done_writing()
                except asyncio.InvalidStateError:
                    log.debug("output.cut", name=self.name)  # the answer below says why
                return (await call).size_bytes
        finally:
            call.cancel()

    async def _write(
        self, call: _StoreCall, blocks: AsyncGenerator[bytes, None], limit: asyncio.Timeout
    ) -> None:
        """Write all blocks; each one that the relay accepts extends the time limit."""
        sent_bytes = 0
        async for block in blocks:
            await call.write(files_pb2.StoreUp(data=block))
            sent_bytes += len(block)
            self.progress.note(sent_bytes)
            limit.reschedule(asyncio.get_running_loop().time() + self.limits.stalled_s)

    def _failed(self, error: str) -> Uploaded:
        return Uploaded(name=self.name, is_log=self.is_log, error=error)


def _open(order: UploadOrder, name: str, path: str) -> Descriptor:
    check_name(name)
    folder, below = kept_in(order.folder, path, may_leave=order.may_leave)
    return folder.open(below)
