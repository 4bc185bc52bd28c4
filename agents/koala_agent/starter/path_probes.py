"""Probe TCP paths between components before the barrier is armed."""

from __future__ import annotations

import errno
import os
import select
import struct

from koala_agent.starter.compat import boot_now
from koala_agent.starter.connection import listen_everywhere, open_listener
from koala_agent.starter.events import PathsProbed
from koala_agent.starter.light import accept, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from koala_agent.starter.connection import Watch
    from koala_agent.starter.events import Event
    from koala_agent.starter.messages import PathsOrder

PATH_AGAIN_S = 0.1
"""Pause between two tries of a closed TCP path."""


class PathProbes:
    """Probes of TCP paths: listen on this component's ports, and connect to those of others.

    A listener sends its claim as a line, so that a stranger is not mistaken for it. A refusal is
    retried until the limit, because the other end may not listen yet. The dialling side closes
    first, and the listener resets the rest: else the program would find its port in TIME_WAIT.
    """

    def __init__(self, order: PathsOrder, claim: str, watch: Watch) -> None:
        self.events: list[Event] = []
        self._order = order
        self._greeting = f"koala {claim}\n".encode()
        self._watch = watch
        self._until = boot_now() + order.limit_s
        self._again_at: dict[int, float] = {}  # by target, when it is dialled
        self._open = dict.fromkeys(range(len(order.targets)), f"no answer in {order.limit_s:g} s")
        self._sockets: dict[int, socket.socket] = {}
        self._dialled_at: dict[int, float] = {}
        self._round_trips: dict[str, float] = {}  # by claim
        self._results: dict[int, tuple[float, str]] = {}  # of targets that may fail, or did
        self._is_over = False
        for port in order.listens:
            try:
                self._listen(port)
            except OSError as error:
                taken = error.errno == errno.EADDRINUSE
                why = "is taken" if taken else f"cannot be listened on: {error.strerror or error}"
                self._over(f"{order.label}: port {port} {why}", own=((claim, port, 0.0, why),))
                return
        for index in self._open:
            self._again_at[index] = 0.0
        self.tick()

    @property
    def wake_at(self) -> float | None:
        """The next instant at which `tick` is due; None when all paths are open."""
        return min([self._until, *self._again_at.values()]) if self._open else None

    def tick(self) -> None:
        """Dial what is due; give up at the limit."""
        now = boot_now()
        for index in [i for i, at in self._again_at.items() if at <= now]:
            del self._again_at[index]
            self._dial(index)
        if now >= self._until:
            for index, why in list(self._open.items()):
                self._give_up(index, why)
        if not self._open and not self._is_over:
            self._over("")

    def close(self) -> None:
        """Close all sockets."""
        for descriptor in list(self._sockets):
            self._hang_up(descriptor, is_reset=True)
        self._open.clear()
        self._again_at.clear()

    def _over(self, problem: str, own: tuple[tuple[str, int, float, str], ...] = ()) -> None:
        """Emit the result, once, with our own port that failed; listeners stay open when all paths
        are."""
        if problem:
            self.close()
        self._is_over = True
        self._open.clear()
        self._again_at.clear()
        reached = tuple(self._round_trips.items())
        ports = tuple(
            [
                (self._order.targets[index][3], self._order.targets[index][2], *result)
                for index, result in sorted(self._results.items())
            ]
        )
        self.events.append(PathsProbed(problem=problem, reached=reached, ports=own + ports))

    def _give_up(self, index: int, why: str) -> None:
        """Note that a path is closed, which ends all unless it may fail."""
        if self._is_over:
            return
        self._open.pop(index, None)
        self._again_at.pop(index, None)
        self._results[index] = (0.0, why)
        if not self._order.targets[index][4]:
            self._over(self._reason(index, why))

    def _reason(self, index: int, why: str) -> str:
        label, _address, port, _claim, _may_fail = self._order.targets[index]
        return f"{self._order.label} -> {label}:{port} {why}"

    # The ports of this component

    def _listen(self, port: int) -> None:
        listener = _listener(self._order.address, port)
        listener.settimeout(0)
        self._sockets[listener.fileno()] = listener
        self._watch.add(listener.fileno(), select.POLLIN, lambda _events: self._accept(listener))

    def _accept(self, listener: socket.socket) -> None:
        try:
            caller = accept(listener)
            caller.settimeout(0)
            self._sockets[caller.fileno()] = caller
            caller.send(self._greeting)
        except OSError:  # the caller is gone; or no descriptor is free, and it will retry
            return
        self._watch.add(caller.fileno(), select.POLLIN, lambda _events: self._close_caller(caller))

    def _close_caller(self, caller: socket.socket) -> None:
        """Close a caller that hung up; its data are ignored.

        An orderly close would keep the port until the other side's kernel answers.
        """
        self._hang_up(caller.fileno(), is_reset=True)

    # The ports of others

    def _dial(self, index: int) -> None:
        _label, host, port, _claim, may_fail = self._order.targets[index]
        try:
            family, kind, _proto, _name, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM
            )[0]
            dialled = socket.socket(family, kind)
        except OSError as error:
            self._retry(index, str(error.strerror or error))
            return
        dialled.settimeout(0)
        self._sockets[dialled.fileno()] = dialled
        self._dialled_at[index] = boot_now()
        number = dialled.connect_ex(address)
        if number not in (0, errno.EINPROGRESS):
            self._hang_up(dialled.fileno())
            why = os.strerror(number).lower()
            if may_fail and number == errno.ENETUNREACH:  # no try will change that
                self._give_up(index, why)
            else:
                self._retry(index, why)
            return
        self._watch.add(
            dialled.fileno(), select.POLLIN, lambda _events: self._answered(index, dialled)
        )

    def _answered(self, index: int, dialled: socket.socket) -> None:
        """Check the listener's line. A listener speaks first, so one line is all there is to wait
        for.
        """
        try:
            received = dialled.recv(4096)
        except BlockingIOError:
            return
        except OSError as error:
            refused = error.errno == errno.ECONNREFUSED
            self._hang_up(dialled.fileno())
            self._retry(index, "refused" if refused else str(error.strerror or error).lower())
            return
        self._hang_up(dialled.fileno())
        if not received:
            self._retry(index, "was hung up")
        elif received == f"koala {self._order.targets[index][3]}\n".encode():
            self._open.pop(index, None)
            claim = self._order.targets[index][3]
            took_s = (boot_now() - self._dialled_at[index]) / 2  # the line comes after two
            self._round_trips[claim] = min(took_s, self._round_trips.get(claim, took_s))
            if self._order.targets[index][4]:
                self._results[index] = (took_s, "")
            self.tick()
        elif received.startswith(b"koala "):  # perhaps of an earlier attempt, about to end
            self._retry(index, "was answered by another component")
        else:
            self._give_up(index, "was answered by somebody else")
            self.tick()

    def _retry(self, index: int, why: str) -> None:
        if index in self._open:
            self._open[index] = why
            self._again_at[index] = boot_now() + PATH_AGAIN_S

    def _hang_up(self, descriptor: int, *, is_reset: bool = False) -> None:
        connection = self._sockets.pop(descriptor)
        self._watch.remove(descriptor)
        if is_reset:
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        connection.close()


def _listener(address: str, port: int) -> socket.socket:
    """Listen at the component's own address if this machine has it, else at all addresses.

    The program may be reached there beside others.
    """
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, address)
            return open_listener(family, address, port)
        except OSError as error:
            if error.errno not in (None, errno.EADDRNOTAVAIL):
                raise
    return listen_everywhere(port)
