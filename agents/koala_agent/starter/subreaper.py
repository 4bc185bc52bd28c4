"""Keeper process above a starter in a batch job: it stays until nothing of the job is left.

A batch system counts a job as over when its first process has ended, and not every one finds what
else the job started. So the first process only forks the starter, forwards signals to it, and
waits. All that the starter and its program ever start are descendants of the keeper, because it is
a subreaper. It kills the descendants of a killed starter, and only then ends, as the starter did.
If the keeper is killed, so is the starter; the rest is the batch system's.

Emulated local managers find leftover processes by themselves, and need no keeper.
"""

from __future__ import annotations

import os

from koala_agent.starter.compat import log, to_exit_code
from koala_agent.starter.light import signal
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

FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGXCPU,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
)
"""Signals that a batch system may send to the first process alone. The starter gets those sent to
the group twice, which is harmless."""
SEEN = (*FORWARDED, signal.SIGCHLD, signal.SIGHUP)
PAUSE_S = 0.05


def keep() -> None:
    """Fork; return in the child, while this process stays behind as its keeper."""
    if not become_subreaper():
        log("no subreaper can be had here: what outlives a killed starter is not found")
    keeper = os.getpid()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SEEN)
    # If ignored, the kernel would reap children itself. Before the fork, as this discards a pending
    # SIGCHLD: that of a starter that has ended at once.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    starter = os.fork()
    if starter > 0:
        _run_keeper(starter)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    die_with_parent(keeper)


def _run_keeper(starter: int) -> NoReturn:
    """Run the keeper, with all signals blocked and received one by one."""
    os.closerange(3, 4096)
    status = None
    while status is None:
        number = signal.sigwait(SEEN)
        if number in FORWARDED:
            os.kill(starter, number)  # not reaped yet, so the number is not reused
        status = _reap(starter)
    while not has_no_child():
        _kill_rest()
        signal.sigtimedwait(SEEN, PAUSE_S)
        _reap(starter)
    _exit_as(to_exit_code(status))


def _reap(starter: int) -> int | None:
    """Reap all ended children; return the starter's status, if it is among them."""
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
    """Send KILL to all that is left, and to its groups: these cannot outrun it by forking."""
    left = descendants()
    for send, numbers in ((os.killpg, groups_elsewhere(left)), (os.kill, left)):
        for number in numbers:
            try:
                send(number, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue  # gone already; or set-uid, which is waited for


def _exit_as(code: int) -> NoReturn:
    """End as the starter did, by the same signal if it was one."""
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)
