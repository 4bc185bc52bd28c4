"""Processes of a component that are the starter's own children."""

from __future__ import annotations

import json
import os
import signal

from koala_agent.starter.compat import to_bytes, to_exit_code
from koala_agent.starter.process_tree import (
    become_subreaper,
    die_with_parent,
    find_tree,
    has_no_child,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import NoReturn

    from koala_agent.starter.program import Main, Program

SITE_SIGNALS = ("SIGTERM", "SIGINT", "SIGXCPU", "SIGUSR2")
"""Signals with which a site ends a batch job; the last is Grid Engine's notice of a KILL."""
PAUSE_SIGNALS = ("SIGUSR1", "SIGCONT")
"""Grid Engine's notice of a suspension, whose default action would kill the starter, and the end
of one."""


class Processes:
    """The program's processes: forked, blocked on a pipe each, released, watched, ended.

    The blocked ones are forks of this interpreter that wait for lines: an environment to add, any
    number of times, and "go". When the starter dies they read the end of the pipe, and exit.
    """

    def __init__(self, program: Program, nonce: str) -> None:
        self.cpu_s = 0.0
        self.memory_bytes = 0
        self._others: list[tuple[int, int]] = []
        self._program = program
        self._nonce = nonce
        self._pids: dict[int, int] = {}
        self._go: dict[int, int] = {}
        self._environments: dict[int, dict[str, str]] = {}
        self._is_subreaper = False
        self._has_forked = False
        self.error_pipe, self._error_pipe_in = os.pipe()
        os.set_blocking(self.error_pipe, False)

    @property
    def mains(self) -> tuple[int, ...]:
        """Live main processes; each leads a process group."""
        return tuple(self._pids)

    def fork(self) -> None:
        """Fork the missing processes. Raises OSError when the machine has no room for a process."""
        if not self._is_subreaper:
            self._is_subreaper = become_subreaper()
            self._program.open_files = _raise_open_files(2 * len(self._program.mains) + 1024)
            self._has_forked = True
        for main in self._program.mains:
            index = main.index
            if index in self._go:
                continue
            reading, writing = os.pipe()
            parent = os.getpid()
            pid = os.fork()
            if pid == 0:
                die_with_parent(parent)
                _child(self._program, main, reading, self._error_pipe_in)
            os.close(reading)
            self._pids[pid] = index
            self._go[index] = writing
            if index in self._environments:
                self._write(index, {"environment": self._environments[index]})

    def prepare(self, environments: dict[int, dict[str, str]]) -> None:
        """Send every blocked process the variables to add to its environment."""
        for index, environment in environments.items():
            self._environments[index] = environment
            if index in self._go:
                self._write(index, {"environment": environment})

    def go(self) -> None:
        """Release all blocked processes."""
        for writing in self._go.values():
            _write_quietly(writing, b"go\n")
        for writing in self._go.values():
            os.close(writing)
        self._go.clear()

    def reap(self) -> list[tuple[int, int]]:
        """Reap ended children; return (index, status) of the main processes.

        `take_others` returns the rest.
        """
        ended = []
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            self.cpu_s += used.ru_utime + used.ru_stime
            self.memory_bytes = max(self.memory_bytes, used.ru_maxrss * 1024)
            index = self._pids.pop(pid, None)
            if index is not None:
                writing = self._go.pop(index, None)
                if writing is not None:
                    os.close(writing)
                ended.append((index, to_exit_code(status)))
            else:
                self._others.append((pid, to_exit_code(status)))
        return ended

    def pop_others(self) -> list[tuple[int, int]]:
        """Return and clear the ended children that were no main processes."""
        others, self._others = self._others, []
        return others

    def read_errors(self) -> list[str]:
        """Return the errors of processes that could not become the program."""
        try:
            return os.read(self.error_pipe, 65536).decode("utf-8", "replace").splitlines()
        except BlockingIOError:
            return []

    def left(self, excluded: Collection[int] = ()) -> list[int]:
        """Find all live processes that were started here, however they left the tree.

        The spared ones and their descendants are excluded.
        """
        if self._is_subreaper and not self._program.is_launched and has_no_child():
            return []  # the batch system's processes for a launcher are not our children
        return find_tree(self._nonce, excluded)

    def has_ended_all(self) -> bool:
        """Return True when the kernel shows that nothing is left: no child, and no orphan can have
        become another's.
        """
        is_parent_of_all = self._is_subreaper or not self._has_forked
        return is_parent_of_all and not self._program.is_launched and has_no_child()

    def signal(self, number: int, excluded: Collection[int] = ()) -> None:
        """Send a signal to all processes that are left."""
        for pid in self.left(excluded):
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                continue  # gone already; or set-uid, which only the site can end

    def _write(self, index: int, message: dict[str, object]) -> None:
        _write_quietly(self._go[index], json.dumps(message).encode() + b"\n")


def _child(program: Program, main: Main, reading: int, error_pipe: int) -> NoReturn:
    """Run the forked process: prepare, wait for "go", exec the program. Never returns."""
    what = "fork"
    try:
        signal.set_wakeup_fd(-1)
        for name in (*SITE_SIGNALS, *PAUSE_SIGNALS, "SIGCHLD", "SIGHUP", "SIGPIPE"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        os.setsid()
        reading, error_pipe = _keep_only(reading, error_pipe)
        what = program.directory
        os.chdir(what)
        for number in range(3):
            what = program.stream(number, main.process)
            opened = program.open_stream(number, main.process)
            os.dup2(opened, number)
            os.close(opened)
        command = program.command(main)
        what = command[0]
        environment = dict(program.environment)
        if _wait_for_go(reading, environment):
            if what == program.path:
                program.limit()
            variables = {to_bytes(name): to_bytes(value) for name, value in environment.items()}
            os.execve(to_bytes(what), [to_bytes(word) for word in command], variables)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        text = f"{what}: {why}".replace("\n", " ")
        os.write(error_pipe, text.encode("utf-8", "replace")[:1000] + b"\n")
    finally:
        os._exit(127)


def _keep_only(reading: int, error_pipe: int) -> tuple[int, int]:
    """Close all inherited descriptors but these: siblings' pipes would keep siblings waiting."""
    top = max(reading, error_pipe, 64)
    os.dup2(reading, top + 1, inheritable=False)
    os.dup2(error_pipe, top + 2, inheritable=False)
    os.closerange(3, top + 1)
    os.closerange(top + 3, max(4096, top + 3))
    return top + 1, top + 2


def _wait_for_go(reading: int, environment: dict[str, str]) -> bool:
    """Read lines until "go"; False when the starter is gone."""
    buffer = b""
    while True:
        part = os.read(reading, 65536)
        if not part:
            return False
        buffer += part
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            if line == b"go":
                return True
            environment.update(json.loads(line)["environment"])


def _raise_open_files(wanted: int) -> int:
    """Raise the descriptor limit for a pipe a process; return the former one, for the programs."""
    import resource  # noqa: PLC0415 - late: the check-in does not wait for it

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return soft


def _write_quietly(descriptor: int, data: bytes) -> None:
    """Write to a process that may have died; then its status says so."""
    try:
        os.write(descriptor, data)
    except BrokenPipeError:
        return
