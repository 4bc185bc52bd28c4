"""Starters that are forks of the resident parent, and those of them that have no claim for now."""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import psutil

from koala_agent.lrm.claim_processes import ProcessIdentity
from koala_agent.starter import procfs

ProcessSettings: TypeAlias = "tuple[object, ...]"
"""Settings of a process that another one of its account may change, and that its forks inherit.

A program can so mark the starter above it, or their parent, for claims that come later: `prlimit`,
`renice`, `ionice`, `taskset`, `chrt`, `choom`. Without privileges nobody can take all of this back.
"""

_FILES = ("limits", "oom_score_adj", "coredump_filter", "timerslack_ns", "cgroup")
_STATUS = (b"Cpus_allowed:", b"Mems_allowed:", b"TracerPid:")
_SCHED_GETATTR = {"x86_64": 315, "aarch64": 275}
"""Numbers of a call that the C library has no function for."""
_ATTRIBUTES_BYTES = 56
_syscall = ctypes.CDLL(None).syscall


def settings_of(pid: int) -> ProcessSettings | None:
    """Return the settings of a process; None when it is gone, or they cannot be read."""
    try:
        status = procfs.read(pid, "status").splitlines()
        return (
            *(procfs.read(pid, name) for name in _FILES),
            *(line for line in status if line.startswith(_STATUS)),
            procfs.read(pid, "autogroup").rpartition(b" nice ")[2],  # each session has its own
            tuple(psutil.Process(pid).ionice()),
            _scheduling(pid),
        )
    except (psutil.Error, OSError):
        return None


def _scheduling(pid: int) -> object:
    """Return policy, priority, and what else the scheduler keeps for a process. Raises OSError."""
    number = _SCHED_GETATTR.get(os.uname().machine)
    attributes = ctypes.create_string_buffer(_ATTRIBUTES_BYTES)
    if number is not None and _syscall(number, pid, attributes, _ATTRIBUTES_BYTES, 0) == 0:
        return attributes.raw
    return os.sched_getscheduler(pid), os.getpriority(os.PRIO_PROCESS, pid)


IDLE_MAX = 32
"""Most starters that are kept without a claim; each has two to three megabytes of its own."""
IDLE_S = 20.0
"""Time after which a starter that was not needed is let go."""
CLAIMS_MAX = 200
"""Most claims of one starter, so that none grows without end."""


@dataclass(slots=True, eq=False)
class ForkedStarter:
    """Fork of the resident parent, with our end of its socket pair."""

    identity: ProcessIdentity
    control: socket.socket
    cpu_s: float = 0.0
    """Processor time that it had used when its last claim was over."""
    claims: int = 1

    @property
    def may_serve(self) -> bool:
        """True when it may get another claim."""
        return self.control.fileno() >= 0 and self.claims < CLAIMS_MAX

    def hang_up(self) -> None:
        """Close the socket; then the starter ends when its claim has, or now if it has none."""
        if self.control.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self.control)
            self.control.close()


class IdleStarters:
    """Starters without a claim; the one that was added last is taken first."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: dict[ForkedStarter, float] = {}
        self._check: asyncio.TimerHandle | None = None

    def add(self, starter: ForkedStarter) -> None:
        """Keep a starter for the next claim; let go the one that has waited longest if there are
        too many."""
        self._since[starter] = self._clock()
        if len(self._since) > IDLE_MAX:
            self._retire(next(iter(self._since)))
        self._check_later()

    def order(self, packet: bytes, settings: ProcessSettings | None) -> ForkedStarter | None:
        """Give an order to a starter with these settings and return it; None without one."""
        while self._since:
            starter, _since = self._since.popitem()
            if settings_of(starter.identity.pid) == settings:
                with suppress(OSError):
                    starter.control.send(packet)
                    starter.claims += 1
                    return starter
            starter.hang_up()  # it was killed, or a program has changed its settings
        return None

    def remove(self, starter: ForkedStarter) -> None:
        """Forget a starter that has ended; one that is not here is none of ours."""
        self._since.pop(starter, None)

    def close(self) -> None:
        """Let all starters go."""
        if self._check is not None:
            self._check.cancel()
            self._check = None
        for starter in tuple(self._since):
            self._retire(starter)

    def _retire(self, starter: ForkedStarter) -> None:
        del self._since[starter]
        starter.hang_up()

    def _check_later(self) -> None:
        if self._check is None and self._since:
            left_s = next(iter(self._since.values())) + IDLE_S - self._clock()
            loop = asyncio.get_running_loop()
            self._check = loop.call_later(max(0.0, left_s), self._check_times)

    def _check_times(self) -> None:
        self._check = None
        for starter, since in tuple(self._since.items()):
            if self._clock() >= since + IDLE_S:
                self._retire(starter)
        self._check_later()
