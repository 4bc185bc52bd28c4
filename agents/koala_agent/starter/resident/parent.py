"""Resident parent of starters: a process with the starter's code loaded, which forks a starter for
each order of its agent. A fork takes a millisecond, an interpreter with these modules thirty.

Orders and answers are JSON objects, one a packet, on a socket that is the standard input:

    {"claim", "spec", "directory", "environment"}   fork a starter with these variables and ours;
                                                    its end of a socket of orders comes along
    {"started": claim, "pid", "start_ticks"}        or {"unstarted": claim, "error"}
    {"exited": pid, "status", "cpu_s", "memory_bytes"}

- It has one thread, and ends with its agent. Its starters outlive both (`forked`).
- A starter begins when it has taken the claim's launch. So when this process dies in the middle of
  an order, either its starter runs the claim or one that the agent executes.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket

from koala_agent.starter import procfs
from koala_agent.starter.compat import to_exit_code, to_object
from koala_agent.starter.process_tree import die_with_parent
from koala_agent.starter.procfs import Stat
from koala_agent.starter.resident import forked
from koala_agent.starter.resident.process_title import ProcessTitle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from koala_agent.starter.resident.forked import Serve


def serve(claim: Serve) -> int:
    """Fork a starter for each order, until the agent ends; a starter serves its claims by this."""
    _load()
    die_with_parent(os.getppid())
    parent = _Parent(claim)
    gc.collect()
    if hasattr(gc, "freeze"):
        gc.freeze()  # no collection in a starter touches these objects, so their pages stay shared
    try:
        while parent.serve_once():
            pass
    except (BrokenPipeError, ConnectionResetError):  # the latter if it left answers unread
        pass  # the agent has ended, and the kernel is about to end this process
    return 0


def _load() -> None:
    """Load before the first fork what a starter would load on its own, each in its turn."""
    import resource  # noqa: F401, PLC0415

    from koala_agent.starter.challenge_response import challenge, proof  # noqa: PLC0415

    proof("", "", challenge())  # the keyed hash


class _Parent:
    """The process that waits for orders and for the ends of its starters."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._starters: set[int] = set()
        self._title = ProcessTitle()
        self._orders = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=0)
        self._woken, writing = os.pipe()
        for descriptor in (self._woken, writing):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(writing)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        self._poll = select.poll()
        self._poll.register(0, select.POLLIN)
        self._poll.register(self._woken, select.POLLIN)

    def serve_once(self) -> bool:
        """Wait, then handle ends and one order; False at the end of the agent."""
        ready = dict(self._poll.poll())
        if self._woken in ready:
            os.read(self._woken, 4096)
            self._reap()
        if 0 not in ready:
            return True
        packet, received = forked.receive(self._orders)
        if packet:
            self._launch(to_object(json.loads(packet)), received)
            for descriptor in received:
                os.close(descriptor)
        return len(packet) > 0

    def _launch(self, order: dict[str, object], received: list[int]) -> None:
        claim = str(order["claim"])
        try:
            pid = os.fork()
        except OSError as error:
            self._answer({"unstarted": claim, "error": str(error)})
            return
        if pid == 0:
            forked.run(order, received[0], self._title, self._serve)
        self._starters.add(pid)
        ticks = Stat(procfs.read(pid, "stat")).start_ticks  # not reaped yet, so it is there
        self._answer({"started": claim, "pid": pid, "start_ticks": ticks})

    def _reap(self) -> None:
        while self._starters:
            pid, status, used = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return
            self._starters.remove(pid)
            exited: dict[str, object] = {
                "exited": pid,
                "status": to_exit_code(status),
                "cpu_s": used.ru_utime + used.ru_stime,
                "memory_bytes": used.ru_maxrss * 1024,
            }
            self._answer(exited)

    def _answer(self, message: dict[str, object]) -> None:
        os.write(0, json.dumps(message).encode())
