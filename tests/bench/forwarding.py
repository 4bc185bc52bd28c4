"""Bytes to a port through the grid, beside a plain relay of asyncio streams on the same machine."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from time import perf_counter

from koala.client import AsyncClient
from tests.bench.figures import Figure, median
from tests.harness.ports import free_port
from tests.live.grid import CALM, Grid

NOWHERE = "192.0.2.1"
"""Address of nobody (RFC 5737): the port of a site there is not reached directly."""
TRIES = 3

SINK = """import os, socket
host, port = os.environ["KOALA_LISTEN_SINK"].rsplit(":", 1)
listener = socket.create_server((host, int(port)))
place = bytearray(1 << 20)
for _ in range(TRIES):
    caller, _ = listener.accept()
    while caller.recv_into(place):
        pass
    caller.close()
"""
SOURCE = """import os, socket, time
host, port = os.environ["KOALA_ADDRESS_SINK"].rsplit(":", 1)
block = bytes(1 << 16)
for _ in range(TRIES):
    own = socket.create_connection((host, int(port)))
    begun_at = time.perf_counter()
    for _ in range(MB * 16):
        own.sendall(block)
    own.shutdown(socket.SHUT_WR)
    own.recv(1)
    print(MB / (time.perf_counter() - begun_at), flush=True)
"""
RELAY = """import asyncio, sys
async def pump(reader, writer):
    while part := await reader.read(65536):
        writer.write(part)
        await writer.drain()
    writer.close()
async def serve(reader, writer):
    other_reader, other_writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[2]))
    await asyncio.gather(pump(reader, other_writer), pump(other_reader, writer))
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]))
    print("ready", flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


def measure(folder: Path, is_quick: bool) -> list[Figure]:
    """Forward a stream to a port at another site."""
    megabytes = 100 if is_quick else 1_000
    plain = median(plain_rates(megabytes))
    forwarded = median(asyncio.run(_forwarded(folder, megabytes)))
    return [
        Figure(name="port through the grid: one stream", value=forwarded, unit="MB/s",
               limit=plain / 2, is_least=True, reference=plain,
               reference_name="a relay of asyncio streams",
               how=f"{megabytes} MB by starter, agent, relay, agent and starter, with TLS, all on "
               "this machine; the reference is one process without TLS"),
    ]  # fmt: skip


def plain_rates(megabytes: int) -> list[float]:
    """Rates of the reference, in MB a second."""
    entry, sink = free_port(), free_port()
    variables = {"KOALA_LISTEN_SINK": f"127.0.0.1:{sink}"}
    programs = (text.replace("TRIES", str(TRIES)).replace("MB", str(megabytes))
                for text in (SINK, SOURCE))  # fmt: skip
    receive, send = programs
    server = subprocess.Popen([sys.executable, "-c", receive], env=variables)
    relay = subprocess.Popen(
        [sys.executable, "-c", RELAY, str(entry), str(sink)], stdout=subprocess.PIPE
    )
    try:
        assert relay.stdout is not None
        relay.stdout.readline()
        _await_listener(sink)
        address = {"KOALA_ADDRESS_SINK": f"127.0.0.1:{entry}"}
        words = [sys.executable, "-c", send]
        said = subprocess.run(words, env=address, capture_output=True, text=True, check=True)
        return [float(line) for line in said.stdout.split()]
    finally:
        for process in (server, relay):
            process.kill()
            process.wait()


def _await_listener(port: int) -> None:
    until = perf_counter() + 10.0
    name = f":{port:04X} "
    while name not in Path("/proc/net/tcp").read_text(encoding="ascii"):
        assert perf_counter() < until, "nobody listens"


async def _forwarded(folder: Path, megabytes: int) -> list[float]:
    grid = Grid(folder, sites={"near": 1, "far": 1}, parameters={**CALM, "paths_limit_s": 0.5})
    config = grid.config("far")
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace("[site]\n", f'[site]\naddress = "{NOWHERE}"\n'))
    try:
        grid.start()
        async with grid.client() as client:
            await grid.ready(client)
            return await _rates(client, megabytes)
    finally:
        grid.stop()


async def _rates(client: AsyncClient, megabytes: int) -> list[float]:
    parts = ""
    for program, site, more in ((SINK, "far", f"(ports=SINK:{free_port()})"), (SOURCE, "near", "")):
        text = program.replace("TRIES", str(TRIES)).replace("MB", str(megabytes)).replace('"', '""')
        parts += (
            f'(&(executable={sys.executable})(arguments=-c "{text}"){more}'
            f"(resourceManagerContact={site}))"
        )
    job = (await client.submit("+" + parts)).job
    phase = await client.wait(job, timeout=600.0)
    assert phase == "Finished", await client.why(job)
    said = b"".join([part.data async for part in client.logs(job, stream="stdout")])
    return [float(line) for line in said.split()]
