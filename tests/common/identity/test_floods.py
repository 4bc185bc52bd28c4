"""Frames of HTTP/2 without an end: the connection is cut, and others are served meanwhile."""

import asyncio
import os
import socket
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from koala.client.file_calls import upload
from koala.client.uploads import LocalFile
from koala.common.wire import flood_guard as floods
from koala.common.wire.flood_guard import FloodGuard, _Load, peer_of
from koala.daemon.auth.certificate_authority import CertificateAuthority
from tests.common.files.stage import a_relay, a_site
from tests.common.files.stage import running as serving
from tests.common.identity.flooding import CONTINUATION, FLOODS, PING, any_server, attacker
from tests.common.identity.stage import LIMIT_S, Forge, secured
from tests.daemon.running import config_of, running

SITES = "/koala.wire.v1.Koala/Sites"
PART = f"(&(executable=/bin/true)(arguments={' '.join(['x' * 50_000] * 2)})(count=1))"
LONG = "+" + 8 * PART

pytestmark = pytest.mark.live


@pytest.mark.parametrize("shape", FLOODS)
async def test_a_strangers_flood_is_cut_and_others_are_served(tmp_path: Path, shape: str) -> None:
    kind, stream, size = FLOODS[shape]
    async with (
        asyncio.timeout(LIMIT_S),
        secured(tmp_path) as grid,
        attacker(grid.address, any_server()) as stranger,
    ):
        if stream:
            stranger.begin()
        async with asyncio.TaskGroup() as group:
            flood = group.create_task(stranger.flood(kind, stream, size))
            while not flood.done():
                async with grid.client() as client:
                    await client.sites()


async def test_a_flood_in_plain_text_is_cut(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(LIMIT_S),
        running(config_of(tmp_path)) as daemon,
        attacker(daemon.address, None) as stranger,
    ):
        stranger.begin()
        await stranger.flood(*FLOODS["a header block without an end"])


async def test_a_flood_behind_a_certificate_is_cut_before_a_call_is_made(tmp_path: Path) -> None:
    async with asyncio.timeout(LIMIT_S), secured(tmp_path) as grid:
        shown = any_server(await grid.site("delft"), tmp_path)
        async with attacker(await grid.certified_address(), shown) as site:
            site.begin()
            await site.flood(*FLOODS["small pieces of it"])


async def test_a_call_that_anybody_may_make_lets_nobody_flood(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(LIMIT_S),
        secured(tmp_path) as grid,
        attacker(grid.address, any_server()) as stranger,
    ):
        stranger.call("/koala.wire.v1.Enrolment/Where", b"")
        assert await stranger.answered()
        stranger.begin(stream=3)
        await stranger.flood(CONTINUATION, 3, 12_000)


async def test_headers_that_drip_are_cut_when_nobody_has_shown_who_it_is_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gRPC takes a header block that is not at its end for a call under way: not for idle."""
    monkeypatch.setattr(floods, "STRANGER_S", 0.5)
    async with (
        asyncio.timeout(LIMIT_S),
        secured(tmp_path) as grid,
        attacker(grid.address, any_server()) as stranger,
    ):
        stranger.begin()
        await stranger.closed()


async def test_who_is_known_has_more_but_no_flood_is_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(floods, "KNOWN_BYTES", 4 * floods.STRANGER_BYTES)
    async with (
        asyncio.timeout(LIMIT_S),
        running(config_of(tmp_path)) as daemon,
        attacker(daemon.address, None) as caller,
    ):
        caller.call(SITES, b"", koala_protocol="1", koala_user="ann")
        assert await caller.answered()
        await caller.flood(PING, 0, 8)


@pytest.mark.parametrize("at", ["relay", "files"])
@pytest.mark.parametrize("is_plain", [True, False])
async def test_the_relay_and_a_sites_file_server_cut_floods_too(
    tmp_path: Path, at: str, *, is_plain: bool
) -> None:
    authority = CertificateAuthority.open(tmp_path / "state")
    context = None
    identity = ""
    if not is_plain:
        identity = str(authority.serving())
        context = any_server(Forge(tmp_path / "state").identity("delft"), tmp_path)
    async with (
        asyncio.timeout(LIMIT_S),
        a_relay(tmp_path / "spool", identity=identity) as relay,
        serving(a_site(tmp_path, "delft")) as delft,
    ):
        address = relay if at == "relay" else delft.address
        async with attacker(address, context if at == "relay" else None) as stranger:
            stranger.begin()
            await stranger.flood(*FLOODS["a header block without an end"])


async def test_who_shows_who_it_is_may_send_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is believed before the first request is read, or that alone would be too much; and each
    message gives it as much again."""
    monkeypatch.setattr(floods, "STRANGER_BYTES", 100_000)
    monkeypatch.setattr(floods, "KNOWN_BYTES", 2_000_000)
    monkeypatch.setattr(floods, "POLL_S", 0.001)
    with capture_logs() as said:
        async with secured(tmp_path) as grid, grid.client() as client:
            for _ in range(20):
                await client.submit(LONG, dry_run=True)
    assert "connection.cut" not in [line["event"] for line in said]


async def test_a_call_of_many_messages_may_send_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole upload is one call: each of its messages counts from zero again."""
    monkeypatch.setattr(floods, "KNOWN_BYTES", 500_000)
    monkeypatch.setattr(floods, "POLL_S", 0.001)
    monkeypatch.setattr(floods, "REST_S", 0.0)  # polls, however busy the process is
    path = tmp_path / "input"
    path.write_bytes(bytes(10_000_000))
    with capture_logs() as said:
        async with secured(tmp_path) as grid, grid.client() as client:
            await upload(client._daemon, await LocalFile.read(path), lambda _here: None)
    assert "connection.cut" not in [line["event"] for line in said]


def test_a_process_is_busy_that_used_more_than_a_tenth_of_a_processor_since_the_last_look() -> None:
    """One at rest is polled each second, as for headers that drip; any other at once."""
    load = _Load()
    load.is_busy(10.0, 5.0)
    assert not load.is_busy(10.5, 5.04)
    assert load.is_busy(11.0, 5.1)
    assert not load.is_busy(12.0, 5.1)


async def test_a_descriptor_that_is_another_socket_by_now_is_left_alone() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    ours = socket.create_connection(listener.getsockname())
    theirs, _ = listener.accept()
    with listener, ours, theirs:
        guard = FloodGuard(is_open=False)
        guard.watch(listener.getsockname()[1])
        guard.poll(1.0)
        found = guard._connections[theirs.fileno()]
        assert found.peer == ours.getsockname()
        assert guard._connections[ours.fileno()].peer is None
        assert guard._connections[listener.fileno()].peer is None
        found.inode += 1
        assert not floods._end(theirs.fileno(), found)
        theirs.sendall(b"still here")
        assert ours.recv(10) == b"still here"
        found.inode = os.fstat(theirs.fileno()).st_ino
        assert floods._end(theirs.fileno(), found)
        assert ours.recv(10) == b""


async def test_a_caller_is_forgotten_with_its_connection() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    ours = socket.create_connection(listener.getsockname())
    theirs, _ = listener.accept()
    now = asyncio.get_running_loop().time
    with listener, ours, theirs:
        guard = FloodGuard(is_open=False)
        guard.watch(listener.getsockname()[1])
        host, port = ours.getsockname()
        guard.mark_known(f"ipv4:{host}:{port}")
        for _ in range(3):
            guard.poll(now())
        assert len(guard._callers) == 1
        theirs.close()
        for _ in range(3):
            guard.poll(now())
        assert guard._callers == {}


def test_the_other_end_is_the_same_however_it_is_written() -> None:
    assert peer_of("ipv4:10.0.0.1:4455") == ("10.0.0.1", 4455)
    assert peer_of("ipv6:%5B::1%5D:80") == ("::1", 80)
    assert peer_of("ipv6:[fe80::1%25eth0]:80") == ("fe80::1", 80)
    assert peer_of("ipv6:%5B::ffff:10.0.0.1%5D:80") == ("10.0.0.1", 80)
    assert peer_of("unix:/run/koala") == ("unix:/run/koala", 0)
