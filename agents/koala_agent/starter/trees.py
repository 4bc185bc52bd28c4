"""Processes of this machine: who descends from us, and who carries our mark."""

from __future__ import annotations

import os
from signal import SIGKILL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

MARK = "KOALA_STARTER"
"""The variable that every process of the program has: the starter's nonce."""
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> bool:
    """Orphans of our tree become our children; False where that is not to be had."""
    return _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """This process is killed when its parent dies, by whatever: nobody would watch it."""
    _prctl(PR_SET_PDEATHSIG, SIGKILL)
    if os.getppid() != parent:  # it was quicker
        os._exit(127)


def _prctl(option: int, value: int) -> bool:
    try:
        import ctypes  # noqa: PLC0415 - late: 5 ms, and the check-in does not wait for it

        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def has_no_child() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def is_alive(pid: int) -> bool:
    """Whether there is such a process, that is not only to be waited for."""
    stat = read_quietly(f"/proc/{pid}/stat")
    return stat[stat.rfind(b")") + 2 :][:1] not in (b"", b"Z", b"X")


def find_tree(nonce: str, spared: Collection[int] = ()) -> list[int]:
    """Our descendants, and whoever carries our mark in its environment but our own ancestors; not
    who is spared, nor descends from one.

    Not the claim: another daemon on this machine gives the same names to claims of its own.
    """
    parents = _parents()
    own = os.getpid()
    above = {own}
    pid = own
    while pid in parents and parents[pid] not in above:
        pid = parents[pid]
        above.add(pid)
    mark = f"{MARK}={nonce}\0".encode()
    others = [pid for pid in sorted(parents) if pid not in above]
    found = [pid for pid in others if _descends(pid, own, parents) or _carries(pid, mark)]
    return [
        pid
        for pid in found
        if pid not in spared and not any(_descends(pid, one, parents) for one in spared)
    ]


def used_by(pids: Iterable[int]) -> tuple[float, dict[int, int]]:
    """Processor-seconds that living processes have used, with those of their children that they
    waited for, and the process group of each."""
    ticks = 0
    groups = {}
    for pid in pids:
        stat = read_quietly(f"/proc/{pid}/stat")
        fields = stat[stat.rfind(b")") + 2 :].split()
        if len(fields) > 14:
            groups[pid] = int(fields[2])
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK"), groups


def started_at(pid: int) -> int:
    """What tells a process from another that has its number later; 0 when there is none."""
    stat = read_quietly(f"/proc/{pid}/stat")
    fields = stat[stat.rfind(b")") + 2 :].split()
    return int(fields[19]) if len(fields) > 19 else 0


def offspring() -> list[int]:
    """All living processes below this one, as cheaply as the kernel allows: it lists the children
    of a thread, unless it was built without that."""
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        return descendants()
    found: list[int] = []
    above = [os.getpid()]
    while above:
        pid = above.pop()
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue  # it has just ended
        for thread in threads:
            children = read_quietly(f"/proc/{pid}/task/{thread}/children")
            above += map(int, children.split())
        if pid != os.getpid():
            found.append(pid)
    return found


def descendants() -> list[int]:
    """All living processes below this one."""
    parents, own = _parents(), os.getpid()
    return [pid for pid in sorted(parents) if pid != own and _descends(pid, own, parents)]


def _parents() -> dict[int, int]:
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            stat = read_quietly(f"/proc/{name}/stat")
            fields = stat[stat.rfind(b")") + 2 :].split()
            if len(fields) > 1 and fields[0] not in (b"Z", b"X"):
                parents[int(name)] = int(fields[1])
    return parents


def _descends(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    for _ in range(len(parents)):
        if pid not in parents:
            return False
        pid = parents[pid]
        if pid == ancestor:
            return True
    return False


def _carries(pid: int, mark: bytes) -> bool:
    content = read_quietly(f"/proc/{pid}/environ")
    return content.startswith(mark) or b"\0" + mark in content


def read_quietly(path: str) -> bytes:
    """A file of /proc; empty when its process is gone or not ours to see."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
