"""Measure the program's progress on this machine, and pause and resume it for pacing.

Processor-seconds are those of all live processes that were started here, with their waited-for
children, and of the reaped ones. A process may write its progress to its file instead.

Stopping reaches the process groups of the main processes, each of which has one of its own, and the
processes that had left them at the last measurement. None of the starter's own are among these.
"""

from __future__ import annotations

import math
import os

from koala_agent.starter.events import ProgressMeasured
from koala_agent.starter.light import signal
from koala_agent.starter.process_tree import offspring, started_at, used_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from koala_agent.starter.processes import Processes
    from koala_agent.starter.program import ClaimProgram

REPORT_MAX_BYTES = 64


class WorkMeter:
    """Meter of the processes of one machine; pacing needs it to be the component's only one."""

    def __init__(self, program: ClaimProgram, processes: Processes) -> None:
        self._program = program
        self._processes = processes
        self._strays: dict[int, int] = {}
        self._held: list[tuple[Callable[[int, int], None], int]] = []
        self._reported: dict[int, float] = {}  # by process: its last report

    def measure(self, excluded: Collection[int] = ()) -> ProgressMeasured:
        """Measure the work: the program's own report, else the processor-seconds used here.

        Processes that are the starter's own are `excluded`.
        The component's other nodes are assumed to have used as much for each of their processes.
        """
        used_s, groups = used_by(pid for pid in offspring() if pid not in excluded)
        mains = self._processes.mains
        strays = (pid for pid, group in groups.items() if group not in mains)
        self._strays = {pid: started_at(pid) for pid in strays}
        for process in range(self._program.processes):
            # A file is empty for a moment while it is rewritten: keep the last value.
            work = self._read(process)
            if work is not None:
                self._reported[process] = work
        everywhere = sum(map(len, self._program.layout)) / max(1, len(self._program.mains))
        return ProgressMeasured(
            work=sum(self._reported.values())
            if self._reported
            else (self._processes.cpu_s + used_s) * everywhere,
            is_told=bool(self._reported),
            can_pace=self._can_pace,
        )

    def pause(self) -> None:
        """Pause the program."""
        if self._can_pace:
            groups = [(os.killpg, pid) for pid in self._processes.mains]
            # Measured some time ago: a number may be another process's by now.
            strays = (pid for pid, start in self._strays.items() if started_at(pid) == start)
            self._held = [*groups, *((os.kill, pid) for pid in strays)]
            self._signal_held(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume what was paused."""
        self._signal_held(signal.SIGCONT)
        self._held = []

    @property
    def _can_pace(self) -> bool:
        """True when stopping reaches all processes: a stopped part would make the others wait, or
        time out.
        """
        return len(self._program.layout) == 1 and not self._program.ranks

    def _signal_held(self, number: int) -> None:
        for send, pid in self._held:
            try:
                send(pid, number)
            except (ProcessLookupError, PermissionError):
                continue

    def _read(self, process: int) -> float | None:
        """Read a process's progress file; None while it has no number."""
        try:
            # The program may have put anything here: do not block on a pipe or read a large file.
            file = os.open(self._program.progress_file(process), os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            work = float(os.read(file, REPORT_MAX_BYTES))
        except (OSError, ValueError):
            return None
        finally:
            os.close(file)
        return work if 0 <= work < math.inf else None
