"""Two real agents: utrecht copies from delft."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from koala.common.wire.v1 import link_pb2
from tests.agent.live.agent_process import AgentProcess, agent_process
from tests.agent.live.fake_daemon import FakeDaemon, FakeSession, fake_daemon

CONTENT = b"0123456789" * 50_000


@asynccontextmanager
async def two_sites(
    folder: Path, job: str, *, content: bytes = CONTENT, source: str = "", target: str = ""
) -> AsyncIterator[tuple[FakeDaemon, FakeSession, FakeSession, AgentProcess]]:
    """The daemon, live sessions of delft, which serves `data` with the content, and of utrecht, and
    the agent of utrecht. `source` are more settings of how delft serves, `target` more of
    utrecht."""
    source_folder, target_folder = folder / "delft", folder / "utrecht"
    store = source_folder / "state" / "files"
    store.mkdir(parents=True)
    target_folder.mkdir()
    store.joinpath("data").write_bytes(content)
    serves = f'[files]\nserve = "127.0.0.1:0"\n{source}'
    async with (
        fake_daemon() as daemon,
        agent_process(source_folder, daemon.target, job=job, rest=serves),
        agent_process(target_folder, daemon.target, job=job, site="utrecht", rest=target) as agent,
    ):
        sessions = [await daemon.live() for _ in range(2)]
        by_site = {session.register.site: session for session in sessions}
        yield daemon, by_site["delft"], by_site["utrecht"], agent


def copy(
    source: FakeSession, target: FakeSession, transfer: str, *, offset: int, size_bytes: int
) -> None:
    """Orders a copy of a part of `data`, at both ends."""
    serve = link_pb2.Serve(transfer=transfer, file="data", target="utrecht", token="t")
    serve.offset, serve.size_bytes = offset, size_bytes
    source.say(serve=serve)
    address = source.register.facts.serves
    fetch = link_pb2.Fetch(
        transfer=transfer, file="data", source="delft", address=address, token="t"
    )
    fetch.offset, fetch.size_bytes = offset, size_bytes
    target.say(fetch=fetch)
