"""Upload the output files and logs of a claim to the relay's spool.

An output that is missing, not a regular file, or reached through a symbolic link is an error that
names it; the others are still sent. Of a log only the last `log_bytes_max` bytes are sent, below a
line that says how many are left out. Everything is streamed, and goes on after a cut.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

import grpc
from grpc import aio

from koala.common.files.channels import Channels
from koala.common.files.confined_folder import Descriptor, UnusableFileError, is_passing, kept_in
from koala.common.files.exchange import CutError, frames, put
from koala.common.files.names import check_name, shown
from koala.common.files.orders import Uploaded, UploadOrder
from koala.common.files.parts import PartReader
from koala.common.files.retries import GivenUpError, Retries, RetryLimits
from koala.common.protocol.names import SpooledName
from koala.common.runtime.clock import now
from koala.common.runtime.structured_log import get_logger
from koala.common.runtime.threads import in_thread
from koala.common.wire.v1 import files_pb2, files_pb2_grpc
from koala.errors import ConfigError, SpecError

log = get_logger(__name__)

LOG_BYTES_MAX = 10 * 1024 * 1024
_FINAL = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNIMPLEMENTED,
)
"""Statuses of the relay that a retry would not change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadLimits:
    """Limits of an upload: `log_bytes_max` of each log, and `stalled_s` without progress of a file.

    A try goes on as long as bytes move. Retries go on until `stalled_s` after a try came further
    than all before it, so that a link which keeps breaking ends the upload at some time.
    """

    stalled_s: float = 600.0
    log_bytes_max: int = LOG_BYTES_MAX


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
        sender = _Sender(order, name, is_log=is_log, limits=limits, channels=channels, relay=relay)
        results.append(await sender.send(partial(_open, order, name, path)))
    for result in results:
        if result.error:
            log.warning("output.failed", claim=order.claim, reason=result.error)
    return tuple(results)


class _Sender:
    """Upload of one file, retried until the relay has it or the stall limit is exceeded."""

    def __init__(
        self,
        order: UploadOrder,
        name: str,
        *,
        is_log: bool,
        limits: UploadLimits,
        channels: Channels,
        relay: Callable[[], str],
    ) -> None:
        self._order = order
        self._name = name
        self._is_log = is_log
        self._limits = limits
        self._channels = channels
        self._relay = relay
        self._retries = Retries(RetryLimits(progress_s=limits.stalled_s), now())

    async def send(self, open_it: Callable[[], Descriptor]) -> Uploaded:
        """Open and send the file, with retries and back-off."""
        to_whom = f"file {shown(self._name)} to {self._address()}"
        try:
            while True:
                try:
                    size_bytes = await self._try(open_it)
                    return Uploaded(name=self._name, is_log=self._is_log, size_bytes=size_bytes)
                except TimeoutError:
                    return self._failed(
                        f"{to_whom}: nothing went forward for {self._limits.stalled_s:g} s"
                    )
                except (SpecError, UnusableFileError, ConfigError, OSError) as error:
                    # An error of the disk or of our identity is not the user's.
                    if not (isinstance(error, ConfigError) or is_passing(error)):
                        return self._failed(self._words(error))
                    pause_s = self._retries.pause_after_cut(self._words(error), now())
                except (aio.AioRpcError, CutError) as error:
                    pause_s = self._pause_after(error, to_whom)
                await asyncio.sleep(pause_s)
        except GivenUpError as given_up:
            return self._failed(str(given_up))

    def _pause_after(self, error: aio.AioRpcError | CutError, to_whom: str) -> float:
        """Return the pause after an error of the call. Raises GivenUpError."""
        if not isinstance(error, aio.AioRpcError):
            return self._retries.pause_after_cut(f"{to_whom}: {error}", now())
        reason = f"{to_whom}: {error.code().name}: {error.details()}"
        log.info("output.retried", claim=self._order.claim, reason=reason)
        if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
            return self._retries.pause_after_busy(reason, now())
        if error.code() in _FINAL:
            raise GivenUpError(reason)
        return self._retries.pause_after_cut(reason, now())

    def _words(self, error: Exception) -> str:
        if isinstance(error, OSError):
            return f"file {shown(self._name)}: {error.strerror or error}"
        return str(error)

    def _address(self) -> str:
        return self._relay() or self._order.relay

    async def _try(self, open_it: Callable[[], Descriptor]) -> int:
        """Make one call; return the size of what the relay has."""
        part = _payload(await in_thread(open_it), self._name, self._limits, is_log=self._is_log)
        name = SpooledName(claim=self._order.claim, is_log=self._is_log, name=self._name)
        start = files_pb2.PutStart(
            name=str(name),
            token=self._order.token,
            label=self._order.label,
            size_bytes=part.size_bytes,
        )
        try:
            async with self._channels.use(self._address()) as channel:
                call = files_pb2_grpc.RelayStub(channel).Put()
                try:
                    await put(
                        call,
                        start,
                        partial(self._frames, part),
                        stalled_s=self._limits.stalled_s,
                        note=lambda offset: self._retries.note_offset(offset, now()),
                    )
                finally:
                    call.cancel()
            return part.size_bytes
        finally:
            part.close()

    async def _frames(self, part: PartReader, offset: int) -> AsyncGenerator[files_pb2.Frame, None]:
        """Yield the frames. The time to read again what the relay has is not the link's fault; a
        file that changes meanwhile is read again. Raises CutError, OSError."""
        began_at = now()
        try:
            async with aclosing(frames(part, offset)) as sent:
                async for frame in sent:
                    self._retries.excuse(now() - began_at)
                    yield frame
                    began_at = now()
        except UnusableFileError as error:
            raise CutError(str(error)) from error

    def _failed(self, error: str) -> Uploaded:
        return Uploaded(name=self._name, is_log=self._is_log, error=error)


def _payload(
    descriptor: Descriptor, name: str, limits: UploadLimits, *, is_log: bool
) -> PartReader:
    """Return what is sent of a file. A log may grow while it is read; what comes later is not part
    of it."""
    size_bytes = descriptor.stamp().size_bytes
    skipped_bytes = max(0, size_bytes - limits.log_bytes_max) if is_log else 0
    note = f"[koala: the first {skipped_bytes} bytes are left out]\n" if skipped_bytes else ""
    return PartReader(
        descriptor,
        name,
        offset=skipped_bytes,
        size_bytes=size_bytes - skipped_bytes,
        head=note.encode(),
        may_grow=is_log,
    )


def _open(order: UploadOrder, name: str, path: str) -> Descriptor:
    check_name(name)
    folder, below = kept_in(order.folder, path, may_leave=order.may_leave)
    return folder.open(below)
