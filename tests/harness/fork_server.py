"""Fork processes that have imported Koala already: a start by exec imports for half a second.

    python -m tests.harness.fork_server

Standard input and output are sockets. `tests.harness.forked` sends orders through the first, the
control socket; `tests.harness.launch`, which shells run, connects to the second, the listener, for
one order. Each order is one real process, with its own arguments, environment, folder, streams and
session. One of them may be a server again (`serve_orders`). The server has one thread, and has made
no channel and no event loop: gRPC starts with its first channel, so what is forked starts gRPC by
itself. The server ends when its control socket closes, and TERM ends what it has forked.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

from koala.common.runtime.child_lifetime import end_with
from koala.daemon.files import relay_process
from koala_agent.placeholders.launch_settings import LaunchSettings
from koala_agent.placeholders.starter_installation import install_starter
from tests.harness.launch import launch_words, say_status

MODULES = (
    "koala.daemon.main",
    "koala.daemon.notifications.mqtt",
    "koala_agent.main",
    "koala_agent.assembly",
    "koala.cli.arguments",
    "koala.cli.jobs.follow",
    "koala.cli.jobs.submit",
    "koala.cli.main",
    "koala.cli.output",
    "koala.cli.render.documents",
    "koala.cli.render.table",
    "koala.cli.requests",
    "koala.client.client",
    "cryptography.hazmat.backends.openssl.backend",
    "grpc.aio",
)
"""Modules that are imported before the first order, those of most commands among them: half of a
short command's processor time would be their import."""
ORDER_BYTES_MAX = 1 << 17
STREAMS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A process to fork. It comes with four descriptors: its streams, and where its id (with a
    descriptor of the process) and its exit status are told."""

    program: str
    """Source text, as for `python -c`."""
    words: tuple[str, ...]
    environment: dict[str, str]
    folder: str
    umask: int
    """Negative: that of the server."""
    is_session: bool
    """True for a process with a session of its own."""
    modules: tuple[str, ...] = ()
    """Modules that the server imports first, for this order and all later ones."""

    def encode(self) -> bytes:
        """Return the order as the server reads it."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, text: bytes) -> Order:
        """Read an order."""
        values = json.loads(text)
        lists = {name: tuple(values.get(name, ())) for name in ("words", "modules")}
        return cls(**{**values, **lists})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Child:
    pid: int
    pidfd: int
    report: socket.socket

    def tell_end(self) -> int:
        """Reap the process, and tell its status as subprocess does; return it."""
        _pid, waited = os.waitpid(self.pid, 0)
        status = os.waitstatus_to_exitcode(waited)
        with suppress(OSError):  # nobody waits for it any more
            self.report.send(str(status).encode())
        self.release()
        return status

    def kill(self) -> None:
        """Kill the process, as its launcher was killed."""
        signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def release(self) -> None:
        """Close what belongs to the server."""
        os.close(self.pidfd)
        self.report.close()


def serve(control: socket.socket, listener: socket.socket, kind: str = "") -> Order | None:
    """Return in each forked process its order, and None in the server at its end. With a kind, how
    a process of this server ended too early is written to standard error."""
    return _Server(control, listener, kind).serve()


class _Server:
    def __init__(self, control: socket.socket, listener: socket.socket, kind: str) -> None:
        self._kind = kind
        self._control = control
        self._listener = listener
        self._sources = (control, listener)
        self._children: dict[int, _Child] = {}
        """By the descriptor of the process, which is ready at its end."""
        self._launched: dict[int, _Child] = {}
        """By the descriptor of the connection to the launcher, which is ready at its end."""

    def serve(self) -> Order | None:
        """See `serve`."""
        while True:
            numbers = [source.fileno() for source in self._sources]
            ready, _, _ = select.select([*numbers, *self._children, *self._launched], [], [])
            for pidfd in self._children.keys() & ready:
                child = self._children.pop(pidfd)
                self._launched.pop(child.report.fileno(), None)
                if status := child.tell_end():
                    self._say(f"{child.pid} {say_status(status)}")
            for launcher in self._launched.keys() & ready:
                child = self._launched.pop(launcher)
                self._say(f"{child.pid} is killed: its launcher has ended")
                child.kill()
            if self._control.fileno() in ready:
                text, descriptors = _receive(self._control, STREAMS + 1)
                if not text:  # who started this server has ended
                    return None
                *streams, told = descriptors
                asked = self._fork(Order.decode(text), streams, socket.socket(fileno=told))
            elif self._listener.fileno() in ready:
                asked = self._launch(self._listener)
            else:
                continue
            if asked is not None:
                return asked

    def _say(self, text: str) -> None:
        if self._kind:
            print(f"{self._kind} {text}", file=sys.stderr, flush=True)

    def _launch(self, listener: socket.socket) -> Order | None:
        """Carry out an order of `tests.harness.launch`; return it in its process."""
        report, _address = listener.accept()
        text, streams = _receive(report, STREAMS)
        if not text:  # the launcher was killed before it could say anything
            report.close()
            return None
        return self._fork(Order.decode(text), streams, report, is_launched=True)

    def _fork(
        self, order: Order, streams: list[int], report: socket.socket, *, is_launched: bool = False
    ) -> Order | None:
        """Fork the process of an order; return the order there, and None in the server."""
        for module in order.modules:
            import_module(module)
        server = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:  # a machine that is full costs this order, not all processes here
            print(f"fork server {server}: {error}", file=sys.stderr, flush=True)
            for stream in streams:
                os.close(stream)
            report.close()
            return None
        if pid == 0:
            for open_here in (*self._sources, report):
                open_here.close()
            for other in self._children.values():
                other.release()
            _become(order, streams, server)
            return order
        for stream in streams:
            os.close(stream)
        child = _Child(pid=pid, pidfd=os.pidfd_open(pid), report=report)
        self._children[child.pidfd] = child
        if is_launched:
            self._launched[report.fileno()] = child
        with suppress(OSError):  # nobody waits for it any more
            socket.send_fds(report, [str(pid).encode()], [child.pidfd])
        return None


def _receive(source: socket.socket, count: int) -> tuple[bytes, list[int]]:
    text, descriptors, _flags, _sender = socket.recv_fds(source, ORDER_BYTES_MAX, count)
    return text, descriptors


def _become(order: Order, streams: list[int], server: int) -> None:
    """Make this process what `python -c` of the order would be."""
    if order.is_session:
        os.setsid()
    end_with(server, signal.SIGTERM)  # it ends with the process that gives the orders
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(order.folder)
    if order.umask >= 0:
        os.umask(order.umask)
    os.environ.clear()
    os.environ.update(order.environment)
    for folder in order.environment.get("PYTHONPATH", "").split(os.pathsep):
        if folder and folder not in sys.path:
            sys.path.insert(0, folder)
    sys.argv = ["-c", *order.words]
    tempfile.tempdir = None  # looked up in the environment again


@dataclass(slots=True)
class _Ending:
    """End this process before the interpreter cleans up.

    The clean-up would touch every object, so that the kernel copies all pages that are shared with
    the server: nine thousand of them, 40 ms. `end` is registered before what the program registers
    with `atexit`, and so is called after it. After an error that the program does not catch, Python
    ends as always.
    """

    status: int | None = None

    def end(self) -> None:
        """End with the status of the program."""
        if self.status is not None:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
            os._exit(self.status)


def run(order: Order) -> None:
    """Run the program of an order, in the process that was forked for it."""
    ending = _Ending()
    atexit.register(ending.end)
    gc.enable()
    sys.modules["__main__"] = module = ModuleType("__main__")
    try:
        exec(compile(order.program, "<string>", "exec"), module.__dict__)
    except SystemExit as end:
        if isinstance(end.code, int):
            ending.status = end.code & 0xFF
        raise
    ending.status = 0


def take_sockets() -> tuple[socket.socket, socket.socket]:
    """Return control socket and listener, which were standard input and output."""
    control, listener = (socket.socket(fileno=os.dup(number)) for number in (0, 1))
    with Path(os.devnull).open("r+b", buffering=0) as null:
        for number in (0, 1):
            os.dup2(null.fileno(), number)
    return control, listener


def serve_orders(control: socket.socket, listener: socket.socket, kind: str = "") -> None:
    """Serve until the control socket closes; run in a forked process the program of its order."""
    # Daemons start their relays through the server as well.
    relay = "from koala.daemon.files.relay import main; main()"
    relay_process.PROGRAM = launch_words(listener.getsockname(), relay)
    gc.freeze()
    order = serve(control, listener, kind)
    if order is not None:
        run(order)


def main() -> int:
    """See the module."""
    gc.disable()
    sockets = take_sockets()
    for module in MODULES:
        import_module(module)
    # It keeps what it compiles or translates; else each agent would do it again.
    with tempfile.TemporaryDirectory() as folder:
        for shared in (True, False):
            install_starter(LaunchSettings(root=Path(folder), site="any", shared=shared))
    serve_orders(*sockets)
    return 0


if __name__ == "__main__":
    sys.exit(main())
