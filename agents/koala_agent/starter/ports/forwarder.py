"""The starter's handle of the process that carries connections to ports through the grid."""

from __future__ import annotations

import os
import select
import sys

from koala_agent.starter.compat import log, to_list
from koala_agent.starter.connection import open_listener
from koala_agent.starter.light import loads, signal, socket
from koala_agent.starter.ports.carried import Carried
from koala_agent.starter.process_tree import die_with_parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from koala_agent.starter.connection import Watch
    from koala_agent.starter.ports.carried import Counts, Port

LOOPBACK = "127.0.0.1"
EVERYWHERE = "0.0.0.0"
DEATHS_MAX = 5
"""Ends of the process before no other one is started."""


class PortForwarder:
    """Ports of an attempt as this machine's processes use them: their variables, the listeners, and
    the process that carries. Its listeners outlive that process, which is started again."""

    def __init__(
        self,
        ports: list[Port],
        *,
        agents: list[tuple[str, int]],
        identity: dict[str, str],
        mark: str,
        is_first: bool,
        watch: Watch,
    ) -> None:
        """Open the listeners. Only the first machine carries to own ports. Raises OSError, also
        where this Python cannot encrypt."""
        if any(port.is_forwarded for port in ports):
            _check_encryption()
        claim = identity["claim"]
        self.counts: Counts = ()
        self.has_news = False
        self.pid = 0
        self._deaths = 0
        self._is_finished = False
        self._watch = watch
        self._unread = b""
        self._socket: socket.socket | None = None
        self.variables: dict[str, str] = {}
        """Variables of the program's processes."""
        own, others = [], []
        addresses: dict[str, list[str]] = {}
        for port in ports:
            if port.claim == claim:
                host = EVERYWHERE if port.address else LOOPBACK
                contact = _shown(port.address or home(claim))
                self.variables[f"KOALA_LISTEN_{port.name}"] = f"{host}:{port.port}"
                self.variables[f"KOALA_CONTACT_{port.name}"] = f"{contact}:{port.port}"
                self.variables[f"KOALA_PORT_{port.name}"] = str(port.port)
                if port.is_forwarded and is_first:
                    own.append(port)
                continue
            host, number = port.address, port.port
            if port.is_forwarded:
                listener = _listener_for(port)
                host, number = listener.getsockname()[:2]
                others.append((port, listener))
            addresses.setdefault(port.name, []).append(f"{_shown(host)}:{number}")
            if len(addresses[port.name]) == 1:
                self.variables[f"KOALA_HOST_{port.name}"] = host
                self.variables.setdefault(f"KOALA_PORT_{port.name}", str(number))
        for name, found in addresses.items():
            self.variables[f"KOALA_ADDRESS_{name}"] = found[0]
            self.variables[f"KOALA_ADDRESSES_{name}"] = ",".join(found)
        self._carried = Carried(agents=agents, identity=identity, mark=mark, own=own, others=others)

    def start(self) -> None:
        """Start the process if there is something to carry. Raises OSError."""
        if self.pid or not (self._carried.own or self._carried.others):
            return
        mine, its = socket.socketpair()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _serve(self._carried, its, parent, self.counts)
        its.close()
        mine.settimeout(0)
        self._socket = mine
        self._watch.add(mine.fileno(), select.POLLIN, self._ready)

    def finish(self) -> bool:
        """Let the process end, as those that used it are over; False once it has."""
        if self.pid and not self._is_finished:
            self._is_finished = True
            assert self._socket is not None
            self._socket.shutdown(socket.SHUT_WR)
        return bool(self.pid)

    def ended(self) -> None:
        """Start the process again if it has ended by itself: a few times at most."""
        self.pid = 0
        while self._receive():
            pass
        self._hang_up()
        if self._is_finished:
            return
        self._deaths += 1
        log(f"ports: the process that carries has ended, for the {self._deaths}. time")
        if self._deaths <= DEATHS_MAX:
            try:
                self.start()
            except OSError as error:
                log(f"ports: no other one can be started: {error}")

    def close(self) -> None:
        """End all connections at once. Idempotent."""
        self._hang_up()
        if self.pid:
            try:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            except (ProcessLookupError, ChildProcessError):  # reaped with the others
                pass
            self.pid = 0
        for _port, listener in self._carried.others:
            listener.close()

    def _ready(self, _events: int) -> None:
        self._receive()

    def _receive(self) -> bool:
        """Read counts; False at the end of the process, or when nothing comes."""
        if self._socket is None:
            return False
        try:
            part = self._socket.recv(65536)
        except OSError:
            return False
        if not part:
            self._watch.remove(self._socket.fileno())
            return False
        *lines, self._unread = (self._unread + part).split(b"\n")
        for line in lines:
            rows = [to_list(row) for row in to_list(loads(line))]
            self.counts = tuple([tuple(row) for row in rows])  # type: ignore[misc]
            self.has_news = True
        return True

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._watch.remove(self._socket.fileno())
            self._socket.close()
            self._socket = None
            self._unread = b""


def home(claim: str) -> str:
    """Return the loopback address at which all others reach the ports of a claim's component, so
    that programs can tell one another where they are."""
    component = int(claim.split("/")[-2])
    return f"127.77.{component // 250}.{component % 250 + 1}"


def _check_encryption() -> None:
    try:
        import ssl  # noqa: F401, PLC0415 - takes 20 ms, and few jobs need it
    except ImportError as error:
        raise OSError(
            f"{sys.executable} has no module ssl (expected one, as connections to ports through the"
            " grid are encrypted)"
        ) from error


def _listener_for(port: Port) -> socket.socket:
    """Listen for another's port: at its own number if that is free here. Raises OSError."""
    try:
        listener = open_listener(socket.AF_INET, home(port.claim), port.port)
    except OSError:
        listener = open_listener(socket.AF_INET, home(port.claim), 0)
    listener.settimeout(0)
    return listener


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _serve(carried: Carried, starter: socket.socket, parent: int, counts: Counts) -> NoReturn:
    """Run the process. Never returns."""
    try:
        die_with_parent(parent)
        signal.set_wakeup_fd(-1)
        for name in ("SIGTERM", "SIGINT", "SIGXCPU", "SIGUSR1", "SIGUSR2"):
            signal.signal(getattr(signal, name), signal.SIG_IGN)  # the program may still use it
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        kept = sorted([starter.fileno(), *[own.fileno() for _port, own in carried.others]])
        for before, after in zip([2, *kept], [*kept, kept[-1] + 4096]):
            os.closerange(before + 1, after)
        from koala_agent.starter.ports.traffic import PortTraffic  # noqa: PLC0415 - late: few need it

        PortTraffic(carried, starter, parent, counts).run()
    except Exception as error:  # noqa: BLE001 - a process of its own: this is its last word
        log(f"ports: {type(error).__name__}: {error}")
    finally:
        os._exit(0)
