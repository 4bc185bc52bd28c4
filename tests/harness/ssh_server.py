"""A real sshd on loopback, with keys, configuration and known hosts of its own.

Where the tests are root it runs in a mount namespace in which the account `games` has a shell and a
home, so that sites behind ssh belong to another account. Else the account is that of the tests.
A server that is apart is a host of its own: it has its own network, which leads nowhere.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.harness.ports import free_port
from tests.harness.programs import needed_program

LIMIT_S = 60.0
LOOK_S = 0.02
"""Time between two looks at the log of a server that starts."""
HOST = "atlas"
OTHER = "games"


def sshd() -> str:
    """Find the server's program; skip the test where it is missing."""
    return needed_program("sshd", package="openssh-server")


@dataclass(slots=True, kw_only=True)
class SSHServer:
    """Server that can be stopped, started again, and cut off. `home` is the account's."""

    folder: Path
    account: str
    home: Path
    port: int = field(default_factory=free_port)
    settings: str = ""
    shell: str = "/bin/sh"
    is_apart: bool = False
    mounts: dict[str, Path] = field(default_factory=dict)
    """Files that the server sees in the place of others; only for another account's server."""
    process: subprocess.Popen[bytes] | None = None

    @property
    def is_other(self) -> bool:
        """True when the account is not that of the tests."""
        return self.account != pwd.getpwuid(os.geteuid()).pw_name

    @property
    def config(self) -> Path:
        """Configuration of the client."""
        return self.folder / "config"

    @property
    def options(self) -> tuple[str, ...]:
        """Words for ssh."""
        return ("-F", str(self.config))

    @property
    def known_hosts(self) -> Path:
        """Host keys that the client knows."""
        return self.folder / "known"

    def prepare(self) -> None:
        """Make keys and configurations; the client knows the host."""
        for name in ("host", "key"):
            make_key(self.folder / name)
        shutil.copy(self.folder / "key.pub", self.folder / "authorized")
        self.know("host.pub")
        (self.folder / "sshd_config").write_text(
            f"""
Port {self.port}
ListenAddress 127.0.0.1
HostKey {self.folder}/host
AuthorizedKeysFile {self.folder}/authorized
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
Subsystem sftp internal-sftp
{self.settings}
""",
            encoding="utf-8",
        )
        self.config.write_text(
            f"""
Host {HOST}
  HostName 127.0.0.1
  Port {self.port}
  User {self.account}
  IdentityFile {self.folder}/key
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {self.known_hosts}
  GlobalKnownHostsFile /dev/null
""",
            encoding="utf-8",
        )

    def _accounts(self) -> Path:
        """Write the accounts of this machine, of which one can log in."""
        passwd = self.folder / "passwd"
        passwd.write_text(_passwd(self.account, self.home, self.shell), encoding="utf-8")
        return passwd

    def know(self, key: str) -> None:
        """Let the client know this host key alone."""
        content = (self.folder / key).read_text(encoding="utf-8")
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {content}", encoding="utf-8")

    def _start_apart(self) -> None:
        """Start a host without a network; each connection gets a server of its own there."""
        places = ("unshare", "-m", "-n", "--propagation", "slave")
        script = f"mount --bind {self._accounts()} /etc/passwd && ip link set lo up && echo && cat"
        self.process = subprocess.Popen(
            [*places, "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"\n"
        server = f"{sshd()} -i -e -f {self.folder}/sshd_config 2>>{self.folder}/sshd.log"
        enter = f"nsenter --target {self.process.pid} --mount --net"
        with self.config.open("a", encoding="utf-8") as config:
            config.write(f"  ProxyCommand {enter} {server}\n")

    def start(self) -> None:
        """Start the server; return when it listens."""
        if self.is_apart:
            self._start_apart()
            return
        command = [sshd(), "-D", "-e", "-f", str(self.folder / "sshd_config")]
        if self.is_other:
            mounts = {"/etc/passwd": self._accounts(), **self.mounts}
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
            binds = [f"mount --bind {ours} {place}" for place, ours in mounts.items()]
            script = " && ".join([*binds, f"exec {' '.join(command)}"])
            command = ["unshare", "-m", "--propagation", "slave", "sh", "-c", script]
        with (self.folder / "sshd.log").open("ab") as log:
            begun = len(self.log())
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log)
        self._listening(begun)

    def stop(self) -> None:
        """End the server, as for an update: connections stay."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=LIMIT_S)
            self.process = None

    def cut(self) -> None:
        """Kill the server and all its connections."""
        if self.process is not None:
            self.process.send_signal(signal.SIGSTOP)  # so that no connection begins meanwhile
        sessions = self.sessions()
        if self.process is not None:
            self.process.kill()
            self.process.wait(timeout=LIMIT_S)
            for pipe in filter(None, (self.process.stdin, self.process.stdout)):
                pipe.close()
            self.process = None
        for session in sessions:
            with suppress(psutil.NoSuchProcess):
                session.kill()

    def sessions(self) -> list[psutil.Process]:
        """Return the servers of single connections."""
        if self.process is None:
            return []
        parts = psutil.Process(self.process.pid).children(recursive=True)
        return [part for part in parts if part.name() == "sshd"]

    def log(self) -> str:
        """Return what the server wrote."""
        return (self.folder / "sshd.log").read_text(encoding="utf-8", errors="replace")

    def _listening(self, begun: int) -> None:
        """Wait until the server says that it listens; its log `begun` at this character. It is not
        dialled: a socket that dials a port of this machine where nobody listens may get that port
        itself, be connected to itself, and take the port from the server."""
        assert self.process is not None
        while self.process.poll() is None:
            if "Server listening on" in self.log()[begun:]:
                return
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(LOOK_S)
        raise AssertionError(self.log())


def make_key(path: Path) -> None:
    """Make a pair of keys without a passphrase."""
    command = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path))
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def _passwd(account: str, home: Path, shell: str) -> str:
    """Return the accounts of this machine, of which one can log in."""
    lines = []
    for entry in pwd.getpwall():
        fields = list(map(str, entry))
        if entry.pw_name == account:
            fields[5:] = [str(home), shell]
        lines.append(":".join(fields))
    return "\n".join([*lines, ""])


@contextmanager
def ssh_server(
    folder: Path,
    *,
    settings: str = "",
    account: str = "",
    shell: str = "/bin/sh",
    is_apart: bool = False,
) -> Iterator[SSHServer]:
    """A running server; `folder` must be one that other accounts may enter."""
    sshd()
    own = pwd.getpwuid(os.geteuid())
    account = account or (OTHER if own.pw_uid == 0 else own.pw_name)
    home = Path(own.pw_dir)
    if account != own.pw_name:
        home = folder / "home"
        home.mkdir()
        shutil.chown(home, account)
    server = SSHServer(
        folder=folder,
        account=account,
        home=home,
        settings=settings,
        shell=shell,
        is_apart=is_apart,
    )
    server.prepare()
    server.start()
    try:
        yield server
    finally:
        server.cut()
