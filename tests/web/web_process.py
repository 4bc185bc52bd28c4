"""A real `koala web` in front of a real daemon, and strangers and users at its port."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import psutil

from tests.cli.command import environment
from tests.common.identity.stage import LIMIT_S, Secured, secured
from tests.harness.children import program_of
from tests.harness.forked import Process, Surroundings, start
from tests.harness.moments import moment

FEW = 256
"""Descriptors of a process under a crowd: half of them are places of connections."""


class WebProcess:
    """The process, its port, and what it has said."""

    def __init__(self, stage: Secured, process: Process, folder: Path) -> None:
        self.stage = stage
        self.process = process
        self._link_file = folder / "web.link"
        self._log = folder / "web.log"

    @property
    def link(self) -> str:
        """The sign-in link that is good now."""
        return self._link_file.read_text(encoding="utf-8").strip()

    @property
    def log(self) -> str:
        """All that it has written."""
        return self._log.read_text(encoding="utf-8")

    @property
    def address(self) -> str:
        """Address of its pages."""
        return self.link.partition("/sign-in")[0]

    @property
    def port(self) -> int:
        return httpx.URL(self.address).port or 0

    def dial(self) -> socket.socket:
        """A connection that says nothing yet."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT_S)

    @contextmanager
    def crowd(self, count: int, says: bytes = b"") -> Iterator[list[socket.socket]]:
        """Connections that say this and nothing more."""
        strangers: list[socket.socket] = []
        try:
            for _ in range(count):
                strangers.append(self.dial())
                strangers[-1].sendall(says)
            yield strangers
        finally:
            for stranger in strangers:
                stranger.close()

    @asynccontextmanager
    async def browser(self, token: str = "") -> AsyncIterator[httpx.AsyncClient]:
        """A browser signed in with a token; without one by the link, as the administrator."""
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(
            base_url=self.address, timeout=LIMIT_S, limits=limits, trust_env=False
        ) as browser:
            if token:
                answer = await browser.post("/sign-in", data={"token": token, "back": "/"})
            else:
                answer = await browser.get(self.link)
            assert answer.status_code == 303, answer.text
            yield browser

    def ask(self, path: str, cookie: str = "", more: str = "") -> bytes:
        """The head of a request in bytes."""
        sent = f"Cookie: {cookie}\r\n" if cookie else ""
        host = f"127.0.0.1:{self.port}"
        return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{sent}{more}\r\n".encode()

    def limit_descriptors(self, count: int) -> None:
        """Give the process no more than so many."""
        _, hard = resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, (count, hard))

    async def until_cut(self, ours: socket.socket) -> None:
        """Wait until the process has let go of a connection that is open here; it has accepted it
        when the first byte of the answer is read."""
        port = ours.getsockname()[1]
        ours.settimeout(0)
        assert await asyncio.get_running_loop().sock_recv(ours, 1)
        process = psutil.Process(self.process.pid)
        async with asyncio.timeout(LIMIT_S):
            while any(one.raddr and one.raddr.port == port for one in process.net_connections()):
                await moment()


@asynccontextmanager
async def web_process(
    folder: Path, *more: str, descriptors: int = FEW, first: tuple[str, ...] = ()
) -> AsyncIterator[WebProcess]:
    """`koala web` with `more` options; it runs the lines of `first` before."""
    async with secured(folder) as stage:
        own = stage.config.state_dir / "authority" / "administrator.toml"
        link_file = folder / "web.link"
        words = ["web", "--listen", "127.0.0.1:0", "--link-file", str(link_file)]
        with (folder / "web.log").open("wb") as log:
            process = start(
                program_of("koala.cli.main", *first),
                *(*words, "--address", stage.address, *more),
                around=Surroundings(
                    stdout=log, stderr=log, environment=environment(KOALA_CREDENTIALS=str(own))
                ),
            )
        try:
            async with asyncio.timeout(LIMIT_S):
                while not link_file.exists() or not link_file.read_bytes():
                    assert process.poll() is None, (folder / "web.log").read_text()
                    await moment()
            web = WebProcess(stage, process, folder)
            web.limit_descriptors(descriptors)
            yield web
            process.terminate()
            await process.ended()
            assert "Traceback" not in web.log
        finally:
            process.kill()
            await process.ended()
