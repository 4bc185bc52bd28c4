"""The process above a starter in a batch job: it stays until nothing of the job is left.

A batch system counts a job as over when its first process has ended, and not each of them finds
what else the job started. So the first process only forks the starter, hands on signals to it,
and waits. All that the starter and its program ever start are descendants of the keeper, whatever
they do, because it is a subreaper. A killed starter's are killed by it, and only then it ends, as
the starter did. If the keeper is killed, the starter is, too; the rest is the batch system's.

Emulated local managers find by themselves what is left, and need no process more.
"""

from __future__ import annotations

import os
import signal

from koala_agent.starter.compat import log
from koala_agent.starter.process_tree import (
    become_subreaper,
    descendants,
    die_with_parent,
    groups_elsewhere,
    has_no_child,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

HANDED_ON = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGXCPU,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
)
"""A batch system may send these to the first process alone. What it sends to the group the starter
gets twice, which means the same."""
SEEN = (*HANDED_ON, signal.SIGCHLD, signal.SIGHUP)
PAUSE_S = 0.05


class Keeper:
    """What the starter knows of its keeper."""

    def __init__(self, pid: int, ready: int) -> None:
        self._pid = pid
        self._ready = ready

    def confirm(self) -> None:
        """Waits until the keeper keeps what comes of the next fork; exits if it is dead. From then
        on this process ends with it. Not at the start: this takes some milliseconds."""
        if self._ready >= 0:
            os.read(self._ready, 1)
            os.close(self._ready)
            self._ready = -1
            die_with_parent(self._pid)


def keep_for(manager: str) -> Keeper | None:
    """The same as `keep`; None, and no child, where the local manager needs no keeper."""
    return None if manager in ("", "emulated") else keep()


def keep() -> Keeper:
    """Returns in a child of this process, which stays behind as its keeper."""
    reading, writing = os.pipe()
    keeper = os.getpid()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SEEN)
    starter = os.fork()
    if starter > 0:
        _stay(starter, writing)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(writing)
    return Keeper(keeper, reading)


def _stay(starter: int, ready: int) -> NoReturn:
    """The life of the keeper, all signals of which are blocked and taken one by one."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, ends would be taken from us
    if not become_subreaper():
        log("no subreaper can be had here: what outlives a killed starter is not found")
    os.write(ready, b".")
    os.closerange(3, 4096)
    status = None
    while status is None:
        number = signal.sigwait(SEEN)
        if number in HANDED_ON:
            os.kill(starter, number)  # not waited for yet, so it is nobody else
        status = _reap(starter)
    while not has_no_child():
        _kill_rest()
        signal.sigtimedwait(SEEN, PAUSE_S)
        _reap(starter)
    _exit_as(os.waitstatus_to_exitcode(status))


def _reap(starter: int) -> int | None:
    """Takes the ends of all children; answers the starter's, if it is among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == starter:
            found = status


def _kill_rest() -> None:
    """KILL to all that is left; to groups, too, because these cannot outrun it by forking."""
    left = descendants()
    for send, numbers in ((os.killpg, groups_elsewhere(left)), (os.kill, left)):
        for number in numbers:
            try:
                send(number, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue  # gone already; or set-uid, which is waited for


def _exit_as(code: int) -> NoReturn:
    """Ends as the starter did, by the same signal if it was one."""
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)
