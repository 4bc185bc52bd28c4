"""Steps of `koala site connect` that change something, at the host and here.

Each step looks first, and leaves alone what is there: the command can be repeated after any
interruption.
"""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import grpc

from koala.common.identity.tls import DAEMON_HOST, JoinToken, secure_channel
from koala.common.wire.v1.identity_pb2 import WhereRequest
from koala.common.wire.v1.identity_pb2_grpc import EnrolmentStub
from koala.errors import ConfigError, KoalaError, LocalManagerError, UnreachableError
from koala_agent.connect.plan import FOLDER
from koala_agent.connect.survey import AGENT_MIN, Survey, read_survey, survey_command
from koala_agent.transport.interface import Answer, Command
from koala_agent.transport.ssh import SSHTransport

INSTALL_S = 900.0
"""Limit of the longest step at a host: an installation that fetches everything."""
CALL_S = 10.0
SITE_CONFIG = ".config/koala/{site}.toml"
CONFIG_BYTES_MAX = 2**20


class StepError(KoalaError):
    """A step at the host failed; what was done before stays, and the command can be repeated."""


async def ask_host(site: SSHTransport, host: str) -> Survey:
    """Make the survey of a host. Raises LocalManagerError and StepError."""
    answer = await site.run(survey_command())
    survey = read_survey(answer)
    if survey is None:
        raise StepError(f"the login shell at {host} ran no script: {answer.complaint()}")
    return survey


async def agents_port(token: JoinToken) -> int:
    """Ask the daemon for its port for agents. Raises UnreachableError."""
    channel = secure_channel(token.address, DAEMON_HOST, authority=token.authority, options=())
    try:
        async with channel:
            where = await EnrolmentStub(channel).Where(WhereRequest(), timeout=CALL_S)
    except grpc.aio.AioRpcError as error:
        message = f"the daemon at {token.address} does not tell its port for agents"
        raise UnreachableError(f"{message}: {error.details()}") from error
    return int(where.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host that gets an agent of its own. It is installed, and started, as after a login: with
    the variables that name a proxy, and with those that programs are to have."""

    site: SSHTransport
    survey: Survey
    name: str

    def program_folder(self, wheel: Path) -> str:
        """Return the folder of the program that this wheel makes there."""
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()[:12]
        return f"{self.survey.home}/{FOLDER}/{digest}"

    async def install(self, wheel: Path) -> str:
        """Install a wheel in an environment of its own; return the path of `koala-agent`. Raises
        StepError, LocalManagerError."""
        folder = await asyncio.to_thread(self.program_folder, wheel)
        agent = f"{folder}/bin/koala-agent"
        if await self._answers(agent, "--version"):
            return agent
        await self._do("mkdir", "-p", "-m", "700", f"{self.survey.home}/{FOLDER}")
        copy = f"{self.survey.home}/{FOLDER}/{wheel.name}"
        content = await asyncio.to_thread(wheel.read_bytes)
        await self.site.put(copy, content)
        uv, python = self.survey.commands.get("uv"), self.survey.python(AGENT_MIN)
        if uv:
            least = ".".join(map(str, AGENT_MIN))
            await self._do(uv, "venv", "-q", "--clear", "--python", python or f">={least}", folder)
            await self._do(uv, "pip", "install", "-q", "--python", f"{folder}/bin/python", copy)
        else:
            await self._do(python, "-m", "venv", "--clear", folder)
            pip = (f"{folder}/bin/python", "-m", "pip", "install", "-q", "--no-input", copy)
            await self._do(*pip)
        await self.site.remove(copy)
        await self._do(agent, "--version")
        return agent

    async def configure(self, site: str, text: str) -> str:
        """Write the agent's file, unless another one is there; return its path."""
        path = f"{self.survey.home}/{SITE_CONFIG.format(site=site)}"
        await self._do("mkdir", "-p", "-m", "700", str(Path(path).parent))
        if await self.site.stat(path) is None:
            await self.site.put(path, text.encode())
        elif await self.site.get(path, CONFIG_BYTES_MAX) != text.encode():
            raise ConfigError(
                f"{path} at {self.name} is another file than this command writes: edit or remove"
                " it there, and start the agent there"
            )
        return path

    async def has_joined(self, state_dir: str) -> bool:
        """Test for the certificate of an earlier run."""
        return await self.site.stat(f"{state_dir}/identity/site.pem") is not None

    async def reaches(self, python: str, port: int) -> bool:
        """Test whether the host reaches a port of the loopback device already: through an earlier
        tunnel, or because it is this machine."""
        dial = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5).close()"
        return await self._answers(python, "-I", "-S", "-c", dial)

    async def join(self, agent: str, config: str, token: str) -> None:
        """Get the certificate there; the token goes by standard input."""
        await self._do(agent, "join", config, stdin=f"{token}\n")

    async def doctor(self, agent: str, config: str) -> str:
        """Check each need there; return the lines. Raises StepError when one is not met."""
        answer = await self.site.run(Command(argv=(agent, "doctor", config), hands_on=True))
        if answer.status:
            raise StepError(f"{answer.out}{answer.err}".strip())
        return answer.out.strip()

    async def start(self, agent: str, config: str) -> str:
        """Start the agent in the background; return what it said."""
        return (await self._do(agent, "start", config)).out.strip()

    async def _answers(self, *argv: str) -> bool:
        try:
            return (await self.site.run(Command(argv=argv, hands_on=True))).status == 0
        except LocalManagerError as error:
            if error.transient:
                raise
            return False

    async def _do(self, *argv: str, stdin: str = "") -> Answer:
        answer = await self.site.run(Command(argv=argv, stdin=stdin, hands_on=True))
        if answer.status:
            raise StepError(f"{argv[0]} at {self.name} failed: {answer.complaint()}")
        return answer


def local_agent(verb: str, config: Path) -> int:
    """Run `koala-agent VERB CONFIG` here, with its output; return its exit status."""
    argv = [sys.executable, "-P", "-m", "koala_agent", verb, str(config)]
    return subprocess.run(argv, check=False).returncode
