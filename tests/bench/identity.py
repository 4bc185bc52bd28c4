"""Measure what identity costs: the same calls in plain text and over TLS with a token, in processor
time of the daemon, so that other work on the machine hardly counts."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter

import psutil

from koala.client import AsyncClient
from koala.common.identity.credentials import PLAIN, Credentials, read_credentials
from tests.bench.figures import Figure, median
from tests.harness.children import module_command

IN_FLIGHT = 32
ROUNDS = 3
PLAIN_TEXT = "the same in plain text"
TEXT = "+(&(executable=/bin/true)(count=2))(&(executable=/bin/true)(count=2))"


def measure(folder: Path, is_quick: bool) -> list[Figure]:
    """Calls and connections, by two ways."""
    return asyncio.run(_measure(folder, 500 if is_quick else 2_000))


async def _measure(folder: Path, calls: int) -> list[Figure]:
    plain_cost: list[float] = []
    token_cost: list[float] = []
    plain_s: list[float] = []
    token_s: list[float] = []
    with (
        _daemon(folder / "plain", is_plain=True) as (plain, plain_pid, _),
        _daemon(folder / "tls", is_plain=False) as (tls, tls_pid, administrator),
    ):
        for _ in range(ROUNDS):
            plain_cost.append(await _calls(plain, PLAIN, plain_pid, calls))
            token_cost.append(await _calls(tls, administrator, tls_pid, calls))
            plain_s.append(await _connections(plain, PLAIN, calls // 20))
            token_s.append(await _connections(tls, administrator, calls // 20))
    how = (
        f"{calls} submissions of one job, {IN_FLIGHT} in flight: the daemon's processor time for "
        f"each, the median of {ROUNDS} rounds"
    )
    how_s = "connect, ask Hello, close, one after the other, the client's own work included"
    base, base_s = median(plain_cost), median(plain_s)
    return [
        Figure(name="a call over TLS with a token", value=median(token_cost), unit="µs",
               reference=base, reference_name=PLAIN_TEXT, how=how),
        Figure(name="a connection over TLS with a token", value=1_000 * median(token_s), unit="ms",
               reference=1_000 * base_s, reference_name=PLAIN_TEXT, how=how_s),
    ]  # fmt: skip


async def _calls(address: str, credentials: Credentials, pid: int, count: int) -> float:
    """Microseconds of the daemon's processor time a call."""
    process = psutil.Process(pid)
    numbers = iter(range(count))
    async with AsyncClient(address, credentials=credentials) as client:

        async def some() -> None:
            for _ in numbers:
                await client.submit(TEXT)

        await client.hello()
        before = process.cpu_times()
        async with asyncio.TaskGroup() as group:
            for _ in range(IN_FLIGHT):
                group.create_task(some())
        after = process.cpu_times()
    spent_s = after.user + after.system - before.user - before.system
    return 1_000_000 * spent_s / count


async def _connections(address: str, credentials: Credentials, count: int) -> float:
    """Seconds until a new connection has its first answer."""
    begun_at = perf_counter()
    for _ in range(count):
        async with AsyncClient(address, credentials=credentials) as client:
            await client.hello()
    return (perf_counter() - begun_at) / count


@contextmanager
def _daemon(folder: Path, *, is_plain: bool) -> Iterator[tuple[str, int, Credentials]]:
    """A daemon without sites: its address, process and first credentials."""
    folder.mkdir()
    config = folder / "daemon.toml"
    config.write_text(
        '[daemon]\nlisten = "127.0.0.1:0"\nstate_dir = "state"\nlog_level = "warning"\n'
        f"plain = {str(is_plain).lower()}\n[parameters]\nqueue_jobs_max = 1000000\n"
    )
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            module_command("koala.daemon.main", str(config)),
            stderr=log,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
    try:
        endpoint = folder / "state" / "endpoint"
        while not endpoint.exists() and process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
        found = PLAIN
        if not is_plain:
            found = read_credentials(folder / "state" / "authority" / "administrator.toml")
        yield endpoint.read_text().strip(), process.pid, found
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
