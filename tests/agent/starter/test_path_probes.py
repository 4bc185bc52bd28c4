"""TCP paths tried by a real starter: what others see of it, and what it says of others."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from koala.common.protocol.messages import (
    PathsReport,
    PathTarget,
    PortPath,
    ReportState,
    TryPaths,
)
from koala.common.protocol.names import ClaimId
from tests.agent.site import LIMIT_S, Site, a_shell_hold, a_site, an_arm

pytestmark = pytest.mark.live

HERE = "127.0.0.1"
BUSY_S = 1.5
"""Longer than a busy machine takes for a try."""
OWN, OTHER = ClaimId("j1/1/0/1"), ClaimId("j1/1/1/1")


def order(*, listens: int = 0, target: int = 0, limit_s: float = LIMIT_S) -> TryPaths:
    reached = PathTarget(label="b1", address=HERE, port=target, claim=OTHER)
    return TryPaths(
        claim=OWN,
        label="a1",
        address=HERE,
        listens=(listens,) if listens else (),
        targets=(reached,) if target else (),
        limit_s=limit_s,
    )


async def tried(site: Site, paths: TryPaths) -> str:
    """Return the report of a starter that holds at the barrier about these paths."""
    await site.granted(a_shell_hold("exit 0"))
    site.claims.order(paths)
    async with asyncio.timeout(LIMIT_S):
        while not site.daemon.tried:
            site.daemon.changed.clear()
            await site.daemon.changed.wait()
    return site.daemon.tried[0]


async def speaking(word: bytes) -> asyncio.Server:
    """Something that says this to whoever connects."""

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(word)
        writer.close()

    return await asyncio.start_server(answer, HERE, 0)


async def test_a_component_that_says_its_claim_is_reached(tmp_path: Path) -> None:
    server = await speaking(f"koala {OTHER}\n".encode())
    async with server, a_site(tmp_path) as site:
        assert await tried(site, order(target=server.sockets[0].getsockname()[1])) == ""


@pytest.mark.parametrize(
    ("word", "why"),
    [
        (b"SSH-2.0\r\n", "was answered by somebody else"),
        (b"koala j0/1/1/1\n", "was answered by another component"),
        (b"", "was hung up"),
    ],
)
async def test_whoever_else_answers_does_not_count(tmp_path: Path, word: bytes, why: str) -> None:
    server = await speaking(word)
    async with server, a_site(tmp_path) as site:
        number = server.sockets[0].getsockname()[1]
        problem = await tried(site, order(target=number, limit_s=BUSY_S))
    assert problem == f"a1 -> b1:{number} {why}"


async def test_a_port_of_its_own_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server((HERE, 0)) as stranger:
        number = stranger.getsockname()[1]
        async with a_site(tmp_path) as site:
            assert await tried(site, order(listens=number)) == f"a1: port {number} is taken"
            own = PortPath(claim=OWN, port=number, problem="is taken")
            reports = [said for said in site.daemon.heard if isinstance(said, PathsReport)]
            assert [report.ports for report in reports] == [(own,)]


async def test_whoever_connects_hears_the_claim_and_the_port_is_free_from_the_arm_on(
    tmp_path: Path,
) -> None:
    """Also while somebody hangs on to it, and for a program that does not ask to reuse it."""
    # Not `free_port()`: its ports are held, for programs that ask to reuse them.
    with socket.create_server((HERE, 0)) as port:
        number = port.getsockname()[1]
    async with a_site(tmp_path) as site:
        assert await tried(site, order(listens=number)) == ""
        reader, writer = await asyncio.open_connection(HERE, number)
        assert await reader.readline() == f"koala {OWN}\n".encode()
        site.claims.order(an_arm(a_shell_hold("exit 0")))
        await site.daemon.wait_for(ReportState.ARMED)
        with socket.socket() as program:
            program.bind((HERE, number))
            program.listen()
        writer.close()
