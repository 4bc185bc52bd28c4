"""Find, measure and kill the processes of a claim on this machine.

A claim's processes are those that have its tag, those that carry `KOALA_CLAIM=<claim>` in their
environment, those seen to belong to it before, and all their descendants.

The tag needs no cooperation of the program. It is a number derived from the claim and the local
manager, so it need not be stored. A process at the barrier takes it on before it becomes the
program, as a resource limit that limits nothing (`koala_agent.starter.process_tree`), and the
kernel passes it on at each fork and exec. A starter has none, since it may serve another claim. A
process group, a session and a parent are not enough: a daemon that forks twice and calls setsid
leaves them all; an environment can be dropped or overwritten. A program can lose its tag only on
purpose (`ulimit -x`, or as root), and is then found by the other criteria.

A process is never addressed by its pid alone: a `ProcessIdentity` also has its start time, and
signals go through a pidfd that was checked against it, so a recycled pid is never hit; process
groups are signalled only within milliseconds of being seen. One scan reads /proc once for all
claims, because an agent scans most when hundreds of jobs end in a second.

Linux only. CPU time is in seconds, memory in bytes of resident set.
"""

from __future__ import annotations

import hashlib
import os
import resource
import signal
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from koala_agent.environments import CLAIM_VARIABLE
from koala_agent.starter import procfs
from koala_agent.starter.process_tree import RLIMIT_LOCKS
from koala_agent.starter.procfs import Stat

SCOPE_VARIABLE = "KOALA_LOCAL_MANAGER"
"""Name of the local manager that started a process: claims are unique to a daemon, and a machine
may run the agents of several. A process without it (its program cleaned its environment) matches
any."""

_TAG_BITS = 62
_PASSES = 5
_KERNEL_THREAD = 0x00200000


@dataclass(frozen=True, slots=True, order=True)
class ProcessIdentity:
    """Unique process: its pid and its start in clock ticks since `boot_id()`."""

    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveProcess:
    """Living process as one scan found it; zombies are left out, since nothing of them is left to
    end.

    `cpu_s` includes that of children it has waited for.
    """

    identity: ProcessIdentity
    parent: int
    group: int
    tag: int | None
    claim: str | None
    scope: str | None
    cpu_s: float
    memory_bytes: int


def tag_of(claim: str, *, scope: str) -> int:
    """Return the tag of a claim's processes, unique to the claim and its local manager."""
    digest = hashlib.sha256(f"{scope}\0{claim}".encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - _TAG_BITS) | 1 << (_TAG_BITS - 1)


def identify(pid: int) -> ProcessIdentity | None:
    """Identify the living process that has this pid now."""
    stat = Stat(procfs.read(pid, "stat"))
    return None if stat.is_over else ProcessIdentity(pid, stat.start_ticks)


def identify_child(pid: int) -> ProcessIdentity:
    """Identify our child that has this pid now, even when it is already a zombie."""
    return ProcessIdentity(pid, Stat(procfs.read(pid, "stat")).start_ticks)


def is_alive(identity: ProcessIdentity) -> bool:
    """Check that this very process is still alive."""
    return identify(identity.pid) == identity


@dataclass(frozen=True, slots=True)
class Scan:
    """Scan of /proc: all living processes but our own.

    A scan is complete when it read every process that was alive at some one instant: a process that
    it does not show does not exist. An incomplete scan proves nothing: a process that forks and
    exits while /proc is being read hides its child.
    """

    seen: tuple[LiveProcess, ...]
    is_complete: bool


def scan() -> Scan:
    """Scan /proc; takes some milliseconds.

    Newest first, because processes that fork and exit repeatedly are the newest; then again for new
    ones, until none vanished unread or the passes are used up.
    """
    read = {os.getpid()}
    bare: set[int] = set()
    processes = []
    for _ in range(_PASSES):
        has_missed = False
        for pid in sorted(set(procfs.pids()) - read, reverse=True):
            stat = Stat(procfs.read(pid, "stat"))
            if stat.is_over:
                # It may have lived when /proc was listed, and may have left a child since.
                has_missed = True
                if not stat.is_missing:
                    read.add(pid)  # a zombie; it stays one
                continue
            is_of_kernel = bool(stat.flags & _KERNEL_THREAD)  # it never has an environment
            environment = b"" if is_of_kernel else procfs.read(pid, "environ")
            if not environment and not is_of_kernel and pid not in bare:
                # Gone, in the middle of an exec, or really without: taken at its word next time.
                has_missed = True
                bare.add(pid)
                continue
            read.add(pid)
            processes.append(_seen(pid, stat, environment))
        if not has_missed:
            return Scan(tuple(processes), is_complete=True)
    return Scan(tuple(processes), is_complete=False)


def members(
    seen: Iterable[LiveProcess],
    known: Mapping[str, Iterable[ProcessIdentity]],
    *,
    scope: str | None,
) -> dict[str, tuple[LiveProcess, ...]]:
    """Assign these processes to the claims in `known`.

    `known` has for each claim the processes that were seen to belong to it before. With a scope,
    processes of other local managers are left out, and tags count. A tag takes precedence over
    an environment, and that over a parent.
    """
    processes = {process.identity.pid: process for process in seen}
    owner: dict[int, str] = {}
    for claim, identities in known.items():
        for identity in identities:
            process = processes.get(identity.pid)
            if process is not None and process.identity == identity:
                owner[identity.pid] = claim
    for pid, process in processes.items():
        is_ours = scope is None or process.scope is None or process.scope == scope
        if process.claim is not None and process.claim in known and is_ours:
            owner[pid] = process.claim
    tags = {} if scope is None else {tag_of(claim, scope=scope): claim for claim in known}
    for pid, process in processes.items():
        if process.tag in tags:
            owner[pid] = tags[process.tag]
    _add_descendants(owner, processes.values())
    by_claim: dict[str, list[LiveProcess]] = {claim: [] for claim in known}
    for pid in sorted(owner):
        by_claim[owner[pid]].append(processes[pid])
    return {claim: tuple(belonging) for claim, belonging in by_claim.items()}


def _add_descendants(owner: dict[int, str], processes: Iterable[LiveProcess]) -> None:
    """Assign children to the claim of their parent, unless they belong to another."""
    children: dict[int, list[int]] = defaultdict(list)
    for process in processes:
        children[process.parent].append(process.identity.pid)
    unvisited = list(owner)
    while unvisited:
        parent = unvisited.pop()
        for child in children.get(parent, ()):
            if child not in owner:
                owner[child] = owner[parent]
                unvisited.append(child)


def send(identity: ProcessIdentity, number: signal.Signals) -> bool:
    """Send a signal to this very process; False when it is gone. Raises PermissionError."""
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(identity.pid)
        try:
            # The descriptor holds on to one process: if it is ours now, it is ours at the signal.
            if is_alive(identity):
                signal.pidfd_send_signal(descriptor, number)
                return True
        finally:
            os.close(descriptor)
    return False


def groups_of(processes: Iterable[LiveProcess], seen: Iterable[LiveProcess]) -> tuple[int, ...]:
    """Return the process groups all of whose seen members are in `found`."""
    belonging = {process.identity for process in processes}
    foreign = {process.group for process in seen if process.identity not in belonging}
    foreign.add(os.getpgrp())
    return tuple(sorted({process.group for process in processes} - foreign))


def kill_group(group: int) -> None:
    """Send KILL to a group that was just seen. The kernel does that atomically against forks, so it
    also ends processes that fork faster than a scan. Raises PermissionError."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


# /proc ------------------------------------------------------------------------------------------


def _seen(pid: int, stat: Stat, environment: bytes) -> LiveProcess:
    claim, scope = _claim_and_scope(environment)
    return LiveProcess(
        identity=ProcessIdentity(pid, stat.start_ticks),
        parent=stat.parent,
        group=stat.group,
        tag=_tag(pid),
        claim=claim,
        scope=scope,
        cpu_s=stat.cpu_s,
        memory_bytes=stat.memory_bytes,
    )


def _tag(pid: int) -> int | None:
    """Read the tag of a process, its limit of locks, if it has one."""
    try:
        _soft, hard = resource.prlimit(pid, RLIMIT_LOCKS)
    except PermissionError:  # another user's, whose limits may be read all the same
        return tag_in(procfs.read(pid, "limits"))
    except OSError:
        return None  # it has just ended
    return None if hard == resource.RLIM_INFINITY else hard


def tag_in(limits: bytes) -> int | None:
    """Parse the tag from /proc/PID/limits: a name, the soft limit, the hard one, the unit."""
    for line in limits.splitlines():
        if line.startswith(b"Max file locks "):
            hard = line.split()[-2]
            return int(hard) if hard.isdigit() else None
    return None


def _claim_and_scope(content: bytes) -> tuple[str | None, str | None]:
    if f"{CLAIM_VARIABLE}=".encode() not in content:
        return None, None
    values = dict(entry.split(b"=", 1) for entry in content.split(b"\0") if b"=" in entry)
    claim = values.get(CLAIM_VARIABLE.encode())
    scope = values.get(SCOPE_VARIABLE.encode())
    return (
        None if claim is None else os.fsdecode(claim),
        None if scope is None else os.fsdecode(scope),
    )
