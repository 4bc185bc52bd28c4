"""TCP paths that a job declares: tried by real starters before anything of it runs."""

from __future__ import annotations

import secrets
import socket
import sys
from collections.abc import Iterator

import pytest

from koala.client import AsyncClient
from tests.harness.ports import HOSTS, PORTS
from tests.live.grid import CALM, Grid, running_at

pytestmark = [pytest.mark.live, pytest.mark.slow]

ADDRESSES = {"near": "127.0.0.1", "far": "127.0.0.2", "dark": "192.0.2.1"}
"""The last one is nobody's (RFC 5737), as if a firewall stood before it."""
LIMIT_S = 4.0

SERVE = """import os, socket, sys
own = {"near": "127.0.0.1", "far": "127.0.0.2"}[os.environ["KOALA_LABEL"]]
port = socket.socket()
port.bind((own, int(sys.argv[1])))
port.listen()"""
"""A program that wants the port for itself at once, and forgives nothing that is left there."""


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    """One for all tests here, each of which leaves it at rest."""
    grid = Grid(
        tmp_path_factory.mktemp("preflight"),
        sites=dict.fromkeys(ADDRESSES, 2),
        parameters={**CALM, "paths_limit_s": LIMIT_S},
    )
    with running_at(grid, ADDRESSES):
        yield grid


@pytest.fixture
def port() -> int:
    """Return one that is free at both sites, for programs that do not ask to reuse it."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            number = secrets.choice(PORTS)
            try:
                first.bind((HOSTS[0], number))
                second.bind((HOSTS[1], number))
            except OSError:
                continue
            return number


def job(first: str, second: str, port: int, *, path: str = "all") -> str:
    """Two components with a path between them."""
    program = SERVE.replace('"', '""')
    parts = "".join(
        f'(&(executable={sys.executable})(arguments=-c "{program}" {port})(label={site})'
        f"(resourceManagerContact={site}))"
        for site in (first, second)
    )
    return f"+(connect=({path} {port})){parts}"


async def reason(client: AsyncClient, grid: Grid, rsl: str) -> str:
    """Return why a job was set back; it is cancelled then."""
    submitted = await client.submit(rsl)
    async for notice in client.watch(after=0, job=submitted.job):
        if notice["phase"] in ("Stopping", "Running"):
            break
    shown = await client.show(submitted.job)
    lines = (await client.why(submitted.job))["why"]
    assert shown["phase"] == "Placing", shown
    assert any("pre-flight: " in line for line in lines), lines
    await client.cancel([submitted.job])
    await grid.at_rest(client)
    assert [part["passed_at"] for part in shown["parts"]] == [None, None]
    return next(str(text) for _, text in shown["story"] if "Stopping: " in text)


async def test_a_path_that_is_not_open_ends_the_attempt_in_seconds_and_says_which(
    grid: Grid, client: AsyncClient, port: int
) -> None:
    closed = await reason(client, grid, job("near", "dark", port, path="near dark"))
    assert f"Stopping: pre-flight: near -> dark:{port} " in closed
    with socket.create_server(("127.0.0.2", port)):
        taken = await reason(client, grid, job("near", "far", port))
    # Both are true, and which starter says so first is the machine's business: the one that
    # cannot listen, or the one that the stranger on that port does not answer.
    assert taken in (
        f"Stopping: pre-flight: far: port {port} is taken",
        f"Stopping: pre-flight: near -> far:{port} no answer in {LIMIT_S:g} s",
    )
