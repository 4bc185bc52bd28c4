"""The shared ssh connection to a host: start, loss, return, and the port of the starters there.

One process of the OpenSSH client holds the connection (ControlMaster); commands and files go
through its socket. It belongs to nobody's session: `koala site login` opens it with a second
factor, the agent opens it where a key is enough, and it outlives both. An agent that finds it lost
opens it again with back-off. Where that needs a person it says so, and tries again by itself only
once in a long while: repeated failures would lock the account.

Starters reach the agent through a port that the host's ssh server opens (`-R`). Its number is kept
in a file, because starters of running jobs know it: it is asked for again after each return. While
the server still holds it for a dead connection, new claims get another one, and the old one is
tried until it is free.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

import structlog

from koala.errors import ConfigError, LocalManagerError, UnreachableError
from koala_agent.transport.port import Command, SiteAwayError
from koala_agent.transport.shell import Shell
from koala_agent.transport.ssh_words import (
    SSH_FAILED,
    Failure,
    failure,
    last_line,
    loss,
    opening,
    shared_connection,
)

OPEN_S = 45.0
"""Longest time in which the connection opens by itself, over jump hosts too."""
LOGIN_S = 180.0
"""Longest time in which a person answers. ssh waits at its questions for ever, even when the server
has closed the connection, and no other login could begin."""
CONFIGURATION_S = 10.0
LOOK_S = 1.0
FIRST_PAUSE_S, LAST_PAUSE_S = 1.0, 60.0
PERSON_S = 1800.0
"""Pause after a failure that needs a person."""
PORT_AGAIN_S = 10.0
PORTS_MAX = 4
"""Ports of earlier connections that running jobs may know."""
PORTS_FILE = "ssh-ports.json"
SOCKET_BYTES_MAX = 85
"""Longest path of a socket that leaves room for the suffix of ssh."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class SSHSettings:
    """Settings of a site's ssh transport.

    `options` are more words for ssh; `control` is the path of a shared connection that the user
    keeps, empty for our own below `state_dir`; `listen` is the address at the host at which it
    opens the starters' port. `commands_per_minute` bounds the processes that start at the host.
    """

    site: str
    host: str
    state_dir: Path
    options: tuple[str, ...] = ()
    control: str = ""
    listen: str = "*"
    commands_per_minute: int = 120
    limit_s: float = 15.0

    def control_path(self) -> str:
        """Return the path of the shared connection's socket. A folder in a place with a short name
        is made if the state directory's is too long. Raises ConfigError."""
        if self.control:
            return str(Path(self.control).expanduser())
        self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.state_dir / "ssh.sock"
        if len(os.fsencode(path)) <= SOCKET_BYTES_MAX:
            return str(path)
        folder = Path(gettempdir()) / f"koala-{os.geteuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if found.st_uid != os.geteuid() or found.st_mode & 0o077 or folder.is_symlink():
            raise ConfigError(f"{folder}: allowed is a folder of this account with mode 0700")
        status = self.state_dir.stat()  # the same folder by any name
        return str(folder / f"{status.st_dev:x}-{status.st_ino:x}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StarterLine:
    """Addresses and port at which starters reach the agent."""

    addresses: tuple[str, ...]
    port: int


class SSHConnection:
    """Shared connection to the host of a site. `run` watches and repairs it."""

    def __init__(
        self, settings: SSHSettings, *, clock: Callable[[], float], is_trial: bool = False
    ) -> None:
        """A trial has one port of its own, which `leave` closes."""
        self._is_trial = is_trial
        self._settings = settings
        self._clock = clock
        self._shell = Shell(environment=os.environ, limit_s=OPEN_S)
        self.control = settings.control_path()
        self._words = shared_connection(settings.options, self.control)
        self._agent_port = 0
        self._ports = [] if is_trial else _read_ports(settings.state_dir)
        self._open_ports: list[int] = []
        self._host_name = ""
        self._identity: tuple[int, int] | None = None  # of the socket that is set up
        self._refused: tuple[int, int] | None = None  # of the one whose set-up failed last
        self._failure: Failure | None = None
        self._pause_s = FIRST_PAUSE_S
        self._try_at = 0.0
        self._ports_at = 0.0
        self._attempted = asyncio.Event()
        self._look_soon = asyncio.Event()

    def words(self, *more: str) -> tuple[str, ...]:
        """Return an ssh command that uses the connection: options, then the host."""
        return (*self._words, *more, "--", self._settings.host)

    @property
    def trouble(self) -> str:
        """Reason why the site cannot be reached; empty when it can."""
        if self._identity is not None:
            return ""
        if self._failure is not None:
            return self._failure.text
        return f"ssh to {self._settings.host}: not connected yet"

    async def ready(self) -> None:
        """Wait for the end of the first attempt. Raises LocalManagerError while the host cannot be
        reached."""
        await self._attempted.wait()
        if self._identity is None:
            raise SiteAwayError(self.trouble)

    def suspect(self) -> None:
        """Look at the connection now: a command could not use it."""
        self._look_soon.set()

    @property
    def line(self) -> StarterLine:
        """Addresses and port for starters of new claims. Raises LocalManagerError."""
        if not self._open_ports:
            reason = self.trouble or f"{self._settings.host} opens no port for starters"
            raise SiteAwayError(reason)
        addresses = tuple(dict.fromkeys(filter(None, (self._host_name, "127.0.0.1"))))
        return StarterLine(addresses=addresses, port=self._open_ports[0])

    async def leave(self) -> None:
        """Close the port of a trial."""
        if self._is_trial and self._open_ports:
            # ssh knows it by the number that was asked for: 0, for any.
            with suppress(LocalManagerError):  # it closes with the connection, too
                await self._shell.run(Command(argv=self._forwarding("cancel", 0)))

    async def run(self, agent_port: int) -> None:
        """Keep the connection until cancelled; starters are led to this port of this machine, if it
        is not 0."""
        self._agent_port = agent_port
        while True:
            try:
                await self._look()
            except (LocalManagerError, OSError) as error:
                self._lose(Failure(text=str(error), needs_person=False))
            self._attempted.set()
            self._look_soon.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._look_soon.wait()

    # The connection ------------------------------------------------------------------------------

    async def _look(self) -> None:
        found = await asyncio.to_thread(socket_identity, self.control)
        if found is None:
            if self._identity is not None:
                self._lose(None)
            if self._clock() < self._try_at:
                return
            await self._open()
            found = await asyncio.to_thread(socket_identity, self.control)
        if found is not None and found != self._identity:
            if found == self._refused and self._clock() < self._try_at:
                return
            self._refused = found
            await self._set_up(found)
        if self._identity is not None and self._clock() >= self._ports_at:
            await self._open_other_ports()

    async def _open(self) -> None:
        """Open the connection where no person is needed. Raises LocalManagerError."""
        self._back_off()
        with locked(self.control) as is_ours:
            if not is_ours:  # somebody logs in at this moment
                return
            await asyncio.to_thread(remove_dead, self.control)
            argv = opening(self._settings.options, self.control, self._settings.host, asks=False)
            answer = await self._shell.run(Command(argv=argv))
        if answer.status == 0:
            return
        why = failure(self._settings.host, self._settings.site, answer.err)
        if why.needs_person:
            self._try_at = self._clock() + PERSON_S
        self._lose(why)

    def _back_off(self) -> None:
        """Put off the next attempt, should this one fail."""
        self._try_at = self._clock() + self._pause_s
        self._pause_s = min(2 * self._pause_s, LAST_PAUSE_S)

    def _lose(self, why: Failure | None) -> None:
        is_news = self._identity is not None or why != self._failure
        self._identity = None
        self._open_ports = []
        if why is None:
            why = Failure(text=f"ssh to {self._settings.host}: connection lost", needs_person=False)
            self._try_at = self._clock()
            self._pause_s = FIRST_PAUSE_S
        self._failure = why
        if is_news and not self._is_trial:
            log.warning("ssh.lost", host=self._settings.host, reason=why.text)

    async def _set_up(self, found: tuple[int, int]) -> None:
        """Prepare a connection that is new to us. Raises LocalManagerError."""
        self._back_off()
        answer = await self._shell.run(Command(argv=(*self.words(), "hostname -f || hostname")))
        if answer.status == SSH_FAILED:
            raise SiteAwayError(loss(self._settings.host, self._settings.site, answer.err).text)
        self._host_name = answer.out.strip().rpartition("\n")[2]
        await self._open_ports_again()
        self._identity, self._failure, self._pause_s = found, None, FIRST_PAUSE_S
        self._refused = None
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
            others = [one for one in self._ports if one != port]
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
        return self.words("-O", verb, "-R", where)


def log_in(
    settings: SSHSettings,
    *,
    limit_s: float = LOGIN_S,
    tell: Callable[[str], None] = lambda _text: None,
) -> bool:
    """Open the shared connection; a person answers the questions of ssh at the terminal. False when
    it was open. `tell` gets the reason of a wait. Raises UnreachableError and ConfigError."""
    control = settings.control_path()
    with locked(control) as is_free:
        pass
    if not is_free:
        tell(f"waiting for another login at {settings.host}, which has not ended")
    with locked(control, waits=True):
        if socket_identity(control) is not None:
            return False
        remove_dead(control)
        argv = opening(settings.options, control, settings.host, asks=True)
        try:
            status = _ended(argv, limit_s)
        except OSError as error:
            raise ConfigError(f"ssh cannot be run: {error}: install the OpenSSH client") from error
        except subprocess.TimeoutExpired as error:
            raise UnreachableError(
                f"ssh to {settings.host} was not connected within {limit_s:g} s: log in again"
            ) from error
    if status or socket_identity(control) is None:
        raise UnreachableError(
            f"ssh to {settings.host} ended with status {status}; its message is above"
        )
    return True


def _ended(argv: Sequence[str], limit_s: float) -> int:
    """Run a command that asks at the terminal; return its exit status. Raises OSError and
    TimeoutExpired."""
    with subprocess.Popen(argv) as process:
        try:
            return process.wait(limit_s)
        finally:
            process.terminate()  # it shows again what is typed, which a kill would not


def open_tunnel(settings: SSHSettings, port: int) -> None:
    """Lead a port of the host's loopback device to the same port here, through the connection. One
    that is led already is left as it is. Raises UnreachableError."""
    words = shared_connection(settings.options, settings.control_path())
    where = f"127.0.0.1:{port}:127.0.0.1:{port}"
    argv = (*words, "-O", "forward", "-R", where, "--", settings.host)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=OPEN_S, check=False)
    if done.returncode:
        raise UnreachableError(
            f"port {port} of {settings.host} cannot be led here: {last_line(done.stderr)}. Somebody"
            " there may have it: choose other ports in the daemon's file"
        )


def user_of(host: str, options: Sequence[str]) -> str:
    """Return the user whom the ssh configuration names for a host. Raises ConfigError."""
    try:
        done = subprocess.run(
            ("ssh", "-G", *options, "--", host),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=CONFIGURATION_S,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        raise ConfigError(f"transport.host = {host!r}: {last_line(error.stderr)}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"ssh cannot be run: {error}: install the OpenSSH client") from error
    found = re.search(r"^user (.+)$", done.stdout, re.MULTILINE)
    return found[1] if found else ""


def socket_identity(control: str) -> tuple[int, int] | None:
    """Return what tells one shared connection from the next; None when none is open."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(LOOK_S)
            probe.connect(control)
        found = Path(control).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def remove_dead(control: str) -> None:
    """Remove the socket that a killed ssh left: the next one would not replace it."""
    if socket_identity(control) is None:
        Path(control).unlink(missing_ok=True)


@contextmanager
def locked(control: str, *, waits: bool = False) -> Iterator[bool]:
    """Let one process at a time open the connection; False when another one does."""
    path = f"{control}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def _read_ports(state_dir: Path) -> list[int]:
    with suppress(OSError, ValueError):
        found = json.loads((state_dir / PORTS_FILE).read_text(encoding="ascii"))
        if isinstance(found, list):
            return [port for port in found if isinstance(port, int) and 0 < port < 2**16]
    return []


def _write_ports(state_dir: Path, ports: list[int]) -> None:
    new = state_dir / f"{PORTS_FILE}.new"
    new.write_text(json.dumps(ports), encoding="ascii")
    new.replace(state_dir / PORTS_FILE)
