"""Without an address: the daemon of one's own account on this machine, at whatever port."""

import asyncio
import socket
from pathlib import Path

import pytest

from koala.client import AsyncClient
from koala.client import connection as clients
from koala.common.identity.credentials import PLAIN, announce, own_daemons
from koala.common.identity.private_files import private_folder
from koala.errors import ConfigError, UnreachableError
from tests.cli.command import koala
from tests.common.identity.stage import secured
from tests.daemon.running import config_of, running
from tests.harness.ports import free_port

pytestmark = pytest.mark.live

LIMIT_S = 60.0


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An account that has no other daemon, and says nothing; the usual port is nobody's."""
    monkeypatch.setenv("KOALA_RUNTIME_DIR", str(private_folder(tmp_path / "run")))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(clients, "DEFAULT_ADDRESS", f"127.0.0.1:{free_port()}")
    for name in ("KOALA_CREDENTIALS", "KOALA_TOKEN", "KOALA_CA", "KOALA_ADDRESS"):
        monkeypatch.delenv(name, raising=False)


async def test_the_one_daemon_of_ones_own_is_found_at_any_port(tmp_path: Path) -> None:
    announce(f"127.0.0.1:{free_port()}", credentials=None)  # of one that was killed
    async with secured(tmp_path) as grid, AsyncClient() as client:
        assert client.address == grid.address
        assert await client.sites() == []


async def test_one_that_speaks_plain_text_is_found_too(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as daemon, AsyncClient() as client:
        assert client.address == daemon.address
        assert await client.sites() == []


async def test_of_several_none_is_guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "b").mkdir()
    async with secured(tmp_path) as one, running(config_of(tmp_path / "b")) as other:
        with pytest.raises(ConfigError) as caught:
            AsyncClient()
        for word in (one.address, other.address, "--address", "KOALA_ADDRESS"):
            assert word in str(caught.value)
        run = koala("list")
        assert (run.returncode, run.stdout, len(run.stderr.splitlines())) == (2, "", 1)
        assert one.address in run.stderr
        async with AsyncClient(one.address) as client:
            assert await client.sites() == []
        monkeypatch.setenv("KOALA_ADDRESS", other.address)
        async with AsyncClient() as client:
            assert client.address == other.address
        monkeypatch.delenv("KOALA_ADDRESS")
        monkeypatch.setattr(clients, "DEFAULT_ADDRESS", one.address)
        async with AsyncClient() as client:
            assert client.address == one.address


async def test_a_port_whose_owner_accepts_nobody_delays_a_command_for_a_moment(
    tmp_path: Path,
) -> None:
    """The kernel would wait for two minutes."""
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as listener,
        socket.create_connection(listener.getsockname()),  # the only place in its queue
    ):
        announce(f"127.0.0.1:{listener.getsockname()[1]}", credentials=None)
        async with running(config_of(tmp_path)) as daemon:
            found = await asyncio.wait_for(asyncio.to_thread(own_daemons), LIMIT_S)
    assert found == [daemon.address]


async def test_without_any_the_usual_address_is_dialled_and_that_is_said() -> None:
    announce(f"127.0.0.1:{free_port()}", credentials=None)
    client = AsyncClient(credentials=None)
    assert client.address == clients.DEFAULT_ADDRESS
    async with client:
        with pytest.raises(UnreachableError, match="you run none on this machine"):
            await client.sites()
    assert AsyncClient(credentials=PLAIN).address == clients.DEFAULT_ADDRESS
