"""Read /proc: the only reader, for the starter and for the agent's local managers. Linux only."""

from __future__ import annotations

import os

from koala_agent.starter.compat import boot_now, read_file


def read(pid: int, name: str) -> bytes:
    """Read a file of /proc/PID; empty when the process is gone, one NUL when it is another user's.

    Raises OSError when the fault is ours: then nothing is known.
    """
    try:
        return read_file(f"/proc/{pid}/{name}")
    except (FileNotFoundError, ProcessLookupError):
        return b""
    except PermissionError:
        return b"\0"


def read_quietly(pid: int, name: str) -> bytes:
    """Read a file of /proc/PID; empty when that fails for any reason."""
    try:
        return read(pid, name)
    except OSError:
        return b""


def own_environment() -> dict[str, str]:
    """Return what this process was started with: where there was no locale, Python has added one to
    `os.environ`, which is none of a program's."""
    environment = dict(os.environ)
    started_with = read_quietly(os.getpid(), "environ")
    if started_with and b"\0LC_CTYPE=" not in b"\0" + started_with:
        environment.pop("LC_CTYPE", None)
    return environment


def catches(pid: int, number: int) -> bool:
    """Return True for a process that has a handler of its own for this signal."""
    for line in read_quietly(pid, "status").splitlines():
        if line.startswith(b"SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def pids() -> list[int]:
    """List all processes."""
    # Path objects for all processes would cost as much as reading them.
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def boot_id() -> str:
    """Return the identifier of this boot of the machine; empty when it cannot be read."""
    try:
        return read_file("/proc/sys/kernel/random/boot_id").decode().strip()
    except OSError:
        return ""


def begin_of(pid: int) -> float:
    """Return when a process began, in seconds since the machine started; now when it is gone."""
    stat = Stat(read_quietly(pid, "stat"))
    now = boot_now()
    return now if stat.is_missing else min(stat.start_ticks / os.sysconf("SC_CLK_TCK"), now)


class Stat:
    """Parsed content of /proc/PID/stat; of no process when that is empty."""

    def __init__(self, content: bytes) -> None:
        # The second field is the program's name in parentheses and may hold blanks and parentheses.
        self._fields = content[content.rfind(b")") + 2 :].split()

    @property
    def is_missing(self) -> bool:
        """True when there is no such process."""
        return not self._fields

    @property
    def is_over(self) -> bool:
        """True when the process is missing, or has exited with all its threads; the first thread
        may exit before the others.
        """
        fields = self._fields
        return not fields or (fields[0] in (b"Z", b"X") and int(fields[17]) <= 1)

    @property
    def parent(self) -> int:
        return int(self._fields[1])

    @property
    def group(self) -> int:
        return int(self._fields[2])

    @property
    def session(self) -> int:
        return int(self._fields[3])

    @property
    def flags(self) -> int:
        return int(self._fields[6])

    @property
    def cpu_s(self) -> float:
        """Processor-seconds, with those of waited-for children."""
        return sum(map(int, self._fields[11:15])) / os.sysconf("SC_CLK_TCK")

    @property
    def start_ticks(self) -> int:
        """Start in clock ticks since the boot; it identifies a process whose number is reused."""
        return int(self._fields[19])

    @property
    def memory_bytes(self) -> int:
        """Resident memory."""
        return int(self._fields[21]) * os.sysconf("SC_PAGE_SIZE")

    @property
    def arguments_at(self) -> int:
        """Address of the command line in the memory of the process; 0 when it is not shown."""
        return int(self._fields[45])

    @property
    def environment_at(self) -> int:
        """Address of its first environment in its memory; 0 when it is not shown."""
        return int(self._fields[47])
