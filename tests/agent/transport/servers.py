"""Make ssh transports to a real ssh server, for tests."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from koala.common.runtime import clock
from koala.errors import LocalManagerError
from koala_agent.transport.interface import Answer, Command
from koala_agent.transport.ssh import SSHTransport
from koala_agent.transport.ssh_socket import SSHSettings
from tests.harness.moments import moment
from tests.harness.ssh_server import HOST, SSHServer, ssh_server

PATIENCE_S = 90.0


@contextmanager
def a_server(
    *,
    settings: str = "",
    account: str = "",
    shell: str = "/bin/sh",
    is_apart: bool = False,
) -> Iterator[SSHServer]:
    """A running server; at the end no shared connection to it is left."""
    with tempfile.TemporaryDirectory(prefix="koala-ssh-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # the account at the other end enters it
        with ssh_server(
            folder, settings=settings, account=account, shell=shell, is_apart=is_apart
        ) as server:
            (folder / "state").mkdir(mode=0o700)
            yield server


def a_settings(server: SSHServer, **changes: object) -> SSHSettings:
    """Settings of a site behind the server."""
    given: dict[str, object] = {
        "site": HOST,
        "host": HOST,
        "state_dir": server.folder / "state",
        "options": server.options,
        "limit_s": 20.0,
        "commands_per_minute": 60_000,
    }
    return SSHSettings(**{**given, **changes})  # type: ignore[arg-type]  # by name


@asynccontextmanager
async def a_transport(
    server: SSHServer,
    *,
    port: int = 9,
    environment: dict[str, str] | None = None,
    **changes: object,
) -> AsyncIterator[SSHTransport]:
    """A transport that keeps its connection for the length of a block; afterwards it is closed."""
    settings = a_settings(server, **changes)
    transport = SSHTransport(settings, environment=environment or {}, clock=clock.now)
    try:
        async with asyncio.timeout(PATIENCE_S), transport.connected(port):
            yield transport
    finally:
        close(settings)


def close(settings: SSHSettings) -> None:
    """End the shared connection, if there is one."""
    command = ["ssh", *settings.options, "-S", settings.control_path(), "-O", "exit", HOST]
    subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE_S)


def holder_of(settings: SSHSettings) -> int:
    """Return the process that holds the shared connection."""
    command = ["ssh", *settings.options, "-S", settings.control_path(), "-O", "check", HOST]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int("".join(filter(str.isdigit, done.stderr)))


def kill_holder(settings: SSHSettings) -> None:
    """kill -9 of the shared connection."""
    os.kill(holder_of(settings), signal.SIGKILL)


async def trouble_of(transport: SSHTransport) -> str:
    """Run a command until the site cannot be reached; return the reason."""
    command = Command(argv=("true",))
    while True:
        try:
            await transport.run(command)
        except LocalManagerError as error:
            return str(error)


async def answer_of(transport: SSHTransport, command: Command) -> Answer:
    """Run a command until the site can be reached."""
    while True:
        with suppress(LocalManagerError):
            return await transport.run(command)
        await moment()
