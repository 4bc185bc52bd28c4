"""Clients in several event loops of a process: none fails, and nothing is on standard error."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.daemon.test_process import configured, started

pytestmark = pytest.mark.live

PROGRAM = """
import asyncio, sys, threading
from koala.client import AsyncClient, Client

CLIENTS = 20

async def use():
    async with AsyncClient() as client:
        following = asyncio.create_task(follow(client))
        await asyncio.gather(client.hello(), client.list_jobs())
        following.cancel()

async def follow(client):
    async for _notice in client.watch():
        pass

def in_loops_of_their_own():
    for _ in range(CLIENTS):
        asyncio.run(use())

def in_one_loop():
    async def all_of_them():
        for _ in range(CLIENTS):
            await use()
    asyncio.run(all_of_them())

def without_loop():
    for _ in range(CLIENTS):
        with Client() as client:
            client.hello()

def by_eight(*functions):
    threads = [threading.Thread(target=functions[n % len(functions)]) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""
USES = {
    "loops one after the other": "in_loops_of_their_own()",
    "threads with one loop after the other": "by_eight(in_loops_of_their_own)",
    "threads with a loop each": "by_eight(in_one_loop)",
    "threads without loops": "by_eight(without_loop)",
    "all": "by_eight(in_loops_of_their_own, in_one_loop, without_loop)",
}


def run(program: str, address: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM + program],
        env={**os.environ, "KOALA_ADDRESS": address},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_many_clients_of_a_process_say_nothing(tmp_path: Path, use: str) -> None:
    with started(configured(tmp_path, "plain = true\n")) as daemon:
        ended = run(use, daemon.address)
    assert (ended.returncode, ended.stderr) == (0, "")
