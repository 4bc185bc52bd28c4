"""Measure what this machine can do at best in the same run: other figures are ratios to it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import grpc

from tests.bench.echo_server import METHOD, SERVICE
from tests.bench.figures import Figure
from tests.harness.children import module_command

DURABLE = "durable appends"
SPAWNS = "spawns of /bin/true"
INTERPRETERS = "starts of a bare interpreter"
CALLS = "bare gRPC calls"
FILES = "new files"
IN_FLIGHT = 32


def measure(folder: Path, is_quick: bool) -> list[Figure]:
    """Durable appends, bare calls, spawned programs, and started interpreters a second."""
    return [
        Figure(
            name=DURABLE, value=appends_per_s(folder, 100 if is_quick else 500), unit="/s",
            how="1.2 kB and fdatasync, one after the other",
        ),
        Figure(
            name=FILES, value=files_per_s(folder, 1_000), unit="/s",
            how="200 bytes each, ten in a folder; a tenth of that right after many were deleted",
        ),
        Figure(
            name=CALLS, value=calls_per_s(500 if is_quick else 3_000), unit="/s",
            how=f"1.2 kB there and back, plain text, {IN_FLIGHT} in flight, a server in Python",
        ),
        Figure(
            name=SPAWNS, value=spawns_per_s(["/bin/true"], 100 if is_quick else 500), unit="/s",
            how="subprocess, one after the other",
        ),
        Figure(
            name=INTERPRETERS, unit="/s",
            value=spawns_per_s([sys.executable, "-I", "-S", "-c", ""], 30 if is_quick else 100),
            how="python -I -S, one after the other; two processors can do twice that",
        ),
    ]  # fmt: skip


def appends_per_s(folder: Path, count: int) -> float:
    """Measure how often a file can be made durable."""
    descriptor = os.open(folder / "appends", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    begun_at = perf_counter()
    for _ in range(count):
        os.write(descriptor, bytes(1_200))
        os.fdatasync(descriptor)
    took_s = perf_counter() - begun_at
    os.close(descriptor)
    return count / took_s


def files_per_s(folder: Path, count: int) -> float:
    """Measure how many small files can be made, ten in a new folder each, and leave them there."""
    begun_at = perf_counter()
    for number in range(count // 10):
        inside = folder / f"files-{number}"
        inside.mkdir()
        for each in range(10):
            (inside / str(each)).write_bytes(bytes(200))
    return count / (perf_counter() - begun_at)


def spawns_per_s(command: list[str], count: int) -> float:
    """Measure how often a program can be started and waited for."""
    begun_at = perf_counter()
    for _ in range(count):
        subprocess.run(command, check=True)
    return count / (perf_counter() - begun_at)


def calls_per_s(count: int) -> float:
    """Measure how many calls of a server that does nothing one client makes."""
    with subprocess.Popen(
        module_command("tests.bench.echo_server"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout is not None
            return asyncio.run(_called(int(process.stdout.readline()), count))
        finally:
            process.kill()


async def _called(port: int, count: int) -> float:
    numbers, text = iter(range(count)), bytes(1_200)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            f"/{SERVICE}/{METHOD}"
        )
        await call(text)

        async def some() -> None:
            for _ in numbers:
                await call(text)

        begun_at = perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(IN_FLIGHT):
                group.create_task(some())
        return count / (perf_counter() - begun_at)
