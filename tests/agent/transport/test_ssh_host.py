"""Sites of one agent process behind one login: what they share, and what each has for itself."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from koala.common.runtime import clock
from koala.errors import ConfigError
from koala_agent.transport.interface import Command
from koala_agent.transport.ssh import SSHTransport
from koala_agent.transport.ssh_host import SSHHosts
from koala_agent.transport.ssh_socket import SSHSettings
from tests.agent.transport.servers import (
    PATIENCE_S,
    a_server,
    a_settings,
    answer_of,
    close,
    kill_holder,
)
from tests.harness.ssh_server import HOST, SSHServer

pytestmark = [pytest.mark.live, pytest.mark.long]

TRUE = Command(argv=("true",))
SESSION = "Starting session: command"
QUEUES = ("atlas", "atlas-gpu")
"""Two queues behind one login node. The first one's connection is that of both."""


@asynccontextmanager
async def two_sites(
    server: SSHServer, *, commands_per_minute: int = 60_000
) -> AsyncIterator[tuple[SSHTransport, SSHTransport]]:
    hosts = SSHHosts(clock=clock.now)
    first = a_settings(server)
    transports = []
    for site in QUEUES:
        folder = server.folder / f"state-{site}"
        folder.mkdir(mode=0o700)
        settings = a_settings(
            server,
            site=site,
            state_dir=folder,
            control=first.control_path(),
            commands_per_minute=commands_per_minute,
        )
        host = hosts.at(settings)
        transports.append(SSHTransport(settings, host, environment={}, clock=clock.now))
    one, other = transports
    try:
        async with asyncio.timeout(PATIENCE_S), one.connected(9), other.connected(10):
            yield one, other
    finally:
        close(first)


async def test_two_sites_have_one_connection_one_session_for_files_and_a_port_each() -> None:
    with a_server(settings="LogLevel VERBOSE") as server:
        async with two_sites(server) as sites:
            for site in sites:
                assert (await site.run(TRUE)).status == 0
            begun = server.log().count(SESSION)
            for site in sites:
                await site.put(f"{server.home}/file", b"x")
            one, other = sites
            assert one.agent_endpoint.port != other.agent_endpoint.port
            assert server.log().count("Accepted publickey") == 1
            assert server.log().count(SESSION) == begun + 1
            kill_holder(a_settings(server))
            for site in sites:
                assert (await answer_of(site, TRUE)).status == 0
            assert server.log().count("Accepted publickey") == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"host": "b"}, "site gpus: transport.host = 'b' (expected 'atlas', as for site atlas"),
        ({"commands_per_minute": 9}, "lrm.commands_per_minute = 9 (expected 60000, as"),
    ],
)
def test_sites_with_one_connection_must_agree_about_it(
    tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    """The second site names the socket that the first one has by default."""
    hosts = SSHHosts(clock=clock.now)
    first = {"host": HOST, "state_dir": tmp_path / "a", "commands_per_minute": 60_000}
    host = hosts.at(SSHSettings(site=HOST, **first))  # type: ignore[arg-type]  # by name
    second = {**first, "state_dir": tmp_path / "b", "control": f"{tmp_path}/a/ssh.sock"}
    assert hosts.at(SSHSettings(site="gpus", **second)) is host  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=re.escape(said)):
        hosts.at(SSHSettings(site="gpus", **{**second, **changes}))  # type: ignore[arg-type]
