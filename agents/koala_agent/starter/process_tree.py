"""Processes of this machine: who descends from us, and who carries our mark."""

from __future__ import annotations

import os
from signal import SIGKILL

from koala_agent.starter.compat import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

MARK = "KOALA_STARTER"
"""The variable that every process of the program has: the starter's nonce."""
BRAND = "KOALA_BRAND"
"""The variable that tells a starter the brand of its claim; not every local manager wants one."""
RLIMIT_LOCKS = 10
"""The kernel keeps this limit and has had no use for it since Linux 2.4.25."""
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def wear_brand() -> None:
    """Takes on the brand that the environment tells, before anything is forked.

    A brand is a number that this process, and all that comes of it, has as a limit that limits
    nothing. The kernel hands it on at each fork and exec, and nobody without privileges can raise
    it: a program that drops its environment, its parent and its session has it still.
    """
    text = os.environ.pop(BRAND, "")  # the program need not know
    if not text:
        return
    import resource  # noqa: PLC0415 - few starters outside of emulated sites need it

    try:
        resource.setrlimit(RLIMIT_LOCKS, (int(text), int(text)))
    except (ValueError, OSError) as error:
        log(f"cannot take on the brand {text}: {error}; processes are found by environment only")


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
    return not is_over(_fields(pid))


def is_over(fields: list[bytes]) -> bool:
    """Whether these fields of /proc/PID/stat, from the third on, are those of no process, or of one
    that has exited with all its threads; the first thread may exit before the others."""
    return not fields or (fields[0] in (b"Z", b"X") and int(fields[17]) <= 1)


def _fields(pid: int) -> list[bytes]:
    """Those behind the name, which may hold blanks and parentheses; none of no process."""
    stat = read_quietly(f"/proc/{pid}/stat")
    return stat[stat.rfind(b")") + 2 :].split()


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
        fields = _fields(pid)
        if fields:
            groups[pid] = int(fields[2])
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK"), groups


def groups_elsewhere(pids: Iterable[int]) -> list[int]:
    """The process groups of these that are in sessions other than ours: who is in one of them came
    from those who made the session."""
    own = os.getsid(0)
    found = [_fields(pid) for pid in pids]
    return sorted({int(fields[2]) for fields in found if fields and int(fields[3]) != own})


def started_at(pid: int) -> int:
    """What tells a process from another that has its number later; 0 when there is none."""
    fields = _fields(pid)
    return int(fields[19]) if fields else 0


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
            fields = _fields(int(name))
            if not is_over(fields):
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
