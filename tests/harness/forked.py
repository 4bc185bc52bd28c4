"""Start daemons, agents and commands as processes: from the fork server, or with exec.

    process = start(program_of("koala.daemon.__main__"), "daemon.toml", started=Started(stderr=log))

Under pytest they come from the fork server, which saves half a second of processor time each. Each
process that starts others has a server of its own: what it has started ends with it. All but the
first server are forked from that one (`serve_children`). KOALA_TEST_FORKS=0 starts all of them
with exec, as benchmarks and campaigns do, and as tests of the start itself do always.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import pickle
import select
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, ParamSpec, TypeAlias

from tests.harness.fork_server import Order
from tests.harness.launch import launch_words, say_status

ROOT = Path(__file__).parents[2]
FORKS = "KOALA_TEST_FORKS"
SERVER = "KOALA_TEST_FORK_SERVER"
"""Address of the server from which the servers of child processes are forked."""
SERVE = "from tests.harness.fork_server import *; serve_orders(*take_sockets())"
TIE = "import signal; from koala.common.runtime.child_lifetime import end_with; end_with"
REPORT_BYTES_MAX = 64
APART_S = 180.0

Given = ParamSpec("Given")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Give a process what it starts with. Streams that are not given are those of /dev/null."""

    stdin: IO[bytes] | None = None
    stdout: IO[bytes] | None = None
    stderr: IO[bytes] | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    folder: Path = field(default_factory=Path.cwd)
    umask: int = -1
    """Negative: as here."""
    is_session: bool = False
    """True for a session of its own, which ends with the process that starts it."""


class Executed(subprocess.Popen[bytes]):
    """A process that was started with exec."""

    async def ended(self) -> int:
        """Wait until it has ended; its exit status."""
        if self.poll() is None:
            pidfd = os.pidfd_open(self.pid)
            try:
                await _readable(pidfd)
            finally:
                os.close(pidfd)
        return self.wait()


class Forked:
    """A process of a fork server, with the methods of `subprocess.Popen` that tests need. It is
    asked for at the server's address, or through the control socket of our own server."""

    def __init__(
        self,
        program: str,
        words: tuple[str, ...],
        around: Surroundings,
        modules: tuple[str, ...] = (),
        address: str | None = None,
    ) -> None:
        order = Order(
            program=program,
            words=words,
            environment=dict(around.environment),
            folder=str(around.folder),
            umask=around.umask,
            is_session=around.is_session,
            modules=modules,
        )
        self.returncode: int | None = None
        with Path(os.devnull).open("r+b", buffering=0) as null:
            streams = [stream or null for stream in (around.stdin, around.stdout, around.stderr)]
            descriptors = [stream.fileno() for stream in streams]
            if address is not None:
                self._report = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                self._report.connect(address)
                socket.send_fds(self._report, [order.encode()], descriptors)
            else:
                self._report, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with theirs:
                    socket.send_fds(_server(), [order.encode()], [*descriptors, theirs.fileno()])
        told, received, _flags, _sender = socket.recv_fds(self._report, REPORT_BYTES_MAX, 1)
        assert told, "the fork server has ended; standard error says why"
        self.pid = int(told)
        (self._pidfd,) = received

    def poll(self) -> int | None:
        """Return its exit status, None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; its exit status. Raises TimeoutExpired."""
        if self.returncode is not None:
            return self.returncode
        if not select.select([self._report], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        told = self._report.recv(REPORT_BYTES_MAX)
        assert told, f"the fork server ended before its process {self.pid}"
        self.returncode = int(told)
        self._report.close()
        os.close(self._pidfd)
        return self.returncode

    async def ended(self) -> int:
        """Wait until it has ended; its exit status."""
        if self.returncode is None:
            await _readable(self._report.fileno())
        return self.wait()

    def send_signal(self, sig: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, sig)

    def terminate(self) -> None:
        """Send it TERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send it KILL."""
        self.send_signal(signal.SIGKILL)


Process: TypeAlias = Executed | Forked


def forks() -> bool:
    """Return True where processes come from a fork server."""
    return os.environ.get(FORKS, "0") != "0"


def start(
    program: str,
    *words: str,
    around: Surroundings,
    prefix: Sequence[str] = (),
    by_exec: bool = False,
    modules: tuple[str, ...] = (),
) -> Process:
    """Run what `python -c PROGRAM WORDS...` runs, in a process of its own. A prefix is a command
    that runs the rest of the line, as `nice` does. The fork server imports `modules` first."""
    if by_exec or prefix or not forks():
        tie = f"{TIE}({os.getpid()}, signal.SIGTERM)\n" if around.is_session else ""
        return Executed(
            [*prefix, sys.executable, "-c", f"{tie}{program}", *words],
            stdin=around.stdin or subprocess.DEVNULL,
            stdout=around.stdout or subprocess.DEVNULL,
            stderr=around.stderr or subprocess.DEVNULL,
            env=around.environment,
            cwd=around.folder,
            umask=around.umask,
            start_new_session=around.is_session,
        )
    return Forked(program, words, around, modules)


def apart(test: Callable[Given, None]) -> Callable[Given, None]:
    """Run a test that changes its process in a process of its own, with what it is given."""

    @wraps(test)
    def run_apart(*values: Given.args, **named: Given.kwargs) -> None:
        program = (
            f"import pickle, sys; from {test.__module__} import {test.__name__} as test\n"
            "values, named = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
            "test.__wrapped__(*values, **named)"
        )
        with TemporaryFile() as said:
            around = Surroundings(stderr=said)
            words = pickle.dumps((values, named)).hex()
            process = start(program, words, around=around, modules=(test.__module__,))
            try:
                status = process.wait(APART_S)
            finally:
                process.kill()
                process.wait()
            said.seek(0)
            assert status == 0, said.read().decode()

    return run_apart


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    seen = asyncio.Event()
    loop.add_reader(descriptor, seen.set)
    try:
        await seen.wait()
    finally:
        loop.remove_reader(descriptor)


def write_launcher(path: Path, module: str, *modules: str) -> None:
    """Write a program for shells, that runs the `main` of a module in a process of the fork server.
    The server imports the other modules first."""
    _server()
    program = f"from {module} import main\nraise SystemExit(main())"
    words = shlex.join(launch_words(_address(), program, *modules))
    path.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
    path.chmod(0o755)


_controls: list[socket.socket] = []
"""The connection to the fork server of this process, once there is one."""


_servers: list[Process] = []
"""The servers that this process has started."""


def _server() -> socket.socket:
    """Return the connection to this process's fork server, which its first use starts."""
    if not _controls:
        _controls.append(start_server(_address(), os.environ.get(SERVER)))
    return _controls[0]


def serve_children() -> str:
    """Have this process's server fork the servers of child processes; return its address."""
    _server()
    os.environ[SERVER] = _address()
    return _address()


def _address() -> str:
    """Return where the fork server of this process listens to launchers."""
    return str(Path(os.environ["KOALA_RUNTIME_DIR"]) / f"fork-server-{os.getpid()}")


def start_server(
    address: str, parent: str | None, program: str = SERVE, *words: str
) -> socket.socket:
    """Start a fork server, which ends when this process does; return its control socket. It is
    forked from the server at `parent`, if there is one, and runs a program then."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(address)
    listener.listen()
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'agents'}",
        "OPENBLAS_NUM_THREADS": "1",  # numpy makes no threads when it is imported
    }
    process: Process
    with _as_stream(theirs) as stdin, _as_stream(listener) as stdout, _as_stream(2) as stderr:
        if parent is not None:
            around = Surroundings(
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                environment=environment,
                folder=ROOT,
                is_session=True,
            )
            process = Forked(program, words, around, address=parent)
        else:
            process = Executed(
                [sys.executable, "-m", "tests.harness.fork_server"],
                stdin=stdin,
                stdout=stdout,
                cwd=ROOT,
                env=environment,
                start_new_session=True,
            )
    atexit.register(_end_server, ours, process.wait)
    _servers.append(process)
    return ours


def say_servers() -> str:
    """Say how the servers that this process has started fare."""
    return ", ".join(
        f"fork server {server.pid} "
        + ("runs" if (status := server.poll()) is None else say_status(status))
        for server in _servers
    )


def _as_stream(source: socket.socket | int) -> IO[bytes]:
    """Open a socket, which is left to the stream, or another descriptor as a stream."""
    descriptor = os.dup(source) if isinstance(source, int) else source.detach()
    return os.fdopen(descriptor, "r+b", buffering=0)


def _end_server(control: socket.socket, wait: Callable[[], object]) -> None:
    control.close()
    wait()
