"""How far the program is on this machine, and its being held.

Processor-seconds are those of all processes that were started here and live, with what they waited
for and what was reaped. A process may write how much it has done to its file instead. Held are the
process groups of the main processes, each of which has one of its own, and whoever had left them
when it was measured last; nothing of the starter's is among these.
"""

from __future__ import annotations

import math
import os
import signal

from koala_agent.starter.events import Measured
from koala_agent.starter.process_tree import offspring, started_at, used_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from koala_agent.starter.processes import Processes
    from koala_agent.starter.program import Program

TOLD_MAX_BYTES = 64


class WorkMeter:
    """Of the processes of one machine, the component's only one if they are to be held."""

    def __init__(self, program: Program, processes: Processes) -> None:
        self._program = program
        self._processes = processes
        self._strays: dict[int, int] = {}
        self._held: list[tuple[Callable[[int, int], None], int]] = []
        self._told: dict[int, float] = {}  # by process: what it told last

    def measure(self) -> Measured:
        """What was told; else what was used here, as if the component's other machines, of which
        nothing is known, had used as much for each of theirs."""
        used_s, groups = used_by(offspring())
        mains = self._processes.mains
        strays = (pid for pid, group in groups.items() if group not in mains)
        self._strays = {pid: started_at(pid) for pid in strays}
        for process in range(self._program.processes):
            # A file that is written anew is empty for a moment, which takes nothing back.
            if (work := self._read(process)) is not None:
                self._told[process] = work
        everywhere = sum(map(len, self._program.layout)) / max(1, len(self._program.mains))
        return Measured(
            work=sum(self._told.values())
            if self._told
            else (self._processes.cpu_s + used_s) * everywhere,
            is_told=bool(self._told),
            can_pace=self._can_pace,
        )

    def halt(self) -> None:
        """Stops the program."""
        if self._can_pace:
            groups = [(os.killpg, pid) for pid in self._processes.mains]
            # Measured some time ago: a number may be another process's by now.
            strays = (pid for pid, start in self._strays.items() if started_at(pid) == start)
            self._held = [*groups, *((os.kill, pid) for pid in strays)]
            self._signal_held(signal.SIGSTOP)

    def let_run(self) -> None:
        """Continues what was stopped."""
        self._signal_held(signal.SIGCONT)
        self._held = []

    @property
    def _can_pace(self) -> bool:
        """A part of the processes held would keep the others waiting, or time out."""
        return len(self._program.layout) == 1 and not self._program.ranks

    def _signal_held(self, number: int) -> None:
        for send, pid in self._held:
            try:
                send(pid, number)
            except (ProcessLookupError, PermissionError):
                continue

    def _read(self, process: int) -> float | None:
        """What a process wrote about its work; None while its file has no number."""
        try:
            # Whatever the program made of it: a pipe must not block, nor a large file be read.
            file = os.open(self._program.progress_file(process), os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            work = float(os.read(file, TOLD_MAX_BYTES))
        except (OSError, ValueError):
            return None
        finally:
            os.close(file)
        return work if 0 <= work < math.inf else None
