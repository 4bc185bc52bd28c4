"""The socket of a shared ssh connection: where it is, who may open it, and the login of a person.

One process at a time opens the connection: `locked`. So the agent never dials while a person types.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

from koala.errors import ConfigError, UnreachableError
from koala_agent.transport.command_budget import COMMANDS_PER_MINUTE
from koala_agent.transport.ssh_words import last_line, opening, shared_connection

OPEN_S = 45.0
"""Longest time in which the connection opens by itself, over jump hosts too."""
LOGIN_S = 180.0
"""Longest time in which a person answers. ssh waits at its questions for ever, even when the server
has closed the connection, and no other login could begin."""
CONFIGURATION_S = 10.0
PROBE_S = 1.0
"""Longest wait for a socket to answer."""
SOCKET_BYTES_MAX = 85
"""Longest path of a socket that leaves room for the suffix of ssh."""

Identity = tuple[int, int]
"""Tells one shared connection from the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SSHSettings:
    """Settings of a site's ssh transport.

    `options` are more words for ssh; `control` is the path of a shared connection that the user
    keeps, empty for our own below `state_dir`; `listen` is the address at the host at which it
    opens the starters' port. `commands_per_minute` may ask the batch system there. `python` is one
    at the host, empty for any.
    """

    site: str
    host: str
    state_dir: Path
    options: tuple[str, ...] = ()
    control: str = ""
    listen: str = "*"
    commands_per_minute: int = COMMANDS_PER_MINUTE
    limit_s: float = 15.0
    python: str = ""

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
        place = folder.lstat()
        if place.st_uid != os.geteuid() or place.st_mode & 0o077 or folder.is_symlink():
            raise ConfigError(f"{folder} (expected a folder of this account with mode 0700)")
        status = self.state_dir.stat()  # the same folder by any name
        return str(folder / f"{status.st_dev:x}-{status.st_ino:x}")


def log_in(
    settings: SSHSettings,
    *,
    limit_s: float = LOGIN_S,
    notify: Callable[[str], None] = lambda _text: None,
) -> bool:
    """Open the shared connection; a person answers the questions of ssh at the terminal. False when
    it was open. `notify` gets the reason of a wait. Raises UnreachableError and ConfigError."""
    control = settings.control_path()
    with locked(control) as is_free:
        pass
    if not is_free:
        notify(f"waiting for another login at {settings.host}, which has not ended")
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
    """Forward a port of the host's loopback device to the same port here, unless it is already.
    Raises UnreachableError."""
    words = shared_connection(settings.options, settings.control_path())
    where = f"127.0.0.1:{port}:127.0.0.1:{port}"
    argv = (*words, "-O", "forward", "-R", where, "--", settings.host)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=OPEN_S, check=False)
    if done.returncode:
        raise UnreachableError(
            f"port {port} of {settings.host} cannot be forwarded here: {last_line(done.stderr)}."
            " Somebody there may have it: choose other ports in the daemon's file"
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
    user = re.search(r"^user (.+)$", done.stdout, re.MULTILINE)
    return user[1] if user else ""


def socket_identity(control: str) -> Identity | None:
    """Return the identity of the shared connection that is open; None when none is."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(PROBE_S)
            probe.connect(control)
        status = Path(control).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


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
