"""The ssh transport over a real ssh server: commands, their limits, and the connection's faults."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator, Iterator

import psutil
import pytest

from koala.common.runtime import clock
from koala.errors import LocalManagerError
from koala_agent.transport.interface import Command
from koala_agent.transport.ssh import SSHTransport
from koala_agent.transport.ssh_connection import LOOK_S, PORTS_FILE
from koala_agent.transport.ssh_socket import locked, log_in
from tests.agent.transport.servers import (
    a_server,
    a_settings,
    a_transport,
    answer_of,
    kill_holder,
    trouble_of,
)
from tests.harness.moments import until
from tests.harness.ssh_server import SSHServer, make_key

pytestmark = pytest.mark.live

TRUE = Command(argv=("true",))
LOGIN = "ssh to atlas needs you: koala site login atlas"


@pytest.fixture
def server() -> Iterator[SSHServer]:
    with a_server() as server:
        yield server


@pytest.fixture
async def transport(server: SSHServer) -> AsyncIterator[SSHTransport]:
    async with a_transport(server) as transport:
        yield transport


async def test_a_command_has_its_words_input_and_status_whatever_they_are(
    transport: SSHTransport, server: SSHServer
) -> None:
    """Every byte but NUL arrives, in arguments and in the input."""
    hostile = "".join(map(chr, range(1, 256))) + "'\"\\$(id)`id`!x%s%%\n\\0101 é €"
    script = 'cat; printf "%s" "$1" >&2; exit 7'
    command = Command(argv=("/bin/sh", "-c", script, "-", hostile), stdin=f"in {hostile}\n")
    answer = await transport.run(command)
    assert (answer.status, answer.err, answer.out) == (7, hostile, f"in {hostile}\n")
    assert (await transport.run(Command(argv=("id", "-un")))).out.strip() == server.account
    large = "x" * 1_000_000
    assert (await transport.run(Command(argv=("wc", "-c"), stdin=large))).out.strip() == "1000000"


async def test_the_environment_is_that_of_the_host_and_the_configuration(
    server: SSHServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KOALA_HERE", "yes")
    async with a_transport(server, environment={"SLURM_CONF": "/a b/'c'"}) as transport:
        answer = await transport.run(Command(argv=("env",)))
    found = dict(line.split("=", 1) for line in answer.out.splitlines() if "=" in line)
    assert (found["SLURM_CONF"], found["LC_ALL"]) == ("/a b/'c'", "C")
    assert found["HOME"] == str(server.home)
    assert "KOALA_HERE" not in found


@pytest.mark.long
async def test_a_command_that_hangs_is_given_up_here_and_ended_there(server: SSHServer) -> None:
    """A hanging `squeue` must not pile up on the login node; the connection serves on."""
    nap = ["sleep", f"{100_000 + os.getpid()}"]  # no other process's
    hangs = Command(argv=("/bin/sh", "-c", f'trap "" TERM; exec {" ".join(nap)}'))
    async with a_transport(server, limit_s=0.7) as transport:
        with pytest.raises(LocalManagerError, match=r"sh at atlas: ssh gave no answer in 0.7 s"):
            await transport.run(hangs)
        ours = [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == nap]
        assert ours
        await until(lambda: not any(map(psutil.Process.is_running, ours)))
    async with a_transport(server) as transport:
        assert (await transport.run(TRUE)).status == 0


async def test_a_killed_connection_comes_back_by_itself(server: SSHServer) -> None:
    """A key is enough here; the starters' port has the same number again."""
    settings = a_settings(server)
    async with a_transport(server) as transport:
        await transport.run(TRUE)
        port = transport.agent_endpoint.port
        kill_holder(settings)
        assert (await answer_of(transport, TRUE)).status == 0
        assert transport.agent_endpoint.port == port
        assert (settings.state_dir / PORTS_FILE).read_text() == f"[{port}]"


@pytest.mark.long
async def test_a_server_that_is_away_is_told_and_found_again(server: SSHServer) -> None:
    async with a_transport(server) as transport:
        await transport.run(TRUE)
        server.cut()
        trouble = await trouble_of(transport)
        assert re.match(r"(true at atlas: )?ssh to atlas: ", trouble), trouble
        await until(lambda: "Connection refused" in transport.trouble)
        server.start()
        assert (await answer_of(transport, TRUE)).status == 0


async def test_a_host_key_that_is_not_known_needs_a_person(server: SSHServer) -> None:
    server.known_hosts.write_text("")
    async with a_transport(server) as transport:
        assert await trouble_of(transport) == f"{LOGIN} (the host key of atlas is not known yet)"
    assert server.known_hosts.read_text() == ""  # nobody has agreed to it


@pytest.mark.long
async def test_a_host_key_that_has_changed_is_told_as_such(server: SSHServer) -> None:
    make_key(server.folder / "new")
    server.know("new.pub")
    async with a_transport(server) as transport:
        assert "host key of atlas is another one than before" in await trouble_of(transport)


async def test_a_key_that_is_refused_needs_a_person_and_is_not_tried_again_and_again(
    server: SSHServer,
) -> None:
    """Repeated failures would lock the account. The login of a person is found within a second."""
    (server.folder / "authorized").write_text("")
    async with a_transport(server) as transport:
        trouble = await trouble_of(transport)
        assert trouble.startswith(LOGIN), trouble
        assert "Permission denied (publickey)" in trouble
        failure = "Connection closed by authenticating user"
        await until(lambda: failure in server.log())  # it may be written after the client's end
        begun = clock.now()
        await until(lambda: clock.now() > begun + 3 * LOOK_S)
        assert server.log().count(failure) == 1
        shutil.copy(server.folder / "key.pub", server.folder / "authorized")
        assert await asyncio.to_thread(log_in, a_settings(server))
        assert (await answer_of(transport, TRUE)).status == 0


@pytest.mark.long
async def test_no_command_dials_by_itself(server: SSHServer) -> None:
    """Without the shared connection each would be a login of its own, with a second factor."""
    settings = a_settings(server)
    async with a_transport(server) as transport:
        await transport.run(TRUE)
        logins = server.log().count("Accepted publickey")
        with locked(settings.control_path()):  # so that nobody opens it again
            kill_holder(settings)
            with pytest.raises(LocalManagerError, match="ssh to atlas"):
                await transport.run(TRUE)
        assert server.log().count("Accepted publickey") == logins == 1


async def test_the_connection_outlives_the_agent_and_serves_the_next_one(
    server: SSHServer,
) -> None:
    settings = a_settings(server)
    transports = [SSHTransport(settings, environment={}, clock=clock.now) for _ in range(2)]
    ports = []
    async with a_transport(server) as first:
        await first.run(TRUE)
        for transport in transports:
            async with transport.connected(9):
                await transport.run(TRUE)
                ports.append(transport.agent_endpoint.port)
        assert ports[0] == ports[1]
        assert server.log().count("Accepted publickey") == 1


async def test_what_dials_the_hosts_port_reaches_the_agent(server: SSHServer) -> None:
    said: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said.set_result(await reader.readline())
        writer.write(b"and back\n")
        writer.close()

    agent = await asyncio.start_server(hear, "127.0.0.1", 0)
    async with agent, a_transport(server, port=agent.sockets[0].getsockname()[1]) as transport:
        await transport.run(TRUE)
        line = transport.agent_endpoint
        assert line.addresses[-1] == "127.0.0.1"
        reader, writer = await asyncio.open_connection("127.0.0.1", line.port)
        writer.write(b"there\n")
        assert await reader.readline() == b"and back\n"
        writer.close()
    assert await said == b"there\n"
