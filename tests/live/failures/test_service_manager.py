"""Daemon and agents report to the service manager that started them, over a real socket."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.grid import PATIENCE_S, Grid
from tests.live.test_jobs import output, run, shell

WATCHDOG_US = "300000"


class Listener:
    """The other end: a socket as systemd's."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)

    async def next(self, word: str) -> dict[str, str]:
        """The next message with this word in it."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                heard = await asyncio.get_running_loop().sock_recv(self._socket, 4096)
                lines = heard.decode().split("\n")
                if word in lines:
                    return dict(line.split("=", 1) for line in lines)

    def waiting(self) -> list[str]:
        """Return what has come and was not asked for."""
        found = []
        while True:
            try:
                found.append(self._socket.recv(4096).decode())
            except BlockingIOError:
                return found

    def close(self) -> None:
        self._socket.close()


@contextmanager
def listening(address: str = "") -> Iterator[Listener]:
    listener = Listener(address or f"@koala-{secrets.token_hex(8)}")
    try:
        yield listener
    finally:
        listener.close()


def registered(grid: Grid) -> str:
    """Return the line of an agent that has found its daemon."""
    return f"site delft, daemon {grid.address}: registered"


async def stopped(grid: Grid, name: str, listener: Listener) -> None:
    """Ends a process while its manager goes on reading, as one does."""
    async with asyncio.TaskGroup() as group:
        ending = group.create_task(asyncio.to_thread(grid.terminate, name))
        assert (await listener.next("STOPPING=1"))["STATUS"] == "jobs run on"
    assert ending.result() == 0


@pytest.mark.live
@pytest.mark.slow
async def test_services_say_when_they_serve_that_they_live_and_that_they_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = Grid(tmp_path, sites={"delft": 1})
    monkeypatch.setenv("WATCHDOG_USEC", WATCHDOG_US)
    with listening() as of_daemon, listening() as of_agent:
        try:
            monkeypatch.setenv("NOTIFY_SOCKET", of_agent.address)
            grid.start("delft")
            told = await of_agent.next("READY=1")
            assert "is not reached" in told["STATUS"], "an agent waits for its daemon, ready"
            await stopped(grid, "delft", of_agent)

            monkeypatch.setenv("NOTIFY_SOCKET", of_daemon.address)
            grid.start("daemon")
            told = await of_daemon.next("READY=1")
            assert grid.address in told["STATUS"]
            async with grid.client() as client:
                await client.hello()

                monkeypatch.setenv("NOTIFY_SOCKET", of_agent.address)
                grid.start("delft")
                told = await of_agent.next("READY=1")
                if "is not reached" in told["STATUS"]:  # on a busy machine
                    told = await of_agent.next(f"STATUS={registered(grid)}")
                assert told["STATUS"] == registered(grid)
                await grid.ready(client)
                job = (await run(client, shell("env")))["job"]
                (printed,) = (await output(client, job, stream="stdout")).values()
                assert b"KOALA_CLAIM" in printed
                assert b"NOTIFY_SOCKET" not in printed, "a job is not the service"
                assert b"WATCHDOG_USEC" not in printed
            for listener in (of_daemon, of_agent):
                for _ in range(3):
                    await listener.next("WATCHDOG=1")
            for name, listener in (("delft", of_agent), ("daemon", of_daemon)):
                await stopped(grid, name, listener)
        finally:
            grid.stop()


@pytest.mark.live
async def test_an_agent_that_finds_its_daemon_later_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = Grid(tmp_path, sites={"delft": 1})
    with listening() as of_agent:
        try:
            monkeypatch.setenv("NOTIFY_SOCKET", of_agent.address)
            grid.start("delft")
            assert "is not reached" in (await of_agent.next("READY=1"))["STATUS"]
            monkeypatch.delenv("NOTIFY_SOCKET")
            grid.start("daemon")
            await of_agent.next(f"STATUS={registered(grid)}")
        finally:
            grid.stop()
