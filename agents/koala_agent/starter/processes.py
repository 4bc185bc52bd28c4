"""Start, signal and reap the starter's own child processes of a component."""

from __future__ import annotations

import os

from koala_agent.starter.blocked.process import RELEASE, start, to_order
from koala_agent.starter.compat import dataclass, to_exit_code
from koala_agent.starter.process_tree import become_subreaper, find_tree, has_no_child
from koala_agent.starter.procfs import catches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from koala_agent.starter.program import ClaimProgram

_ERRORS = bytearray(65536)
"""Buffer of all reads of errors, as large as a pipe; a new one would be mapped for each."""


@dataclass(frozen=True, kw_only=True)
class Served:
    """End of a claim's service; `is_empty`: nothing is left of what was started. The memory is the
    peak of a process of the program.
    """

    is_empty: bool
    memory_bytes: int


class Processes:
    """The program's processes: forked, blocked on a pipe each, released, watched, ended.

    The blocked ones (`blocked`) wait for orders: an environment to add, any number of times, and
    the release.
    """

    def __init__(self, program: ClaimProgram, nonce: str) -> None:
        self.cpu_s = 0.0
        self.memory_bytes = 0
        self._others: list[tuple[int, int]] = []
        self._program = program
        self._nonce = nonce
        self._pids: dict[int, int] = {}
        self._go: dict[int, int] = {}
        self._environments: dict[int, bytes] = {}
        self.are_released = False
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
            self._program.make_folders()
        for main in self._program.mains:
            index = main.index
            if index in self._go:
                continue
            reading, writing = os.pipe()
            pid = start(self._program, main, reading, self._error_pipe_in)
            os.close(reading)
            self._pids[pid] = index
            self._go[index] = writing
            if index in self._environments:
                _write_quietly(writing, self._environments[index])

    def prepare(self, environments: dict[int, dict[str, str]]) -> None:
        """Send every blocked process the variables to add to its environment."""
        for index, environment in environments.items():
            self._environments[index] = order = to_order(environment)
            if index in self._go:
                _write_quietly(self._go[index], order)

    def release(self) -> None:
        """Release all blocked processes."""
        for writing in self._go.values():
            _write_quietly(writing, RELEASE)
        for writing in self._go.values():
            os.close(writing)
        self._go.clear()
        self.are_released = True

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

    def close(self) -> None:
        """Close the pipe of the processes that could not become the program."""
        os.close(self.error_pipe)
        os.close(self._error_pipe_in)

    def read_errors(self) -> list[str]:
        """Return the errors of processes that could not become the program."""
        try:
            size = os.readv(self.error_pipe, [_ERRORS])
        except BlockingIOError:
            return []
        return _ERRORS[:size].decode("utf-8", "replace").splitlines()

    def left(self, excluded: Collection[int] = ()) -> list[int]:
        """Find all live processes that were started here, however they left the tree.

        Those in `excluded` are left out, with their descendants.
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

    def signal(
        self, number: int, excluded: Collection[int] = (), *, is_notice: bool = False
    ) -> None:
        """Send a signal to all processes that are left; as a notice to those that handle it, as it
        would end the others.
        """
        for pid in self.left(excluded):
            if is_notice and not catches(pid, number):
                continue
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                continue  # gone already; or set-uid, which only the site can end


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
