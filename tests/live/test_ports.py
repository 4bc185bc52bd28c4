"""Ports of programs through the grid: two sites whose network namespaces have no route to one
another, and a daemon between them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from koala.client import AsyncClient
from tests.harness.moments import moment, until
from tests.harness.namespaces import Namespace, lonely_sites
from tests.live.grid import CALM, Grid, running_at

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.root]

SERVE = """import os, socket, threading
def answer(caller):
    try:
        while part := caller.recv(65536):
            caller.sendall(part)
            if b"!" in part:
                os._exit(0)
    except OSError as error:
        print("server:", error, flush=True)
host, port = os.environ["KOALA_LISTEN_ECHO"].rsplit(":", 1)
listener = socket.create_server((host, int(port)))
print(host, flush=True)
while True:
    threading.Thread(target=answer, args=listener.accept()[:1], daemon=True).start()
"""
"""Sends back what it gets, and ends at an exclamation mark."""

TALK = """import os, socket, sys, time
address = os.environ["KOALA_ADDRESS_ECHO"]
assert os.environ["KOALA_ADDRESSES_ECHO"] == address
host, port = address.rsplit(":", 1)
def dial():
    while True:
        try:
            own = socket.create_connection((host, int(port)))
            own.settimeout(30)
            own.sendall(b"x")
            assert own.recv(1) == b"x"
            return own
        except (OSError, AssertionError):
            time.sleep(0.1)
print(address, flush=True)
own = dial()
for number in range(int(sys.argv[1])):
    print("up", number, flush=True)
    try:
        while True:
            own.sendall(b"x")
            if own.recv(1) != b"x":
                break
            time.sleep(0.02)
    except ConnectionError as error:
        print("broken:", error, flush=True)
    own = dial()
sent = bytes(range(32)) * 100
own.sendall(sent)
got = b""
while len(got) < len(sent):
    got += own.recv(65536)
assert got == sent
own.shutdown(socket.SHUT_WR)
assert own.recv(1) == b""
if sys.argv[1] != "0":
    dial().sendall(b"!")
"""
"""Talks until the connection was broken so many times, and was made again."""

CROWD = """import os, socket
host, port = os.environ["KOALA_ADDRESS_ECHO"].rsplit(":", 1)
own = socket.create_connection((host, int(port)))
own.settimeout(2)
own.sendall(b"y")
sent = 0
try:
    while sent < 200_000_000:
        sent += own.send(bytes(1_000_000))
except TimeoutError:
    pass
print(sent, flush=True)
last = socket.create_connection((host, int(port)))
last.sendall(b"!")
last.recv(1)
"""
"""Sends and never reads: the server stops to read, too."""

GIVE = """import os, socket
host, port = os.environ["KOALA_LISTEN_ECHO"].rsplit(":", 1)
caller, _ = socket.create_server((host, int(port))).accept()
caller.sendall(bytes(range(256)) * 80_000)
"""
TAKE = """import os, socket, time
host, port = os.environ["KOALA_ADDRESS_ECHO"].rsplit(":", 1)
own = socket.create_connection((host, int(port)))
time.sleep(4)
print(own.makefile("rb").read() == bytes(range(256)) * 80_000)
"""
"""Reads late what a program sent that has ended long since."""

MANY = """import os, socket
from multiprocessing.dummy import Pool
host, port = os.environ["KOALA_ADDRESS_ECHO"].rsplit(":", 1)
def echo(text):
    with socket.create_connection((host, int(port)), timeout=30) as own:
        own.sendall(text)
        return own.recv(len(text), socket.MSG_WAITALL)
with Pool(25) as pool:
    sent = [b"%0100d" % number for number in range(100)]
    assert pool.map(echo, sent, chunksize=1) == sent
print("all", flush=True)
"""
"""Makes 100 short connections, 25 at a time."""


@pytest.fixture(scope="module")
def spaces() -> Iterator[tuple[str, dict[str, Namespace]]]:
    """The two namespaces, and the address of this machine in both."""
    with lonely_sites(("west", "east")) as found:
        yield found


@pytest.fixture(scope="module")
def grid(
    tmp_path_factory: pytest.TempPathFactory, spaces: tuple[str, dict[str, Namespace]]
) -> Iterator[Grid]:
    """One for all tests here, each of which leaves it at rest."""
    host, found = spaces
    grid = Grid(
        tmp_path_factory.mktemp("ports"),
        sites=dict.fromkeys(found, 4),
        parameters={**CALM, "paths_limit_s": 1.0},
        host=host,
        spaces=found,
    )
    with running_at(grid, {site: space.address for site, space in found.items()}):
        yield grid


def part(program: str, site: str, *words: object, ports: str = "") -> str:
    """A component that runs a program of this module at a site."""
    text = program.replace('"', '""')
    named = f"(ports={ports})" if ports else ""
    arguments = " ".join(map(str, words))
    return (
        f'(&(executable={sys.executable})(arguments=-c "{text}" {arguments}){named}'
        f"(resourceManagerContact={site})(count=1))"
    )


def said(grid: Grid, site: str, claim: str) -> list[str]:
    """Return what a claim's program has printed so far."""
    path = grid.state / site / "claims" / claim.replace("/", "-") / "stdout.0"
    return path.read_text().splitlines() if path.exists() else []


async def said_at_last(grid: Grid, site: str, claim: str, line: str) -> None:
    """Wait until a claim's program has printed a line."""
    await until(lambda: line in said(grid, site, claim))


async def test_a_connection_is_made_again_after_whatever_carried_it_was_killed(
    grid: Grid, client: AsyncClient, spaces: tuple[str, dict[str, Namespace]]
) -> None:
    await grid.ready(client)
    parts = part(SERVE, "east", ports="ECHO:9100") + part(TALK, "west", 3) + part(TALK, "east", 0)
    job = (await client.submit("+" + parts)).job
    talking = f"{job}/1/1/1"
    await said_at_last(grid, "west", talking, "up 0")
    (through, *_rest) = said(grid, "west", talking)
    direct = said(grid, "east", f"{job}/1/2/1")[0]
    assert direct == f"{spaces[1]['east'].address}:9100"
    assert through == "127.77.0.1:9100"
    why = " ".join((await client.why(job)).why)
    assert "ECHO of component 0 from component west: through the grid" in why
    assert "ECHO of component 0 from component 2: directly" in why
    for pid in grid.relays():
        os.kill(pid, signal.SIGKILL)
    await said_at_last(grid, "west", talking, "up 1")
    grid.kill("daemon")
    grid.start("daemon")
    await said_at_last(grid, "west", talking, "up 2")
    grid.kill("east")
    grid.start("east")
    assert await client.wait(job) == "Finished"
    assert any("broken" in line for line in said(grid, "west", talking))
    shown = await client.show(job)
    moved = {charge.claim: charge.forwarded_bytes for charge in shown.charges}
    assert moved[talking] > 2000
    assert moved[f"{job}/1/2/1"] == 0
    await grid.at_rest(client)


async def test_nobody_else_is_let_in(
    grid: Grid, client: AsyncClient, spaces: tuple[str, dict[str, Namespace]]
) -> None:
    await grid.ready(client)
    parts = part(SERVE, "east", ports="ECHO:9101") + part(TALK, "west", 1)
    job = (await client.submit("+" + parts)).job
    await said_at_last(grid, "west", f"{job}/1/1/1", "up 0")
    host, _, port = said(grid, "west", f"{job}/1/1/1")[0].rpartition(":")
    dial = (
        f"import socket\nown = socket.create_connection(('{host}', {port}))\n"
        "try:\n    own.sendall(b'x')\n    print('got', own.recv(1))\n"
        "except ConnectionError:\n    print('refused')\n"
    )
    assert output_in(spaces[1]["west"], sys.executable, "-c", dial) == "refused\n"
    other = (await client.submit("+" + part(dial, "west") + part("pass", "east"))).job
    assert await client.wait(other) == "Finished"
    assert said(grid, "west", f"{other}/1/0/1") == ["refused"]
    async with asyncio.timeout(30):
        while "2 connections refused, the last: the caller" not in " ".join(
            (await client.why(job)).why
        ):
            await moment()
    await client.cancel([job])
    await grid.at_rest(client)
    assert not listens(spaces[1]["west"], port)


async def test_a_reader_that_stops_stops_its_sender(grid: Grid, client: AsyncClient) -> None:
    await grid.ready(client)
    parts = part(SERVE, "east", ports="ECHO:9102") + part(CROWD, "west")
    job = (await client.submit("+" + parts)).job
    assert await client.wait(job, timeout=60.0) == "Finished"
    assert int(said(grid, "west", f"{job}/1/1/1")[0]) < 100_000_000


async def test_the_last_bytes_of_a_program_that_has_ended_arrive(
    grid: Grid, client: AsyncClient
) -> None:
    await grid.ready(client)
    parts = part(GIVE, "east", ports="ECHO:9104") + part(TAKE, "west")
    job = (await client.submit("+" + parts)).job
    assert await client.wait(job, timeout=60.0) == "Finished"
    assert said(grid, "west", f"{job}/1/1/1") == ["True"]
    await grid.at_rest(client)


async def test_short_connections_leave_nothing_behind(grid: Grid, client: AsyncClient) -> None:
    """The first round opens what agents keep."""
    await grid.ready(client)
    (relay,) = grid.relays()
    agents = [grid.pid("west"), grid.pid("east")]
    rounds = []
    for _ in range(2):
        parts = part(SERVE, "east", ports="ECHO:9103") + part(MANY, "west")
        job = (await client.submit("+" + parts)).job
        await said_at_last(grid, "west", f"{job}/1/1/1", "all")
        await client.cancel([job])
        await grid.at_rest(client)
        rounds.append(sum(map(open_sockets, agents)))
    await until(lambda: sum(map(open_sockets, agents)) <= rounds[0])
    await until(lambda: not is_connected(relay))


def is_connected(pid: int) -> bool:
    """Test for a TCP connection of a process."""
    sockets = psutil.Process(pid).net_connections("tcp")
    return any(own.status == psutil.CONN_ESTABLISHED for own in sockets)


def open_sockets(pid: int) -> int:
    """Count the sockets of a process."""
    count = 0
    for number in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it has just been closed
            count += str(number.readlink()).startswith("socket:")
    return count


def listens(space: Namespace, port: str) -> bool:
    """Test whether anything in a namespace listens at a port."""
    lines = output_in(space, "cat", "/proc/net/tcp").splitlines()[1:]
    sockets = [line.split() for line in lines]
    return any(
        own.endswith(f":{int(port):04X}") and state == "0A" for _, own, _, state, *_ in sockets
    )


def output_in(space: Namespace, *words: str) -> str:
    """Run a command in a namespace; return what it prints."""
    return subprocess.run(
        [*space.prefix, *words], capture_output=True, text=True, check=True
    ).stdout
