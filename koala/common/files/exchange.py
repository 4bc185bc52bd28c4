"""The one way of bytes: `Get` from an offset, and `Put` from the offset that the receiver has.

Both send the same frames, the checksum of the whole in the last one. So what a cut has left is not
sent again, whoever the two ends are: sites, the relay, or a client and the daemon.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

from koala.common.files.bandwidth_limits import CHUNK_BYTES
from koala.common.files.parts import PartReader, open_part
from koala.common.runtime.structured_log import get_logger
from koala.common.runtime.threads import in_steps, in_thread
from koala.common.wire.v1 import files_pb2 as pb
from koala.errors import SpecError

log = get_logger(__name__)


class RefusalError(Exception):
    """Status that ends a peer's call, raised where the call still holds resources.

    The status is sent after they are released. Sending it first could block: it queues behind
    messages that a stalled peer does not read, perhaps for as long as the connection lasts.
    """

    def __init__(self, code: grpc.StatusCode, reason: str) -> None:
        self.code = code
        self.reason = reason
        super().__init__(reason)


class CutError(Exception):
    """The other end stopped in the middle; the same call goes on where it stopped."""


class SpoiltError(Exception):
    """The bytes have another checksum than the sender's; they are deleted."""


@asynccontextmanager
async def answering(context: Any) -> AsyncIterator[None]:  # noqa: ANN401 - of any call
    """Send the status of a RefusalError; note a peer that is gone."""
    try:
        yield
    except RefusalError as refusal:
        await context.abort(refusal.code, refusal.reason)
    except aio.InternalError as error:  # how a write says that the peer is gone
        log.debug("peer.lost", reason=str(error))


# The sender ---------------------------------------------------------------------------------------


async def frames(
    part: PartReader,
    offset: int,
    *,
    pace: Callable[[int], Awaitable[None]] | None = None,
    frame_bytes: int = CHUNK_BYTES,
) -> AsyncGenerator[pb.Frame, None]:
    """Yield the frames of a part from `offset` on. Bytes before it are read for the checksum only.

    `pace` waits before so many bytes are sent. Raises RefusalError for an offset behind the end,
    UnusableFileError, OSError.
    """
    if offset > part.size_bytes:
        reason = f"offset {offset} (expected at most {part.size_bytes}, the part's size)"
        raise RefusalError(grpc.StatusCode.INVALID_ARGUMENT, reason)
    await in_steps(partial(part.skip, offset))
    is_last = False
    while not is_last:
        block = await in_thread(part.read, frame_bytes)
        if pace is not None:
            await pace(len(block))
        is_last = part.read_bytes == part.size_bytes
        checksum = await in_thread(part.checksum) if is_last else ""
        yield pb.Frame(data=block, checksum=checksum)


async def answer_get(
    context: Any,  # noqa: ANN401 - of any servicer
    sent: AsyncGenerator[pb.Frame, None],
    stalled_s: float,
) -> None:
    """Write frames to a reader; one that takes nothing for `stalled_s` is cut, and its place is
    free. Raises RefusalError, and what the frames raise."""
    try:
        async with aclosing(sent), asyncio.timeout(None) as limit:
            async for frame in sent:
                limit.reschedule(_now() + stalled_s)
                await context.write(frame)  # the limit cancels the call, on purpose
                limit.reschedule(None)
    except TimeoutError as error:
        reason = "the reader takes nothing"
        raise RefusalError(grpc.StatusCode.DEADLINE_EXCEEDED, reason) from error


async def put(
    call: Any,  # noqa: ANN401 - of the relay's or of the daemon's service
    start: pb.PutStart,
    frames_from: Callable[[int], AsyncGenerator[pb.Frame, None]],
    *,
    stalled_s: float | None = None,
    note: Callable[[int], object] = lambda _: None,
) -> None:
    """Send the frames that the receiver lacks; return when it has all, checked and durable.

    `note` gets the number of bytes that it has. Raises TimeoutError when it reads or answers
    nothing for `stalled_s`, CutError, AioRpcError, and what the frames raise.
    """
    async with asyncio.timeout(None) as limit:

        def await_peer() -> None:
            limit.reschedule(None if stalled_s is None else _now() + stalled_s)

        await_peer()
        with suppress(asyncio.InvalidStateError):  # the call has ended: its answer says why
            await call.write(pb.Frame(start=start))
            first = await call.read()
            if isinstance(first, pb.PutDown):
                there = first.offset
                note(there)
                if first.is_done:
                    return
                limit.reschedule(None)
                async with aclosing(frames_from(there)) as sent:
                    async for frame in sent:
                        await_peer()
                        await call.write(frame)
                        limit.reschedule(None)
                        there += len(frame.data)
                        note(there)
                await_peer()
                await call.done_writing()
        while isinstance(reply := await call.read(), pb.PutDown):
            if reply.is_done:
                return
            await_peer()
        raise CutError("the receiver ended before it had all")


# The receiver -------------------------------------------------------------------------------------


async def first_of(messages: AsyncIterator[pb.Frame], stalled_s: float) -> pb.PutStart:
    """Return the start of a Put. Raises SpecError, CutError."""
    first = await _next(messages, stalled_s)
    if first is None or not first.HasField("start"):
        raise SpecError("the first message of a Put has another kind (expected `start`)")
    return first.start


async def receive(
    messages: AsyncIterator[pb.Frame],
    path: Path,
    size_bytes: int,
    *,
    admit: Callable[[int], Awaitable[None]],
    stalled_s: float,
    checksum: str = "",
) -> AsyncGenerator[pb.PutDown, None]:
    """Receive the rest of a part; yield what the sender is told. When it ends the part is whole,
    durable, and has the sender's checksum, and `checksum` if that is known before.

    `admit` gets the size of each frame before it is written, and may wait or raise. After a
    CutError the part stays, for the next call; after any other error it is deleted: SpecError,
    SpoiltError, OSError, and what `admit` raises.
    """
    part, offset = await in_thread(open_part, path)
    try:
        if offset > size_bytes:  # bytes of another content
            part.truncate()
            offset = 0
        yield pb.PutDown(offset=offset)
        promised = ""
        async with asyncio.timeout(None) as limit:
            while not promised:
                limit.reschedule(_now() + stalled_s)
                message = await anext(messages, None)
                limit.reschedule(None)
                data, promised = _content(message, offset, size_bytes)
                if data:
                    await admit(len(data))
                    await in_thread(part.write, data, offset)
                    offset += len(data)
        await in_thread(part.sync)
        reader = PartReader(part, path.name, size_bytes=offset)
        while await in_thread(reader.skip, offset):
            yield pb.PutDown(offset=offset)  # the sender hears that we live
        is_right = promised == (checksum or promised) == reader.checksum()
        if offset < size_bytes or not is_right:
            raise SpoiltError(f"{offset} of {size_bytes} bytes came, or wrong ones")
    except CutError:
        raise
    except TimeoutError:
        raise CutError(f"nothing came for {stalled_s:g} s") from None
    except Exception:
        await in_thread(path.unlink, missing_ok=True)
        raise
    finally:
        part.close()


def _content(frame: pb.Frame | None, offset: int, size_bytes: int) -> tuple[bytes, str]:
    """Return data and checksum of the next frame. Raises CutError, SpecError."""
    if frame is None:
        raise CutError(f"only {offset} of {size_bytes} bytes came")
    data, checksum = frame.data, frame.checksum
    if not (data or checksum) or offset + len(data) > size_bytes:
        raise SpecError(f"{len(data)} bytes at {offset} (expected some, and {size_bytes} in all)")
    return data, checksum


async def _next(messages: AsyncIterator[pb.Frame], stalled_s: float) -> pb.Frame | None:
    """Return the next message; None at the end. Raises CutError when none comes."""
    try:
        async with asyncio.timeout(stalled_s):
            return await anext(messages, None)
    except TimeoutError:
        raise CutError(f"nothing came for {stalled_s:g} s") from None


def _now() -> float:
    return asyncio.get_running_loop().time()
