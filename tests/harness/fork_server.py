"""Fork processes that have imported Koala already: a start by exec imports for half a second.

    python -m tests.harness.fork_server CONTROL LISTENER

CONTROL is the descriptor of a socket from which `tests.harness.forked` sends orders. To LISTENER,
another one, connects `tests.harness.launch`, which shells run. Each order is
one real process, with its own arguments, environment, folder, streams and session. The server has
one thread, and has made no channel and no event loop: gRPC starts with its first channel, so what
is forked starts gRPC by itself. The server ends when its control socket closes, and TERM ends what
it has forked.
"""

from __future__ import annotations

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
from types import ModuleType
from typing import TypeAlias

from koala.runtime.child_lifetime import end_with

MODULES = (
    "koala.daemon.main",
    "koala.daemon.notifications.mqtt",
    "koala_agent.main",
    "koala_agent.assembly",
    "koala.cli.main",
    "koala.client",
    "grpc.aio",
)
"""Modules that are imported before the first order."""
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
    """What the server imports first, for this order and all later ones."""

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

    def tell_end(self) -> None:
        """Reap the process, and tell its status as subprocess does."""
        _pid, status = os.waitpid(self.pid, 0)
        with suppress(OSError):  # nobody waits for it any more
            self.report.send(str(os.waitstatus_to_exitcode(status)).encode())
        self.release()

    def release(self) -> None:
        """Close what belongs to the server."""
        os.close(self.pidfd)
        self.report.close()


_Asked: TypeAlias = tuple[Order, list[int], socket.socket]
"""An order, its streams, and where its process is told."""


def serve(control: socket.socket, listener: socket.socket | None = None) -> Order | None:
    """Return in each forked process its order, and None in the server at its end."""
    children: dict[int, _Child] = {}
    sources = {one.fileno(): one for one in (control, listener) if one is not None}
    while True:
        ready, _, _ = select.select([*sources, *children], [], [])
        for pidfd in children.keys() & ready:
            children.pop(pidfd).tell_end()
        for source in sources.keys() & ready:
            asked = _launched(listener) if sources[source] is listener else _ordered(control)
            if asked is None:
                return None
            order, streams, report = asked
            for module in order.modules:
                import_module(module)
            server = os.getpid()
            pid = os.fork()
            if pid == 0:
                for open_here in (*sources.values(), report):
                    open_here.close()
                for child in children.values():
                    child.release()
                _become(order, streams, server)
                return order
            for stream in streams:
                os.close(stream)
            pidfd = os.pidfd_open(pid)
            children[pidfd] = _Child(pid=pid, pidfd=pidfd, report=report)
            with suppress(OSError):  # nobody waits for it any more
                socket.send_fds(report, [str(pid).encode()], [pidfd])


def _ordered(control: socket.socket) -> _Asked | None:
    """Receive an order of the process that started this server; None when it has ended."""
    text, descriptors = _receive(control, STREAMS + 1)
    if not text:
        return None
    *streams, told = descriptors
    return Order.decode(text), streams, socket.socket(fileno=told)


def _launched(listener: socket.socket) -> _Asked:
    """Receive an order of `tests.harness.launch`."""
    report, _address = listener.accept()
    text, streams = _receive(report, STREAMS)
    return Order.decode(text), streams, report


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


def run(order: Order) -> None:
    """Run the program of an order, in the process that was forked for it."""
    gc.enable()
    sys.modules["__main__"] = module = ModuleType("__main__")
    exec(compile(order.program, "<string>", "exec"), module.__dict__)


def main() -> int:
    """See the module."""
    gc.disable()
    control, listener = (socket.socket(fileno=int(word)) for word in sys.argv[1:])
    for module in MODULES:
        import_module(module)
    gc.freeze()
    order = serve(control, listener)
    if order is not None:
        run(order)
    return 0


if __name__ == "__main__":
    sys.exit(main())
