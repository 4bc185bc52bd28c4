"""Settings of a process that another one of its account may change, and that its forks inherit.

A program can so mark the starter above it, or their parent, for claims that come later: `prlimit`,
`renice`, `ionice`, `taskset`, `chrt`, `choom`. Without privileges nobody can take all of this back.
"""

from __future__ import annotations

import ctypes
import os
from typing import TypeAlias

import psutil

from koala_agent.starter import procfs

ProcessSettings: TypeAlias = "tuple[object, ...]"

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
