"""A site that has joined and means ill: it takes its own share of the daemon and of the relay, and
nobody else's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from koala.common.identity.keys import make_request
from koala.common.identity.tls import DAEMON_HOST, Identity, secure_channel
from koala.common.wire.status import RETRY_KEY
from koala.common.wire.v1 import files_pb2, files_pb2_grpc, link_pb2
from koala.common.wire.v1.link_pb2_grpc import AgentLinkStub
from koala.daemon.agents.registry import SESSIONS_OF_SITE_MAX
from koala.daemon.auth.certificate_authority import CertificateAuthority
from koala.daemon.auth.enrolment_service import RENEWALS_AT_ONCE
from koala.daemon.files.transfer_tokens import Purpose, token
from tests.common.files.stage import SECRET, a_relay, comes_true, sha256
from tests.common.identity.stage import Secured
from tests.common.identity.test_enrolment import first, linked, renewed
from tests.daemon.running import config_of, running

pytestmark = pytest.mark.live


@asynccontextmanager
async def secured(folder: Path, **limits: int) -> AsyncIterator[Secured]:
    """A daemon with TLS and these limits."""
    lines = "".join(f"{name} = {value}\n" for name, value in limits.items())
    config = config_of(folder, f"[limits]\n{lines}", is_plain=False)
    async with running(config) as daemon:
        yield Secured(daemon, config)


async def said(call: Any) -> None:
    """Wait until all messages on this stream were heard: a question after them is answered."""
    get = link_pb2.KvGet(claim="j999/1/0/1", request=999, name="x", wait_s=0.0)
    await call.write(link_pb2.FromAgent(kv_get=get))
    await first(call, "kv_answer")


async def test_one_site_with_many_streams_leaves_room_for_others(tmp_path: Path) -> None:
    """Nothing is said on them, so none of them replaces another one."""
    async with secured(tmp_path, sites=2) as stage, AsyncExitStack() as stack:
        rogue, honest = await stage.site("leiden"), await stage.site("delft")
        channel = await stack.enter_async_context(stage.channel(rogue))
        calls = [AgentLinkStub(channel).Connect() for _ in range(SESSIONS_OF_SITE_MAX + 2)]
        reading = iter(asyncio.as_completed([first(call, "reject") for call in calls]))
        for _ in range(2):  # which ones came first, gRPC decides
            rejection = (await next(reading)).reject
            assert rejection.reason == "4 newer streams of leiden are open"
            assert not rejection.is_final
        async with linked(stage, honest, "delft") as call:
            await first(call, "welcome")
        async with linked(stage, rogue, "leiden") as call:
            await first(call, "welcome")  # nor does it shut itself out


async def test_who_floods_may_not_say_more_by_dialling_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("koala.daemon.agents.streams.BURST_S", 0.2)
    rate, lines, reports = 100.0, 5, 50
    async with secured(tmp_path, reports_per_s=int(rate)) as stage:
        rogue = await stage.site("leiden")
        clock = asyncio.get_running_loop().time
        began_at = clock()
        for _ in range(lines):
            async with linked(stage, rogue, "leiden") as call:
                for number in range(reports):
                    report = link_pb2.SiteReport(idle=number % 4, processors=4)
                    await call.write(link_pb2.FromAgent(site=report))
                await said(call)
        allowed = (clock() - began_at + 0.2) * rate
        assert lines * reports <= allowed + lines, "heard one a line more than it may say"


async def test_a_site_that_renews_again_and_again_is_put_off(tmp_path: Path) -> None:
    async with secured(tmp_path) as stage:
        rogue, honest = await stage.site("leiden"), await stage.site("delft")
        for _ in range(RENEWALS_AT_ONCE):
            await renewed(stage, rogue)
        with pytest.raises(grpc.aio.AioRpcError, match="leiden renews its certificate") as refused:
            await renewed(stage, rogue)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert RETRY_KEY in dict(refused.value.trailing_metadata() or ())
        await renewed(stage, honest)


async def test_a_site_that_stores_for_ever_leaves_places_to_others(tmp_path: Path) -> None:
    authority = CertificateAuthority.open(tmp_path / "state")

    def certified(site: str) -> Identity:
        key, request = make_request(site)
        made = authority.sign_site(site, request, lifetime_s=3_600)
        return Identity(key=key, certificate=made.pem, authority=authority.certificate)

    def start(claim: str) -> files_pb2.Frame:
        shown = token(SECRET, Purpose.PUT, claim)
        return files_pb2.Frame(
            start=files_pb2.PutStart(name=f"{claim}/output/out", token=shown, size_bytes=4)
        )

    async def finish(call: Any) -> None:
        frame = files_pb2.Frame(data=b"four", checksum=sha256(b"four"))
        await call.write(frame)
        await call.done_writing()
        assert [answer async for answer in call][-1].is_done

    async with AsyncExitStack() as stack:
        identity = str(authority.serving())
        relay = a_relay(tmp_path / "spool", identity=identity, stores_max=8)
        address = await stack.enter_async_context(relay)

        async def store_of(site: str) -> files_pb2_grpc.RelayStub:
            channel = secure_channel(
                address,
                DAEMON_HOST,
                authority=authority.certificate,
                identity=certified(site),
                options=(),
            )
            return files_pb2_grpc.RelayStub(await stack.enter_async_context(channel))

        rogue, honest = await store_of("leiden"), await store_of("delft")
        incoming = tmp_path / "spool" / "incoming"
        slow = [rogue.Put() for _ in range(2)]
        for number, call in enumerate(slow):
            await call.write(start(f"j1/1/{number}/1"))
        await comes_true(lambda: len(list(incoming.glob("*.part"))) == len(slow))
        refused = rogue.Put()
        await refused.write(start("j1/1/2/1"))
        with pytest.raises(grpc.aio.AioRpcError, match="2 others of the same site are storing"):
            await refused.read()
        for call, claim in ((honest.Put(), "j2/1/0/1"), (slow[0], "")):
            if claim:
                await call.write(start(claim))
            await finish(call)
        call = rogue.Put()  # there is a place again
        await call.write(start("j1/1/2/1"))
        await finish(call)
