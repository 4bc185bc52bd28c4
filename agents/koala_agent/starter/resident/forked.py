"""Starter that is a fork of the resident parent, and serves one claim after the other.

It gets its orders from the agent on a socket, one JSON object a packet:

    {"claim", "spec", "directory", "environment"}   serve this claim (the first is the parent's)
    {"over": claim, "cpu_s", "memory_bytes"}        nothing is left of what it started for it

- It looks like an executed one: session, working directory, standard streams, environment and
  signals are its own, and the process list shows its claim and specification.
- It serves a claim when it has taken the claim's launch (`take_launch`).
- It reports `over` only if it has seen the end of all that it started, and is idle then: it shows
  no claim, and a signal ends it. Only the agent that ordered the former claim can order the next
  one, and does so when that claim is over in its job table. So a process is that of one claim at a
  time.
- Without that socket it ends when its claim has. `cpu_s` counts from its own start.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
from _signal import (  # type: ignore[import-not-found] # without the enumerations around it
    signal as set_action,
)

from koala_agent.starter.blocked.process import PAUSE_SIGNALS, SITE_SIGNALS
from koala_agent.starter.compat import log, to_object
from koala_agent.starter.process_tree import started_at
from koala_agent.starter.resident.process_title import PADDING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn, TypeAlias

    from koala_agent.starter.processes import Served
    from koala_agent.starter.resident.process_title import ProcessTitle

    Serve: TypeAlias = "Callable[[str], Served]"
    """Serves the claim of this specification to its end."""

ORDER_MAX_BYTES = 128 * 1024
OUTPUT_FILE = "placeholder.out"
LAUNCH = "launch"
"""Symbolic link in the state folder of a claim; its target names the process that launches it."""
_ORDERS = 3
DESCRIPTOR_BYTES = 4
_SIGNALS = (*SITE_SIGNALS, *PAUSE_SIGNALS, "SIGCHLD", "SIGHUP")


def take_launch(spec: str, launcher: str) -> bool:
    """Take the launch of a claim, by the path of its specification; False when it is taken. Raises
    OSError.
    """
    try:
        os.symlink(launcher, os.path.join(os.path.dirname(spec), LAUNCH))
    except FileExistsError:
        return False
    return True


def launched_by(spec: str) -> tuple[int, int]:
    """Return pid and start ticks of the starter that has taken a launch. Raises OSError when nobody
    has, ValueError when it is no starter.
    """
    pid, start_ticks = os.readlink(os.path.join(os.path.dirname(spec), LAUNCH)).split()
    return int(pid), int(start_ticks)


def run(order: dict[str, object], orders: int, title: ProcessTitle, serve: Serve) -> NoReturn:
    """Make the forked process a starter, serve the claim of this order and those of later
    orders, and exit. `orders` is the descriptor of their socket.
    """
    code = 0
    try:
        _Starter(orders, title, serve).run(order)
    except PermissionError as error:
        log(str(error))
        code = 126
    except FileNotFoundError as error:
        log(str(error))
        code = 127
    except BaseException:  # noqa: BLE001 - what an interpreter would show at its end
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        os._exit(code)


class _Starter:
    """A process that is a starter from its construction on."""

    def __init__(self, orders: int, title: ProcessTitle, serve: Serve) -> None:
        import resource  # noqa: PLC0415 - loaded by the parent

        self._serve = serve
        self._title = title
        self._resource = resource
        self._open_files = resource.getrlimit(resource.RLIMIT_NOFILE)
        signal.set_wakeup_fd(-1)
        set_action(int(signal.SIGCHLD), int(signal.SIG_DFL))
        os.setsid()
        os.dup2(orders, _ORDERS, inheritable=False)
        os.closerange(_ORDERS + 1, 256)
        self._orders = socket.socket(fileno=_ORDERS)
        os.environ.pop(PADDING, None)
        pid = os.getpid()
        self._name = f"{pid} {started_at(pid)}"

    def run(self, order: dict[str, object]) -> None:
        """Serve claims until there is no other one."""
        while True:
            if not self._take(order):
                return
            served = self._serve(str(order["spec"]))
            if not served.is_empty:
                return
            self._reset(order)
            try:
                over = {"over": order["claim"], "memory_bytes": served.memory_bytes}
                os.write(_ORDERS, json.dumps({**over, "cpu_s": self._cpu_s()}).encode())
                packet, _none = receive(self._orders)
            except (BrokenPipeError, ConnectionResetError):
                packet = b""
            if not packet:
                return
            order = to_object(json.loads(packet))

    def _take(self, order: dict[str, object]) -> bool:
        """Become the process of a claim; False when another one has its launch. Raises OSError."""
        directory, spec = str(order["directory"]), str(order["spec"])
        _open_streams(os.path.join(directory, OUTPUT_FILE))
        os.chdir(directory)
        for name, value in to_object(order["environment"]).items():
            os.environ[name] = str(value)  # each page that `update` uses would be copied
        self._title.show(spec, str(order["claim"]))
        return take_launch(spec, self._name)

    def _reset(self, order: dict[str, object]) -> None:
        """Drop all that belongs to a claim which is over."""
        signal.set_wakeup_fd(-1)
        for name in _SIGNALS:
            set_action(int(getattr(signal, name)), int(signal.SIG_DFL))
        gc.collect()  # before: a later one would close descriptors that the next claim has opened
        os.closerange(_ORDERS + 1, 4096)
        for number in (1, 2):
            os.dup2(0, number)
        os.chdir("/")
        for name in to_object(order["environment"]):
            os.environ.pop(name, None)
        self._resource.setrlimit(self._resource.RLIMIT_NOFILE, self._open_files)
        self._title.show_idle()

    def _cpu_s(self) -> float:
        """Return the processor time of this process and of all that it has waited for."""
        kinds = (self._resource.RUSAGE_SELF, self._resource.RUSAGE_CHILDREN)
        used = [self._resource.getrusage(kind) for kind in kinds]
        return sum(usage.ru_utime + usage.ru_stime for usage in used)


def receive(orders: socket.socket) -> tuple[bytes, list[int]]:
    """Receive an order, with the descriptor that came along, if any. Raises OSError."""
    room = socket.CMSG_LEN(DESCRIPTOR_BYTES)
    size, passed, *_ = orders.recvmsg_into([_PACKET], room, socket.MSG_CMSG_CLOEXEC)
    received = [
        int.from_bytes(content[:DESCRIPTOR_BYTES], sys.byteorder)
        for _level, _kind, content in passed
    ]
    return bytes(memoryview(_PACKET)[:size]), received


_PACKET = bytearray(ORDER_MAX_BYTES)
"""Buffer of all orders: mapped once, not for each."""


def _open_streams(output: str) -> None:
    """Open the standard streams."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(nothing, 0)
    os.dup2(written, 1)
    os.dup2(written, 2)
    os.close(nothing)
    os.close(written)
