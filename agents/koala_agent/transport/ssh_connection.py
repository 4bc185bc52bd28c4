"""A site's use of the ssh connection to its host: set-up, loss, and the port of the starters there.

Starters reach the agent through a port that the host's ssh server opens (`-R`). Its number is kept
in a file, because starters of running jobs know it: it is asked for again after each return. While
the server still holds it for a dead connection, new claims get another one, and the old one is
tried until it is free.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from koala.common.runtime.structured_log import get_logger
from koala.errors import LocalManagerError
from koala_agent.transport.interface import Command, SiteAwayError
from koala_agent.transport.shell import Shell
from koala_agent.transport.ssh_host import FIRST_PAUSE_S, LAST_PAUSE_S, SSHHost
from koala_agent.transport.ssh_socket import OPEN_S, Identity, SSHSettings
from koala_agent.transport.ssh_words import (
    SSH_FAILED,
    Failure,
    loss,
    remote_line,
    text_before,
    unheard,
    unmarked,
)

LOOK_S = 1.0
PORT_AGAIN_S = 10.0
PORTS_MAX = 4
"""Ports of earlier connections that running jobs may know."""
PORTS_FILE = "ssh-ports.json"

log = get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEndpoint:
    """Addresses and port at which starters reach the agent."""

    addresses: tuple[str, ...]
    port: int


class SSHConnection:
    """Use of the connection to the host of a site. `run` watches and repairs it."""

    def __init__(
        self,
        settings: SSHSettings,
        host: SSHHost,
        *,
        clock: Callable[[], float],
        is_trial: bool = False,
    ) -> None:
        """A trial has one port of its own, which `leave` closes."""
        self.noise = ""
        """Text that start-up files write to the output of commands."""
        self._is_trial = is_trial
        self._settings = settings
        self._host = host
        self._clock = clock
        self._shell = Shell(environment=os.environ, limit_s=OPEN_S)
        self._agent_port = 0
        self._ports = [] if is_trial else _read_ports(settings.state_dir)
        self._open_ports: list[int] = []
        self._host_name = ""
        self._identity: Identity | None = None  # of the connection that is set up
        self._refused: Identity | None = None  # of the one whose set-up failed last
        self._failure: Failure | None = None
        self._pause_s = FIRST_PAUSE_S
        self._try_at = 0.0
        self._ports_at = 0.0
        self._attempted = asyncio.Event()
        self._look_soon = asyncio.Event()

    @property
    def trouble(self) -> str:
        """Reason why the site cannot be reached; empty when it can."""
        if self._identity is not None:
            return ""
        if self._failure is not None:
            return self._failure.text
        return f"ssh to {self._settings.host}: not connected yet"

    async def ready(self) -> None:
        """Wait for the first attempt. Raises LocalManagerError while the host is out of reach."""
        await self._attempted.wait()
        if self._identity is None:
            raise SiteAwayError(self.trouble)

    def suspect(self) -> None:
        """Check the connection now: a command could not use it."""
        self._look_soon.set()

    @property
    def agent_endpoint(self) -> AgentEndpoint:
        """Addresses and port for starters of new claims. Raises LocalManagerError."""
        if not self._open_ports:
            reason = self.trouble or f"{self._settings.host} opens no port for starters"
            raise SiteAwayError(reason)
        addresses = tuple(dict.fromkeys(filter(None, (self._host_name, "127.0.0.1"))))
        return AgentEndpoint(addresses=addresses, port=self._open_ports[0])

    async def leave(self) -> None:
        """Close the port of a trial."""
        if self._is_trial and self._open_ports:
            # ssh knows it by the number that was asked for: 0, for any.
            with suppress(LocalManagerError):  # it closes with the connection, too
                await self._shell.run(Command(argv=self._forwarding("cancel", 0)))

    async def run(self, agent_port: int) -> None:
        """Keep the connection until cancelled; forward starters to this local port, unless 0."""
        self._agent_port = agent_port
        while True:
            try:
                await self._check()
            except (LocalManagerError, OSError) as error:
                self._lose(Failure(text=str(error), needs_person=False))
            self._attempted.set()
            self._look_soon.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._look_soon.wait()

    # The connection ------------------------------------------------------------------------------

    async def _check(self) -> None:
        identity = await self._host.check()
        if identity is None:
            self._lose(self._host.failure)  # before it is opened again, which takes its time
            identity = await self._host.open()
        if identity is None:
            self._lose(self._host.failure)
            return
        if identity != self._identity:
            if identity == self._refused and self._clock() < self._try_at:
                return
            self._refused = identity
            await self._set_up(identity)
        if self._clock() >= self._ports_at:
            await self._open_other_ports()

    def _back_off(self) -> None:
        """Put off the next attempt to set up, should this one fail."""
        self._try_at = self._clock() + self._pause_s
        self._pause_s = min(2 * self._pause_s, LAST_PAUSE_S)

    def _lose(self, why: Failure | None) -> None:
        is_news = self._identity is not None or why != self._failure
        self._identity = None
        self._open_ports = []
        self._failure = why
        if is_news and not self._is_trial:
            log.warning("ssh.lost", host=self._settings.host, reason=self.trouble)

    async def _set_up(self, identity: Identity) -> None:
        """Prepare a connection that is new to us. Raises LocalManagerError."""
        self._back_off()
        self._identity = None  # until its ports are open
        ask = Command(argv=("/bin/sh", "-c", "hostname -f || hostname"))
        line = remote_line(ask, environment={}, limit_s=OPEN_S)
        marked = await self._shell.run(Command(argv=(*self._host.words(), line)))
        answer = unmarked(marked)
        if marked.status == SSH_FAILED:
            raise SiteAwayError(loss(self._settings.host, self._settings.site, marked.err).text)
        if answer is None:
            raise LocalManagerError(unheard(self._settings.host, marked))
        self._host_name = answer.out.strip().rpartition("\n")[2]
        self.noise = text_before(marked)
        await self._open_ports_again()
        self._identity, self._failure, self._pause_s = identity, None, FIRST_PAUSE_S
        self._refused = None
        self._host.use(identity)
        if not self._is_trial:
            log.info("ssh.connected", host=self._settings.host, ports=self._open_ports)

    # The starters' port --------------------------------------------------------------------------

    async def _open_ports_again(self) -> None:
        """Open the ports that starters know; another one if the newest is taken."""
        self._open_ports = []
        if not self._agent_port:
            return
        for port in self._ports:
            if await self._forward(port) == port:
                self._open_ports.append(port)
        if not self._ports or self._ports[0] not in self._open_ports:
            if self._ports:
                log.warning("ssh.port_taken", host=self._settings.host, port=self._ports[0])
            port = await self._forward(0)
            if not port:
                raise SiteAwayError(
                    f"{self._settings.host} opens no port for starters (AllowTcpForwarding of its"
                    " ssh server)"
                )
            others = [known for known in self._ports if known != port]
            self._ports = [port, *others][:PORTS_MAX]
            self._open_ports.insert(0, port)
            if not self._is_trial:
                await asyncio.to_thread(_write_ports, self._settings.state_dir, self._ports)
        self._ports_at = self._clock() + PORT_AGAIN_S

    async def _open_other_ports(self) -> None:
        """Try the ports again that were taken: starters of running jobs look for us there."""
        self._ports_at = self._clock() + PORT_AGAIN_S
        for port in self._ports:
            if port not in self._open_ports and await self._forward(port) == port:
                self._open_ports.append(port)
                log.info("ssh.port_opened", host=self._settings.host, port=port)

    async def _forward(self, port: int) -> int:
        """Ask the host to listen at a port, 0 for any; return its number, 0 when it is taken."""
        answer = await self._shell.run(Command(argv=self._forwarding("forward", port)))
        if answer.status:
            return 0
        number = answer.out.strip()
        return port or (int(number) if number.isdigit() else 0)

    def _forwarding(self, verb: str, port: int) -> tuple[str, ...]:
        where = f"{self._settings.listen}:{port}:127.0.0.1:{self._agent_port}"
        return self._host.words("-O", verb, "-R", where)


def _read_ports(state_dir: Path) -> list[int]:
    with suppress(OSError, ValueError):
        ports = json.loads((state_dir / PORTS_FILE).read_text(encoding="ascii"))
        if isinstance(ports, list):
            return [port for port in ports if isinstance(port, int) and 0 < port < 2**16]
    return []


def _write_ports(state_dir: Path, ports: list[int]) -> None:
    new = state_dir / f"{PORTS_FILE}.new"
    new.write_text(json.dumps(ports), encoding="ascii")
    new.replace(state_dir / PORTS_FILE)
