"""Several messages of the agents' link in one message of its stream (`more` in link.proto).

A message of a gRPC stream costs either end about a fifth of a millisecond, however short it is. So
a writer packs what waits for it at one moment, and lets a moment pass between two messages of the
stream (`Spacing`). An end that can read packed messages says so in the metadata of the call; to any
other each message goes alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from google.protobuf.message import DecodeError

from koala.common.wire.v1 import link_pb2 as pb

PACKS: tuple[tuple[str, str], ...] = (("koala-packs", "1"),)
"""Metadata of an end that reads packed messages."""
PACK_MAX = 100
"""Most messages in one."""
PACK_BYTES_MAX = 256 * 1024
"""Size from which on nothing more is packed, far below the limit of `common.protocol.limits`."""
SPACING_S = 0.001
"""Least time from one message of a stream to the next."""

Message = TypeVar("Message", pb.FromAgent, pb.ToAgent)


class Spacing:
    """The time between the messages of one stream. The first after a pause goes at once."""

    def __init__(self) -> None:
        self._next_at = 0.0

    async def wait(self) -> None:
        """Wait until another message may be written; what comes meanwhile is packed into it."""
        loop = asyncio.get_running_loop()
        left_s = self._next_at - loop.time()
        if left_s > 0:
            await asyncio.sleep(left_s)
        self._next_at = loop.time() + SPACING_S


def can_unpack(metadata: Iterable[Any] | None) -> bool:
    """Test the metadata of the other end of a stream for its reading packed messages."""
    return any(tuple(entry) in PACKS for entry in metadata or ())


def packed(messages: Iterable[Message]) -> Iterator[Message]:
    """Pack messages into as few as allowed, in order. The first of each pack is changed."""
    first: Message | None = None
    count = size_bytes = 0
    for message in messages:
        own_bytes = message.ByteSize()
        if first is not None and count < PACK_MAX and size_bytes + own_bytes <= PACK_BYTES_MAX:
            first.more.append(message)
            count += 1
            size_bytes += own_bytes
            continue
        if first is not None:
            yield first
        first, count, size_bytes = message, 1, own_bytes
    if first is not None:
        yield first


def unpacked(message: Message) -> Iterator[Message]:
    """Yield the messages of a pack, in order; a message that is none comes alone. A pack inside of
    a pack is ignored. Raises DecodeError, before the first, when there are more than PACK_MAX: to
    take a few megabytes of empty messages apart would block an event loop for seconds."""
    count = 1 + len(message.more)
    if count > PACK_MAX:
        raise DecodeError(f"a pack of {count} messages (expected at most {PACK_MAX})")
    more = tuple(message.more)
    if more:
        message.ClearField("more")
    yield message
    yield from more
