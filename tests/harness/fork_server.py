"""Fork processes that have imported Koala already: a start by exec imports for half a second.

    python -m tests.harness.fork_server CONTROL

CONTROL is the descriptor of a socket from which `tests.harness.forked` sends orders. Each order is
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

    def encode(self) -> bytes:
        """Return the order as the server reads it."""
        return json.dumps(asdict(self)).encode()


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


def serve(control: socket.socket) -> Order | None:
    """Return in each forked process its order, and None in the server at its end."""
    children: dict[int, _Child] = {}
    while True:
        ready, _, _ = select.select([control.fileno(), *children], [], [])
        for pidfd in children.keys() & ready:
            children.pop(pidfd).tell_end()
        if control.fileno() not in ready:
            continue
        text, descriptors, _flags, _sender = socket.recv_fds(control, ORDER_BYTES_MAX, STREAMS + 1)
        if not text:
            return None
        *streams, told = descriptors
        report = socket.socket(fileno=told)
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            for open_here in (control, report):
                open_here.close()
            for child in children.values():
                child.release()
            order = _order(text)
            _become(order, streams, server)
            return order
        for stream in streams:
            os.close(stream)
        pidfd = os.pidfd_open(pid)
        children[pidfd] = _Child(pid=pid, pidfd=pidfd, report=report)
        socket.send_fds(report, [str(pid).encode()], [pidfd])


def _order(text: bytes) -> Order:
    values = json.loads(text)
    return Order(**{**values, "words": tuple(values["words"])})


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
    exec(compile(order.program, "<string>", "exec"), {"__name__": "__main__"})


def main() -> int:
    """See the module."""
    gc.disable()
    control = socket.socket(fileno=int(sys.argv[1]))
    for module in MODULES:
        import_module(module)
    gc.freeze()
    order = serve(control)
    if order is not None:
        run(order)
    return 0


if __name__ == "__main__":
    sys.exit(main())
