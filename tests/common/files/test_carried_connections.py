"""Connections to ports of programs at the relay: who is joined, and how they end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from koala.common.files.channels import CHANNEL_OPTIONS
from koala.common.wire.v1 import files_pb2
from koala.daemon.files.transfer_tokens import Purpose, token
from koala_agent.starter_link.ports import CARRY
from tests.common.files.stage import SECRET, a_relay, some_bytes

pytestmark = pytest.mark.live

PORT, OTHER = "j1/1/0/1/DB", "j2/1/0/1/DB"


@asynccontextmanager
async def ends(folder: Path) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the calls of owner and dialler, which are joined."""
    async with a_relay(folder) as address, calls(address) as call:
        owner, dialler = await call(Purpose.LISTEN), await call(Purpose.DIAL)
        assert [await owner.read(), await dialler.read()] == [b"", b""]
        yield owner, dialler


@asynccontextmanager
async def calls(address: str) -> AsyncIterator[Any]:
    """Yield what begins a call at a relay, by default with the right token."""
    async with aio.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:

        async def begin(purpose: Purpose, shown: str = "", port: str = PORT) -> Any:
            call: Any = channel.stream_stream(CARRY)()
            start = files_pb2.PutStart(
                name=port, token=shown or token(SECRET, purpose, port), label=purpose.value
            )
            await call.write(files_pb2.Frame(start=start).SerializeToString())
            return call

        yield begin


async def test_each_direction_ends_by_itself(tmp_path: Path) -> None:
    async with ends(tmp_path) as (owner, dialler):
        asked, answered = some_bytes(100_000), some_bytes(200_000, seed=2)
        await dialler.write(asked)
        await dialler.write(b"")
        assert [await owner.read(), await owner.read()] == [asked, b""]
        await owner.write(answered)
        await owner.write(b"")
        assert [await dialler.read(), await dialler.read()] == [answered, b""]
        assert (await owner.code(), await dialler.code()) == (grpc.StatusCode.OK,) * 2


@pytest.mark.parametrize(
    ("purpose", "shown"),
    [
        (Purpose.DIAL, token(SECRET, Purpose.DIAL, OTHER)),
        (Purpose.DIAL, token(SECRET, Purpose.LISTEN, PORT)),
        (Purpose.LISTEN, token(SECRET, Purpose.DIAL, PORT)),
        (Purpose.LISTEN, "none"),
    ],
    ids=["of another job", "of the owner", "of a dialler", "made up"],
)
async def test_nobody_comes_in_with_another_token(
    tmp_path: Path, purpose: Purpose, shown: str
) -> None:
    async with a_relay(tmp_path) as address, calls(address) as call:
        refused = await call(purpose, shown)
        assert await refused.code() is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("lost", [0, 1], ids=["owner", "dialler"])
async def test_the_loss_of_an_end_is_no_end_in_good_order(tmp_path: Path, lost: int) -> None:
    async with ends(tmp_path) as both:
        both[lost].cancel()
        left = both[1 - lost]
        with suppress(aio.AioRpcError):
            assert await left.read() is aio.EOF  # and no empty message before
        assert lost == 1 or await left.code() is grpc.StatusCode.ABORTED


async def test_ports_of_two_jobs_are_not_mixed_up(tmp_path: Path) -> None:
    async with a_relay(tmp_path) as address, calls(address) as call:
        owners = {port: await call(Purpose.LISTEN, port=port) for port in (PORT, OTHER)}
        for port in (OTHER, PORT):
            dialler = await call(Purpose.DIAL, port=port)
            assert await dialler.read() == b""
            await dialler.write(port.encode())
            assert [await owners[port].read(), await owners[port].read()] == [b"", port.encode()]
