"""Find the processes of a claim on this machine: our descendants, and those with our marks."""

from __future__ import annotations

import os

from koala_agent.starter import procfs
from koala_agent.starter.compat import log
from koala_agent.starter.light import signal
from koala_agent.starter.procfs import Stat, read_quietly

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, MutableMapping

MARK = "KOALA_STARTER"
"""The variable that every process of the program has: the starter's nonce."""
TAG = "KOALA_BRAND"
"""The variable with the tag of the claim; not every local manager uses one."""
RLIMIT_LOCKS = 10
"""The kernel keeps this limit and has not enforced it since Linux 2.4.25."""
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES = 8 * 1024 * 1024


def pop_tag(environment: MutableMapping[str, str]) -> int:
    """Take the claim's tag out of an environment, as the program does not need it; 0 for none.

    A tag is a number that every process of the program has as a resource limit that limits
    nothing. Each fork and exec inherits it, and without privileges it cannot be raised. A program
    that drops its environment, its parent and its session still has it. The starter does not take
    it on itself: it may serve another claim afterwards.
    """
    tag = int(environment.pop(TAG, "") or 0)
    if tag:
        import resource  # noqa: PLC0415 - few starters outside of emulated sites need it

        _soft, hard = resource.getrlimit(RLIMIT_LOCKS)
        if hard != resource.RLIM_INFINITY and hard < tag:
            log(f"no process can take the tag {tag}: the limit of locks is {hard}")
    return tag


def set_tag(tag: int) -> None:
    """Set a tag on this process, 0 for none; where that is impossible, `pop_tag` said so."""
    if not tag:
        return
    import resource  # noqa: PLC0415 - late: only where there is no gate

    try:
        resource.setrlimit(RLIMIT_LOCKS, (tag, tag))
    except (ValueError, OSError):
        return


def become_subreaper() -> bool:
    """Make this process the parent of orphans of its tree; False where that is impossible."""
    return _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Have this process killed when its parent dies, as it would be unwatched."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the call
        os._exit(127)


def keep_buffers() -> None:
    """Let GNU's C library keep freed memory for the next large buffers; others have no such call.
    Else each is taken from the kernel, page by page, and returned: a third of a stream's time."""
    for option in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
        _call_libc("mallopt", option, KEPT_BYTES)


def _prctl(option: int, value: int) -> bool:
    return _call_libc("prctl", option, value, 0, 0, 0) == 0


def _call_libc(name: str, *arguments: int) -> int | None:
    """Call a function, without the classes of `ctypes`, which take 3 ms; None if it is missing."""
    try:
        import _ctypes  # noqa: PLC0415 - a Python may be without

        own = _ctypes.dlopen(None, 0)  # type: ignore[arg-type] # this program
        return int(_ctypes.call_function(_ctypes.dlsym(own, name), arguments))
    except (ImportError, OSError, AttributeError):
        return None


def has_no_child() -> bool:
    """Return True if this process has no child, not even one that has ended."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def is_alive(pid: int) -> bool:
    """Return True for a process that exists and is no zombie."""
    return not _stat(pid).is_over


def _stat(pid: int) -> Stat:
    return Stat(read_quietly(pid, "stat"))


def find_tree(nonce: str, excluded: Collection[int] = ()) -> list[int]:
    """Find our descendants, and all processes with our mark but our own ancestors.

    The processes in `excluded` are left out, with their descendants. The mark is not the claim:
    another daemon on this machine may give the same name to a claim of its own.
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
    processes = [pid for pid in others if _descends(pid, own, parents) or _carries(pid, mark)]
    return [
        pid
        for pid in processes
        if pid not in excluded and not any(_descends(pid, one, parents) for one in excluded)
    ]


def used_by(pids: Iterable[int]) -> tuple[float, dict[int, int]]:
    """Return the processor-seconds of live processes, and the process group of each.

    Waited-for children are included.
    """
    cpu_s = 0.0
    groups = {}
    for pid in pids:
        stat = _stat(pid)
        if not stat.is_missing:
            groups[pid] = stat.group
            cpu_s += stat.cpu_s
    return cpu_s, groups


def groups_elsewhere(pids: Iterable[int]) -> list[int]:
    """Return the process groups of these processes that are in sessions other than ours.

    All members of such a group descend from the makers of the session.
    """
    own = os.getsid(0)
    stats = map(_stat, pids)
    return sorted({stat.group for stat in stats if not stat.is_missing and stat.session != own})


def started_at(pid: int) -> int:
    """Return the start time, which identifies a process whose number is reused; 0 without one."""
    stat = _stat(pid)
    return 0 if stat.is_missing else stat.start_ticks


def offspring(ancestor: int | None = None) -> list[int]:
    """Find all live descendants, of this process by default, as cheaply as the kernel allows.

    The kernel lists the children of a thread, unless it was built without that.
    """
    ancestor = ancestor or os.getpid()
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        return descendants(ancestor)
    processes: list[int] = []
    above = [ancestor]
    while above:
        pid = above.pop()
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue  # it has just ended
        for thread in threads:
            children = read_quietly(pid, f"task/{thread}/children")
            above += map(int, children.split())
        if pid != ancestor:
            processes.append(pid)
    return processes


def descendants(ancestor: int | None = None) -> list[int]:
    """Find all live descendants, of this process by default."""
    parents, top = _parents(), ancestor or os.getpid()
    return [pid for pid in sorted(parents) if pid != top and _descends(pid, top, parents)]


def _parents() -> dict[int, int]:
    stats = {pid: _stat(pid) for pid in procfs.pids()}
    return {pid: stat.parent for pid, stat in stats.items() if not stat.is_over}


def _descends(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    for _ in range(len(parents)):
        if pid not in parents:
            return False
        pid = parents[pid]
        if pid == ancestor:
            return True
    return False


def _carries(pid: int, mark: bytes) -> bool:
    content = read_quietly(pid, "environ")
    return content.startswith(mark) or b"\0" + mark in content


def family(starter: int, mark: str) -> list[int]:
    """Find the processes of a starter's program, for another process of that starter."""
    parents = _parents()
    content = f"{MARK}={mark}\0".encode()
    return [
        pid
        for pid in parents
        if pid not in (starter, os.getpid())
        and (_descends(pid, starter, parents) or _carries(pid, content))
    ]
