"""The ssh transport: the agent runs anywhere, and reaches its site by the OpenSSH client alone.

Commands go through the shared connection (`ssh_host`), each in a session of its own. A command
without an answer may have run, as with a batch system that is away: the next listing decides. Files
go through one process at the host (`site_files`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from koala.errors import KoalaError, LocalManagerError
from koala_agent.transport.command_budget import CommandBudget
from koala_agent.transport.interface import Answer, Command, SiteAwayError
from koala_agent.transport.shell import Shell
from koala_agent.transport.site_files import SiteFilesByCalls
from koala_agent.transport.ssh_connection import AgentEndpoint, SSHConnection
from koala_agent.transport.ssh_host import AT_ONCE, SSHHost
from koala_agent.transport.ssh_socket import SSHSettings
from koala_agent.transport.ssh_words import (
    SSH_FAILED,
    loss,
    not_run,
    remote_line,
    unheard,
    unmarked,
)


class SSHTransport(SiteFilesByCalls):
    """`Transport` to the host of the settings. `run_beside` must run in a task."""

    def __init__(
        self,
        settings: SSHSettings,
        host: SSHHost | None = None,
        *,
        environment: Mapping[str, str],
        clock: Callable[[], float],
        is_trial: bool = False,
    ) -> None:
        """A `host` is one that sites of this process share."""
        self.has_login = True
        """False once the start-up files of a login have started something else than a command."""
        self._settings = settings
        self._environment = dict(environment)
        self._host = host or SSHHost(settings, clock=clock)
        self._connection = SSHConnection(settings, self._host, clock=clock, is_trial=is_trial)
        self._shell = Shell(environment=os.environ, limit_s=settings.limit_s, at_once=AT_ONCE)
        self._tasks: asyncio.TaskGroup | None = None

    @asynccontextmanager
    async def connected(self, agent_port: int) -> AsyncIterator[None]:
        """Keep the connection for the length of a block."""
        failed: Exception | None = None
        async with asyncio.TaskGroup() as group:
            beside = group.create_task(self.run_beside(agent_port))
            try:
                yield
            except (KoalaError, OSError) as error:  # as it is, and not in a group
                failed = error
            finally:
                beside.cancel()
                await self._connection.leave()
        if failed is not None:
            raise failed

    async def run_beside(self, agent_port: int) -> None:
        """Keep the connection until cancelled; forward starters to this port of this machine."""
        async with asyncio.TaskGroup() as self._tasks:
            await self._connection.run(agent_port)

    @property
    def budget(self) -> CommandBudget:
        """The budget of commands at the host."""
        return self._host.budget

    @property
    def agent_endpoint(self) -> AgentEndpoint:
        """Addresses and port for starters. Raises LocalManagerError while there is no port."""
        return self._connection.agent_endpoint

    async def ready(self) -> None:
        """Wait for the first attempt to connect. Raises LocalManagerError when it failed."""
        await self._connection.ready()

    @property
    def noise(self) -> str:
        """Text that start-up files of the login shell write before each command's output."""
        return self._connection.noise

    @property
    def trouble(self) -> str:
        """Reason why the site cannot be reached; empty when it can."""
        return self._connection.trouble

    async def run(self, command: Command, account: str = "") -> Answer:
        assert not account, "one account per host: the configuration is checked for it"
        await self._connection.ready()
        settings = self._settings
        marked = await self._send(command)
        answer = unmarked(marked)
        if answer is None and command.hands_on:  # nothing ran: a profile that goes elsewhere
            self.has_login = False
            marked = await self._send(command, is_login=False)
            answer = unmarked(marked)
        if marked.status == SSH_FAILED:
            self._connection.suspect()
            raise SiteAwayError(loss(settings.host, settings.site, (answer or marked).err).text)
        if answer is None:
            raise LocalManagerError(unheard(settings.host, marked))
        if reason := not_run(settings.host, command, answer):
            raise LocalManagerError(reason)
        return answer

    async def _send(self, command: Command, *, is_login: bool = True) -> Answer:
        settings = self._settings
        line = remote_line(
            command,
            environment=self._environment,
            limit_s=settings.limit_s,
            is_login=is_login,
        )
        argv = (*self._host.words(), line)
        async with self._host.slots:
            try:
                return await self._shell.run(Command(argv=argv, stdin=command.stdin))
            except LocalManagerError as error:
                self._connection.suspect()
                message = f"{command.argv[0]} at {settings.host}: {error}"
                raise LocalManagerError(message, transient=error.transient) from error

    # Files ---------------------------------------------------------------------------------------

    async def _call(self, name: str, path: bytes, *arguments: object) -> Any:  # noqa: ANN401
        await self._connection.ready()
        assert self._tasks is not None
        files = await self._host.files(self._tasks)
        return await files.call(name, path, *arguments)
