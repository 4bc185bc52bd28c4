"""Files of a site, by both transports: written, read, listed, and what a full disk says."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from koala.errors import LocalManagerError
from koala_agent.transport import site_files
from koala_agent.transport.interface import FileStatus, Transport
from koala_agent.transport.local import LocalTransport
from tests.agent.transport.servers import a_server, a_transport
from tests.harness.small_disk import fill, small_disk

pytestmark = pytest.mark.live

ODD = "a b\n'\"\\*?[é\udcff"
"""A name with a byte that is no text."""


@pytest.fixture(params=["local", "ssh"])
async def reached(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[Transport, Path]]:
    """A transport, and a folder at the site."""
    if request.param == "local":
        yield LocalTransport(environment=dict(os.environ)), tmp_path
        return
    with a_server() as server:
        async with a_transport(server) as transport:
            yield transport, server.home


async def test_files_are_written_read_listed_and_removed(reached: tuple[Transport, Path]) -> None:
    transport, home = reached
    folder, content = f"{home}/{ODD}", os.urandom(300_000)
    for _ in range(2):
        await transport.make_folder(folder)
    for name in ("z", ODD, "a"):
        await transport.put(f"{folder}/{name}", content)
    await transport.put(f"{folder}/a", b"new")
    assert await transport.list(folder) == tuple(sorted(("z", ODD, "a"), key=os.fsencode))
    assert await transport.get(f"{folder}/{ODD}", 10**6) == content
    assert await transport.get(f"{folder}/{ODD}", 100_000) == content[:100_000]
    assert await transport.get(f"{folder}/a", 10) == b"new"
    told = FileStatus(
        size_bytes=3, is_folder=False, is_file=True, owner=home.stat().st_uid, mode=0o600
    )
    assert await transport.stat(f"{folder}/a") == told
    found = await transport.stat(folder)
    assert found is not None
    assert found.is_folder
    assert [mode_of(folder), mode_of(f"{folder}/a")] == [0o700, 0o600]  # for its owner alone
    for _ in range(2):
        await transport.remove(f"{folder}/a")
    assert await transport.stat(f"{folder}/a") is None


def mode_of(path: str) -> int:
    return Path(path).stat().st_mode & 0o777


@pytest.mark.root
async def test_a_full_disk_at_the_site_is_told_and_the_old_content_stays(tmp_path: Path) -> None:
    with (
        a_server(account="root") as server,
        small_disk(server.folder / "disk", megabytes=2) as disk,
    ):
        async with a_transport(server) as transport:
            await transport.put(f"{disk}/kept", b"old")
            fill(disk, 16_384)
            with pytest.raises(OSError, match="No space left on device") as raised:
                await transport.put(f"{disk}/kept", b"x" * 1_000_000)
            assert raised.value.errno == errno.ENOSPC
            assert await transport.get(f"{disk}/kept", 100) == b"old"
            assert set(await transport.list(str(disk))) == {"kept", "filler"}


async def test_a_host_without_python_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_files, "_SERVE", "exit 1 # {python} {size}")
    with a_server() as server:
        async with a_transport(server) as transport:
            with pytest.raises(LocalManagerError, match="the host has no Python"):
                await transport.list(str(server.home))


async def test_what_is_no_answer_ends_the_connection_and_is_told() -> None:
    script = "cat >/dev/null & echo welcome; echo koala-files 1; echo '[1'"
    files = await site_files.open_files(("/bin/sh", "-c", script), python="", limit_s=60.0)
    await files.receive()
    with pytest.raises(LocalManagerError, match="files over ssh: "):
        await files.call("names", b"/")
