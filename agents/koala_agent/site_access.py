"""Access to the site of a configuration: its transport, for the agent and for its checks."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from koala.common.runtime import clock
from koala.errors import ConfigError
from koala_agent import environments
from koala_agent.config_tables import Config
from koala_agent.lrm.batch_system import outer_job_variables
from koala_agent.transport.interface import Transport
from koala_agent.transport.local import LocalTransport
from koala_agent.transport.shell import AccountSwitch
from koala_agent.transport.ssh import SSHTransport
from koala_agent.transport.ssh_connection import AgentEndpoint
from koala_agent.transport.ssh_host import SSHHosts
from koala_agent.transport.ssh_socket import SSHSettings, user_of

WILDCARDS = ("0.0.0.0", "::", "[::]", "")


def agent_addresses(listen: str) -> tuple[str, ...]:
    """Return the addresses at which starters look for this agent, in order."""
    return (socket.gethostname(), "127.0.0.1") if listen in WILDCARDS else (listen,)


def mailbox_of(config: Config) -> str:
    """Return the folder of the site's mailbox, as the site sees it; empty where starters dial.
    Several sites may share what `starter.mailbox` names."""
    if config.starter.line == "tcp":
        return ""
    if config.starter.mailbox:
        return f"{config.starter.mailbox}/{config.agent.site}"
    if config.transport.kind == "ssh":
        return f".koala-mailbox/{config.agent.site}"
    return str(Path(config.agent.state_dir) / "mailbox")


def ssh_settings(config: Config) -> SSHSettings:
    """Return the settings of the ssh connection to the site."""
    return SSHSettings(
        site=config.agent.site,
        host=config.transport.host,
        state_dir=Path(config.agent.state_dir),
        options=config.transport.options,
        control=config.transport.control,
        listen=config.transport.listen,
        commands_per_minute=config.lrm.commands_per_minute,
        limit_s=config.lrm.command_limit_s,
        python=config.starter.python or "",
    )


def ssh_transport(
    config: Config, hosts: SSHHosts | None = None, *, is_trial: bool = False
) -> SSHTransport:
    """Return the ssh transport to the site; `hosts` are those that sites of this process share. A
    trial leaves no port open. Raises ConfigError."""
    settings = ssh_settings(config)
    return SSHTransport(
        settings,
        hosts.at(settings) if hosts else None,
        environment=config.lrm.environment,
        clock=clock.now,
        is_trial=is_trial,
    )


def local_transport(
    config: Config, *, switches: Mapping[str, AccountSwitch] | None = None, umask: int = -1
) -> LocalTransport:
    """Return the transport to the batch system of this machine."""
    given = config.lrm.environment
    outer = outer_job_variables(os.environ)
    return LocalTransport(
        environment=environments.of_commands(given),
        programs=lambda names: environments.of_programs(given, without=names, outer=outer),
        limit_s=config.lrm.command_limit_s,
        switches=switches,
        umask=umask,
    )


def check_installation(config: Config, *, is_complete: bool) -> None:
    """Check that the batch system of this machine is where an agent would look for it: all that is
    used, or only that without which an agent can do nothing, now or later. Raises ConfigError."""
    if config.system.is_emulated or config.transport.kind != "local":
        return
    environment = environments.of_commands(config.lrm.environment)
    path = environment.get("PATH", os.defpath)
    programs = config.system.programs if is_complete else config.system.programs[:3]
    if lost := [name for name in programs if not shutil.which(name, path=path)]:
        raise ConfigError(missing_programs(lost, path))
    for place in config.system.places:
        with suppress(KeyError):  # a variable that is not set: its default is the system's own
            path_there = place.format_map(environment)
            if not Path(path_there).exists():
                raise ConfigError(
                    f"{path_there} is not there (expected in lrm.environment what selects a"
                    f" {config.system.title} of this machine: {', '.join(config.system.variables)})"
                )


def missing_programs(lost: Sequence[str], path: str, *, where: str = "") -> str:
    """Explain that commands of a batch system were not found."""
    return (
        f"{', '.join(lost)} not found in PATH = {path!r}{where}: name the folder in"
        ' lrm.environment, as in environment = { PATH = "/opt/batch/bin:/usr/bin:/bin" }'
    )


def account_at(config: Config) -> str:
    """Return the name under which the batch system knows our jobs. Raises ConfigError."""
    if config.transport.kind == "ssh":
        return user_of(config.transport.host, config.transport.options)
    return pwd.getpwuid(os.geteuid()).pw_name


@asynccontextmanager
async def reached(config: Config, *, agent_port: int = 0) -> AsyncIterator[Transport]:
    """Reach the site for the length of a block, beside an agent that may run. Raises
    LocalManagerError."""
    if config.transport.kind == "local":
        yield local_transport(config)
        return
    transport = ssh_transport(config, is_trial=True)
    async with transport.connected(agent_port):
        await transport.ready()
        yield transport


def agent_endpoint(config: Config, transport: Transport, *, agent_port: int) -> AgentEndpoint:
    """Return the addresses and port at which starters reach an agent at this port. Raises
    LocalManagerError while there are none."""
    if isinstance(transport, SSHTransport):
        endpoint = transport.agent_endpoint
        return AgentEndpoint(
            addresses=config.starter.addresses or endpoint.addresses, port=endpoint.port
        )
    addresses = config.starter.addresses or agent_addresses(config.starter.listen)
    return AgentEndpoint(addresses=addresses, port=agent_port)
