"""A host behind ssh, as all sites of this process share it.

Sites with the same socket (`transport.control`) have one connection, one budget of commands and one
session for files, however many batch systems or queues they stand for. So an administrator sees one
user, and a connection that needs a person is tried once, not once a site.

One process of the OpenSSH client holds the connection (ControlMaster). It belongs to nobody's
session: `koala site login` opens it with a second factor, the agent opens it where a key is enough,
and it outlives both. An agent that finds it lost opens it again with back-off. Where that needs a
person it says so, and tries again by itself only once in a long while: repeated failures would lock
the account.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from koala.errors import ConfigError, LocalManagerError
from koala_agent.transport.command_budget import CommandBudget
from koala_agent.transport.interface import Command
from koala_agent.transport.shell import Shell
from koala_agent.transport.site_files import FileCaller, open_files
from koala_agent.transport.ssh_socket import (
    OPEN_S,
    Identity,
    SSHSettings,
    locked,
    remove_dead,
    socket_identity,
)
from koala_agent.transport.ssh_words import Failure, failure, opening, shared_connection

AT_ONCE = 6
"""Commands at a time. Servers allow ten sessions of a connection by default (MaxSessions)."""
FIRST_PAUSE_S, LAST_PAUSE_S = 1.0, 60.0
PERSON_S = 1800.0
"""Pause after a failure that needs a person."""


class SSHHost:
    """Connection, budget of commands and session for files of one login at a host. Its settings are
    those of the first site there, whose name `koala site login` takes."""

    def __init__(self, settings: SSHSettings, *, clock: Callable[[], float]) -> None:
        self.settings = settings
        self.control = settings.control_path()
        self.failure: Failure | None = None
        """Reason why there is no connection; None when there is one, or none was tried."""
        self._words = shared_connection(settings.options, self.control)
        self._clock = clock
        self._opener = Shell(environment=os.environ, limit_s=OPEN_S)
        self._opening = asyncio.Lock()
        self._used: Identity | None = None
        self._pause_s = FIRST_PAUSE_S
        self._try_at = 0.0
        self.budget = CommandBudget(settings.commands_per_minute, clock=clock)
        """Budget of the commands that ask its batch systems."""
        self.slots = asyncio.Semaphore(AT_ONCE)
        self._files: FileCaller | None = None
        self._opening_files = asyncio.Lock()

    def words(self, *more: str) -> tuple[str, ...]:
        """Return an ssh command that uses the connection: options, then the host."""
        return (*self._words, *more, "--", self.settings.host)

    # The connection ------------------------------------------------------------------------------

    async def check(self) -> Identity | None:
        """Return the connection that is open; None, with a `failure` once it was lost."""
        identity = await asyncio.to_thread(socket_identity, self.control)
        if identity is not None:
            self.failure = None
        elif self._used is not None:
            self._used = None
            self._fail(f"ssh to {self.settings.host}: connection lost")
            self._pause_s, self._try_at = FIRST_PAUSE_S, self._clock()
        return identity

    async def open(self) -> Identity | None:
        """Open the connection where no person is needed, and return it; None, with a `failure`,
        while there is none. One site does it for all."""
        async with self._opening:
            identity = await self.check()
            if identity is None and self._clock() >= self._try_at:
                try:
                    identity = await self._open()
                except (LocalManagerError, OSError) as error:
                    self._fail(str(error))
            if identity is not None:
                self.failure = None
            return identity

    def use(self, identity: Identity) -> None:
        """Note that this connection serves: when it is lost, the next one is opened at once."""
        self._used = identity
        self._pause_s = FIRST_PAUSE_S

    async def _open(self) -> Identity | None:
        self._try_at = self._clock() + self._pause_s
        self._pause_s = min(2 * self._pause_s, LAST_PAUSE_S)
        settings = self.settings
        with locked(self.control) as is_ours:
            if not is_ours:  # somebody logs in at this moment
                return None
            await asyncio.to_thread(remove_dead, self.control)
            argv = opening(settings.options, self.control, settings.host, asks=False)
            answer = await self._opener.run(Command(argv=argv))
        if answer.status:
            self.failure = failure(settings.host, settings.site, answer.err)
            if self.failure.needs_person:
                self._try_at = self._clock() + PERSON_S
            return None
        return await asyncio.to_thread(socket_identity, self.control)

    def _fail(self, text: str) -> None:
        self.failure = Failure(text=text, needs_person=False)

    # Files ---------------------------------------------------------------------------------------

    async def files(self, tasks: asyncio.TaskGroup) -> FileCaller:
        """Return the session for files; a new one is served by one of these tasks. Raises
        LocalManagerError."""
        async with self._opening_files:
            if self._files is None or not self._files.is_open:
                settings = self.settings
                self._files = await open_files(
                    self.words(), python=settings.python, limit_s=settings.limit_s
                )
                tasks.create_task(self._files.receive())
            return self._files


class SSHHosts:
    """The hosts of this process, by the socket of their connection."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._hosts: dict[str, SSHHost] = {}

    def at(self, settings: SSHSettings) -> SSHHost:
        """Return the host of these settings. Raises ConfigError for a site that has the connection
        of another one, and disagrees with it."""
        control = settings.control_path()
        host = self._hosts.setdefault(control, SSHHost(settings, clock=self._clock))
        for name in ("host", "options", "commands_per_minute"):
            value, agreed = getattr(settings, name), getattr(host.settings, name)
            if value != agreed:
                table = "lrm" if name == "commands_per_minute" else "transport"
                raise ConfigError(
                    f"site {settings.site}: {table}.{name} = {value!r} (expected {agreed!r}, as"
                    f" for site {host.settings.site}, which has the same connection: {control})"
                )
        return host
