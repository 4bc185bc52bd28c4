"""The ssh transport over a real ssh server: commands, their limits, and the connection's faults."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from koala.common.runtime import clock
from koala.errors import LocalManagerError
from koala_agent.transport.interface import Command
from koala_agent.transport.ssh import SSHTransport
from koala_agent.transport.ssh_connection import LOOK_S, PORTS_FILE
from koala_agent.transport.ssh_socket import locked, log_in, user_of
from tests.agent.transport.servers import (
    a_server,
    a_settings,
    a_transport,
    answer_of,
    kill_holder,
    trouble_of,
    until,
)
from tests.harness.ssh_server import HOST, SSHServer, make_key

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


async def test_a_command_that_is_not_there_is_a_fault_of_the_configuration(
    transport: SSHTransport,
) -> None:
    with pytest.raises(LocalManagerError, match="no-such at atlas cannot be run: ") as raised:
        await transport.run(Command(argv=("no-such", "--parsable")))
    assert not raised.value.transient


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


@pytest.mark.long
async def test_a_server_that_is_updated_loses_no_connection(server: SSHServer) -> None:
    async with a_transport(server) as transport:
        await transport.run(TRUE)
        server.stop()
        assert (await transport.run(TRUE)).status == 0
        server.start()
        assert (await transport.run(TRUE)).status == 0


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


@pytest.mark.long
async def test_a_port_that_is_taken_is_replaced_for_new_claims(server: SSHServer) -> None:
    """The server may hold the port of a dead connection for long: new claims get another one, and
    the old one is opened when it is free."""
    settings = a_settings(server)
    async with a_transport(server) as transport:
        await transport.run(TRUE)
        old = transport.agent_endpoint.port
    blocker = await asyncio.start_server(lambda _r, w: w.close(), ("127.0.0.1", "::1"), old)
    async with a_transport(server) as transport:
        await transport.run(TRUE)
        new = transport.agent_endpoint.port
        assert new != old
        assert (settings.state_dir / PORTS_FILE).read_text() == f"[{new}, {old}]"
        blocker.close()
        await blocker.wait_closed()
        await until(lambda: _answers(old))


def _answers(port: int) -> bool:
    listening = Path("/proc/net/tcp").read_text().splitlines()
    return any(f":{port:04X} " in line and " 0A " in line for line in listening)


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


@pytest.mark.long
async def test_a_server_that_forwards_no_port_is_told(server: SSHServer) -> None:
    with a_server(settings="AllowTcpForwarding no") as strict:
        async with a_transport(strict) as transport:
            trouble = await trouble_of(transport)
    assert trouble == "atlas opens no port for starters (AllowTcpForwarding of its ssh server)"


@pytest.mark.long
async def test_a_connection_that_cannot_be_set_up_is_tried_less_and_less_often() -> None:
    """At each look there would be a command at the login node, for as long as the agent runs."""
    with a_server(settings="AllowTcpForwarding no\nLogLevel VERBOSE") as strict:
        async with a_transport(strict):
            begun = clock.now()
            await until(lambda: clock.now() > begun + 6 * LOOK_S)
        assert 1 <= strict.log().count("Starting session: command") <= 4


async def test_a_trial_that_is_cancelled_leaves_no_port_open(server: SSHServer) -> None:
    transport = SSHTransport(a_settings(server), environment={}, clock=clock.now, is_trial=True)
    async with a_transport(server) as agent:
        await agent.run(TRUE)
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as limit, transport.connected(8):
                await transport.run(TRUE)
                port = transport.agent_endpoint.port
                assert _answers(port)
                limit.reschedule(0.0)
                await asyncio.Event().wait()
        assert limit.expired()
        await until(lambda: not _answers(port))


def test_the_user_is_the_one_of_the_ssh_configuration(server: SSHServer) -> None:
    assert user_of(HOST, server.options) == server.account


@pytest.mark.long
async def test_a_state_directory_with_a_long_name_has_its_socket_elsewhere(
    server: SSHServer,
) -> None:
    long = server.folder / ("x" * 100)
    long.mkdir(mode=0o700)
    settings = a_settings(server, state_dir=long)
    assert settings.control_path() == a_settings(server, state_dir=long).control_path()
    assert len(os.fsencode(settings.control_path())) < 86
    async with a_transport(server, state_dir=long) as transport:
        assert (await transport.run(TRUE)).status == 0
