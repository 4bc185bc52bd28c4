"""Several messages of the link in one message of its stream."""

from __future__ import annotations

import asyncio

import pytest
from google.protobuf.message import DecodeError

from koala.common.wire.packing import (
    PACK_BYTES_MAX,
    PACK_MAX,
    SPACING_S,
    Spacing,
    packed,
    unpacked,
)
from koala.common.wire.v1 import link_pb2 as pb


def pongs(count: int, nonce: str = "x") -> list[pb.ToAgent]:
    return [pb.ToAgent(pong=pb.Pong(claim=f"j{n}/1/0/1", nonce=nonce)) for n in range(count)]


def test_a_pack_stays_far_below_the_largest_message() -> None:
    sent = list(packed(pongs(10, nonce="x" * (PACK_BYTES_MAX // 4))))
    assert all(message.ByteSize() <= PACK_BYTES_MAX + 1_000 for message in sent)
    assert 1 < len(sent) < 10
    large = list(packed(pongs(3, nonce="x" * 2 * PACK_BYTES_MAX)))
    assert [len(message.more) for message in large] == [0, 0, 0], "each goes alone"


def test_the_journals_row_stays_with_its_message() -> None:
    first, second = pongs(2)
    second.mark.seq = 7
    (sent,) = packed([first, second])
    came = list(unpacked(pb.ToAgent.FromString(sent.SerializeToString())))
    assert [part.HasField("mark") for part in came] == [False, True]


def test_a_pack_of_too_many_is_refused_before_it_is_taken_apart() -> None:
    first, *more = pongs(PACK_MAX + 1)
    first.more.extend(more)
    with pytest.raises(DecodeError, match=rf"a pack of {PACK_MAX + 1} messages \(expected"):
        next(unpacked(first))
    del first.more[-1]
    assert len(list(unpacked(first))) == PACK_MAX


async def test_a_message_waits_a_moment_after_the_one_before_it() -> None:
    loop, spacing = asyncio.get_running_loop(), Spacing()
    others: list[str] = []
    loop.call_soon(others.append, "another's turn")
    await spacing.wait()
    assert not others, "the first goes at once"
    first_at = loop.time()
    for number in range(1, 4):
        await spacing.wait()
        assert loop.time() >= first_at + (number - 0.5) * SPACING_S
