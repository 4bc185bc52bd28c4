"""A site of another user is not there: not in lists, files, reports, nor in what is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from koala.client import AsyncClient
from koala.common.protocol.versions import PROTOCOL
from koala.common.wire.v1 import link_pb2
from koala.common.wire.v1.link_pb2_grpc import AgentLinkStub
from koala.errors import RejectedError, UnknownSiteError
from tests.common.identity.stage import CALLS, LIMIT_S, Secured, secured

pytestmark = pytest.mark.live


@asynccontextmanager
async def registered(stage: Secured, site: str, **facts: Any) -> AsyncIterator[None]:
    """A site with a file, whose agent says whose it is."""
    async with stage.channel(await stage.site(site)) as channel:
        call = AgentLinkStub(channel).Connect(metadata=CALLS)
        register = link_pb2.Register(
            protocol=PROTOCOL,
            version="1",
            site=site,
            session="s",
            facts=link_pb2.Facts(processors=8, grace_s=5.0, **facts),
            idle=8,
        )
        await call.write(link_pb2.FromAgent(register=register))
        file = link_pb2.FileReport(file=f"{site}.dat", size_bytes=1)
        await call.write(link_pb2.FromAgent(file=file))
        await call.write(link_pb2.FromAgent(inventory_end=link_pb2.InventoryEnd()))
        async with asyncio.timeout(LIMIT_S):
            while isinstance(said := await call.read(), link_pb2.ToAgent):
                if said.WhichOneof("kind") == "wanted_end":
                    break
        yield
        call.cancel()


async def names(client: AsyncClient) -> list[str]:
    return [site["site"] for site in await client.sites()]


async def files(client: AsyncClient) -> list[str]:
    return [file["file"] for file in await client.files()]


async def told_of(client: AsyncClient, last: str) -> set[str]:
    """The sites that notices are about, up to that of a job."""
    found: set[str] = set()
    async with asyncio.timeout(LIMIT_S), aclosing(client.watch(after=0)) as notices:  # type: ignore[type-var]
        async for notice in notices:
            if notice["job"] == last:
                return found
            found.add(notice["site"])
    raise AssertionError("a watch has no end")


async def test_a_site_is_there_for_its_users_and_for_operators(tmp_path: Path) -> None:
    async with (
        secured(tmp_path) as stage,
        registered(stage, "anns", owner="ann"),
        registered(stage, "shared", users=["ann", "bob"]),
        stage.client(await stage.user("ann")) as ann,
        stage.client(await stage.user("bob")) as bob,
        stage.client(await stage.user("cas")) as cas,
        stage.client(await stage.user("olga", "operator")) as operator,
    ):
        for client, sites in (
            (ann, ["anns", "shared"]),
            (bob, ["shared"]),
            (cas, []),
            (operator, ["anns", "shared"]),
        ):
            assert await names(client) == sites
            assert await files(client) == [f"{site}.dat" for site in sites]
        (shared,) = await bob.sites()
        assert (shared["owner"], shared["users"]) == (None, 2), "how many, and not who"
        with pytest.raises(UnknownSiteError, match=r"no site 'anns' \(expected one of shared"):
            await bob.report(site="anns")
        with pytest.raises(RejectedError, match="there is no site that this user may use"):
            await cas.submit("&(executable=/bin/true)")
        with pytest.raises(RejectedError, match="wants site 'anns': known sites are shared"):
            await bob.submit("&(executable=/bin/true)(resourceManagerContact=anns)")
        job = (await bob.submit("&(executable=/bin/true)(count=8)")).job
        assert "anns" not in " ".join((await bob.why(job))["why"])
        assert await told_of(bob, job) - {""} == {"shared"}
        assert await told_of(operator, job) - {""} == {"anns", "shared"}
        for client, jobs, sites in (
            (bob, {job}, ["shared"]),
            (operator, {job}, ["anns", "shared"]),
            (ann, set(), ["anns", "shared"]),
        ):
            found = await client.grid_timeline()
            assert [one.site for one in found.sites] == sites
            assert {one.job for one in found.claims} == jobs, "of others' jobs only operators"
        with pytest.raises(UnknownSiteError, match=r"no site 'anns' \(expected one of shared"):
            await bob.grid_timeline(site="anns")
