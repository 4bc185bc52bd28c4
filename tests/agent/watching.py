"""Events for what has none in asyncio: what a program says into a FIFO, the end of a process."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

LIMIT_S = 60.0


class Ear:
    """A FIFO that programs write lines to."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        # Writing, too: so that no end of file is seen when one program after the other writes.
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._unread = b""
        self._read: list[str] = []

    async def line(self) -> str:
        """The next line that a program wrote."""
        async with asyncio.timeout(LIMIT_S):
            while b"\n" not in self._unread:
                await readable(self._descriptor)
                self._unread += os.read(self._descriptor, 65536)
        line, self._unread = self._unread.split(b"\n", 1)
        self._read.append(line.decode())
        return self._read[-1]

    def all_lines(self) -> list[str]:
        """Every whole line so far, those that no test has asked for among them."""
        with suppress(BlockingIOError):
            self._unread += os.read(self._descriptor, 65536)
        return self._read + self._unread.decode().split("\n")[:-1]

    def close(self) -> None:
        os.close(self._descriptor)


async def process_ended(pid: int) -> None:
    """Returns when this process is over."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        async with asyncio.timeout(LIMIT_S):
            await readable(descriptor)
    finally:
        os.close(descriptor)


async def readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
