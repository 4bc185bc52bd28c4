"""An event loop that hangs while gRPC's own threads go on: the connection looks well, keepalive is
answered, and only the other side's beats tell."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from koala.client import AsyncClient
from tests.daemon.test_process import configured, started
from tests.harness.moments import moment
from tests.live.grid import until

pytestmark = [pytest.mark.live, pytest.mark.long]

HANGING = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
signal.signal(signal.SIGUSR1, lambda *_: signal.sigwait({signal.SIGUSR2}))
"""
"""What every interpreter of the test does at its start: SIGUSR1 stops its main thread, and with it
the event loop, but no other thread, until SIGUSR2 comes."""
DAEMON = """plain = true
beat_s = 0.2
silence_s = 1.0
"""
AGENT = """[agent]
site = "delft"
daemon = "{address}"
state_dir = "agent"
plain = true
silence_s = 1.0
[site]
processors = 4
[accounts]
mode = "anyone"
"""


@contextmanager
def an_agent(folder: Path, address: str) -> Iterator[subprocess.Popen[bytes]]:
    """A real one, its messages in agent.log."""
    path = folder / "agent.toml"
    path.write_text(AGENT.format(address=address))
    with (folder / "agent.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "koala_agent", str(path)], stderr=log, env=dict(os.environ)
        )
    try:
        yield process
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait(30)


async def test_a_loop_that_hangs_is_found_by_its_silence_at_either_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(HANGING)
    path = os.pathsep.join([str(tmp_path / "site"), *sys.path])
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    with started(configured(tmp_path, DAEMON), by_exec=True) as daemon:  # it has its own site
        address = daemon.address
        reading = asyncio.get_running_loop().run_in_executor(None, daemon.stderr.read)
        with an_agent(tmp_path, address) as agent:
            async with AsyncClient(address) as client, asyncio.timeout(120):
                await usable(client)
                job = (await client.submit("&(executable=/bin/sleep)(arguments=600)")).job
                await phase(client, job, "Running")

                agent.send_signal(signal.SIGUSR1)
                await state(client, "disconnected")
                assert is_connected(agent.pid)  # nothing else has noticed
                agent.send_signal(signal.SIGUSR2)
                await usable(client)

                said = len((tmp_path / "agent.log").read_text())
                daemon.process.send_signal(signal.SIGUSR1)
                await until(lambda: "silent" in (tmp_path / "agent.log").read_text()[said:])
                assert is_connected(daemon.process.pid)
                daemon.process.send_signal(signal.SIGUSR2)
                await usable(client)

                assert (await client.show(job))["phase"] == "Running"  # through all of it
                await client.cancel(job)
                while (await client.metrics())["claims"]:
                    await moment()
        daemon.process.terminate()
        told = await reading
    assert "silent for 1 s" in told


def is_connected(pid: int) -> bool:
    """To somebody, over TCP."""
    return any(c.status == psutil.CONN_ESTABLISHED for c in psutil.Process(pid).net_connections())


async def usable(client: AsyncClient) -> None:
    await state(client, "usable")


async def state(client: AsyncClient, wanted: str) -> None:
    async for _ in client.watch(after=0):
        if [site["state"] for site in await client.sites()] == [wanted]:
            return


async def phase(client: AsyncClient, job: str, wanted: str) -> None:
    async for notice in client.watch(after=0, job=job):
        if notice["phase"] == wanted:
            return
