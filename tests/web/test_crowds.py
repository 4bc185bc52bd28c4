"""A crowd at the port of the web page: silence, half requests, floods, and greedy users."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from koala.web.security import BODY_MAX
from tests.common.identity.stage import LIMIT_S
from tests.common.metrics.certificates import make_certificate
from tests.web.web_process import FEW, web_process

pytestmark = pytest.mark.live
CROWD = 600
SOON = ("import koala.web.connections as limits", "limits.REQUEST_S = limits.STALL_S = 1.0")
PLACES = FEW // 2
STREAMS_OF_EACH = PLACES // 4 // 5
LINES_MAX = 20


async def ended(peer: socket.socket) -> bytes:
    """All that the other end sends until it closes."""
    peer.settimeout(0)
    loop, parts = asyncio.get_running_loop(), []
    async with asyncio.timeout(LIMIT_S):
        try:
            while part := await loop.sock_recv(peer, 65_536):
                parts.append(part)
        except ConnectionResetError:
            pass
    return b"".join(parts)


GET = b"GET / HTTP/1.1\r\nHost: here\r\n"
POST = b"POST /sign-in HTTP/1.1\r\nHost: here\r\nContent-Length: 99\r\n"
HALVES = {
    "nothing": b"",
    "a letter": b"G",
    "half a head": GET,
    "half a body": POST + b"\r\ntoken",
    "a body in chunks": GET + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
    "an old version": b"GET / HTTP/1.0\r\n",
    "a second half": GET + b"\r\nGET / HTTP",
    "a body that waits": POST + b"Expect: 100-continue\r\n\r\n",
    "half an upgrade": GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
}


async def test_what_is_no_whole_request_is_cut(tmp_path: Path) -> None:
    async with web_process(tmp_path, first=SOON) as web:
        for says in HALVES.values():
            with web.crowd(1, says) as (peer,):
                await ended(peer)


@pytest.mark.parametrize("secure", [False, True])
async def test_a_silent_crowd_locks_nobody_out(tmp_path: Path, secure: bool) -> None:
    words: tuple[str, ...] = ()
    trusted: ssl.SSLContext | bool = True
    if secure:
        certificate, key = make_certificate(tmp_path / "own")
        words = ("--certificate", str(certificate), "--key", str(key))
        trusted = ssl.create_default_context(cafile=str(certificate))
    async with (
        web_process(tmp_path, *words) as web,
        httpx.AsyncClient(
            base_url=web.address, verify=trusted, trust_env=False, timeout=LIMIT_S
        ) as browser,
    ):
        assert (await browser.get(web.link)).status_code == 303
        async with browser.stream("GET", "/events") as stream:
            events = stream.aiter_bytes()
            assert b"retry" in await anext(events)
            with web.crowd(CROWD) as strangers:
                await ended(strangers[0])  # the oldest gives way
                for path in ("/", "/jobs", "/static/koala.css"):
                    assert (await browser.get(path)).status_code == 200
                with web.crowd(CROWD, b"GET / HTTP/1.1\r\n"):
                    assert (await browser.get("/jobs")).status_code == 200
            async with web.stage.client() as client:
                job = (await client.submit("&(executable=/bin/true)(count=4)")).job
            while f'"{job}"'.encode() not in await anext(events):  # who was there before stays
                pass
        assert len(web.log.splitlines()) < LINES_MAX
        assert "connections.cut" in web.log


SHAPES = (
    b"GET / HTTP/1.0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 200,
    b"HEAD /jobs HTTP/1.1\r\nHost: {host}\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: {host}\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /" + b"x" * 2_000_000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nX: " + b"x" * 2_000_000,
    b"GET / HTTP/1.1\r\nCookie: " + b"a=b; " * 400_000 + b"\r\n\r\n",
    b"POST /sign-in HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n\r\n",
    b"\0" * 100_000,
)


async def test_requests_of_any_shape_end_and_fill_no_log(tmp_path: Path) -> None:
    async with web_process(tmp_path, first=SOON) as web, web.browser() as browser:
        host = httpx.URL(web.address).netloc
        for _ in range(5):
            for shape in SHAPES:
                with web.dial() as peer:
                    await asyncio.to_thread(_try_to_send, peer, shape.replace(b"{host}", host))
        for shape in SHAPES:
            with web.dial() as peer:
                await asyncio.to_thread(_try_to_send, peer, shape.replace(b"{host}", host))
                await ended(peer)
        assert (await browser.get("/")).status_code == 200
        assert len(web.log.splitlines()) < LINES_MAX


def _try_to_send(peer: socket.socket, text: bytes) -> None:
    with suppress(ConnectionError):  # cut before it was all sent
        peer.sendall(text)


async def test_a_body_without_an_end_is_cut(tmp_path: Path) -> None:
    """However fast it comes, and though nobody reads it."""
    async with web_process(tmp_path) as web:
        with web.dial() as peer:
            peer.sendall(web.ask("/sign-in", more="Transfer-Encoding: chunked\r\n"))
            chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"

            def pour() -> int:
                sent = 0
                try:
                    while True:
                        peer.sendall(chunk)
                        sent += len(chunk)
                except ConnectionError:
                    return sent

            assert BODY_MAX <= await asyncio.to_thread(pour) < 20 * BODY_MAX


async def test_a_user_with_all_streams_takes_none_of_others(tmp_path: Path) -> None:
    async with web_process(tmp_path) as web:
        ann, bob = await web.stage.user("ann"), await web.stage.user("bob")
        async with web.browser(ann.token) as hers, web.browser(bob.token) as his:
            async with web.stage.client(ann) as client:
                job = (await client.submit("&(executable=/bin/true)(count=4)")).job
            async with asyncio.TaskGroup() as group:
                paths = ["/events", f"/jobs/{job}/logs"] * 20
                refused: asyncio.Queue[httpx.Response] = asyncio.Queue()
                tasks = [group.create_task(follow(hers, path, refused)) for path in paths]
                for _ in range(len(paths) - STREAMS_OF_EACH):
                    answer = await asyncio.wait_for(refused.get(), LIMIT_S)
                    assert answer.status_code == 503
                    expected = f"{STREAMS_OF_EACH} live pages and followed logs are open"
                    assert expected in answer.json()["error"]
                async with his.stream("GET", "/events") as stream:
                    assert stream.status_code == 200
                assert (await hers.get("/jobs")).status_code == 200
                for task in tasks:
                    task.cancel()


async def follow(
    browser: httpx.AsyncClient, path: str, refused: asyncio.Queue[httpx.Response]
) -> None:
    accept = {"accept": "text/event-stream"}
    async with browser.stream("GET", path, headers=accept) as stream:
        if stream.status_code != 200:
            await stream.aread()
            refused.put_nowait(stream)
        async for _ in stream.aiter_bytes():
            pass
