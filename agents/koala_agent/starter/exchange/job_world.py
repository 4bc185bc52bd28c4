"""Members of a malleable job as its program on this machine learns of them.

The file that KOALA_WORLD names is replaced at each change, and is there from the start. The socket
of KOALA_KV answers those that wait for the next change. Beside them lies `koala.job`, which a
program in Python imports whether Koala is installed here or not: a folder without `__init__.py` on
PYTHONPATH counts only where no package `koala` follows.
"""

from __future__ import annotations

import os
import time

from koala_agent.starter.compat import boot_now, log, to_count, to_list, to_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from koala_agent.starter.events import Resize, WorldRequested
    from koala_agent.starter.program import ClaimProgram

WAITING_MAX = 1024
MODULES = "python"
"""Folder in the state folder that goes on PYTHONPATH."""


class JobWorld:
    """The newest members, in a file, and the requests that wait for the next ones.

    `write` writes a file of the state folder atomically and returns its path; `answer` answers a
    request on the socket.
    """

    def __init__(
        self,
        program: ClaimProgram,
        *,
        write: Callable[[str, dict[str, object] | bytes], str],
        answer: Callable[[int, dict[str, object]], None],
    ) -> None:
        machine = program.machine
        # Machines may share the folder, and each has a clock of its own.
        self._name = f"world.{machine}.json" if machine else "world.json"
        self._program = program
        self._write = write
        self._answer = answer
        self._number = 0
        self._waiting: dict[int, tuple[int, float]] = {}

    def begin(self, bundle: dict[str, object]) -> dict[str, str]:
        """Write the members that start; return the program's variables. Raises OSError."""
        self._number = 0
        path = self._write(self._name, world_of(bundle, 0, None))
        folder = os.path.join(self._program.state_folder, MODULES)
        os.makedirs(os.path.join(folder, "koala"), mode=0o700, exist_ok=True)
        self._write(
            os.path.join(MODULES, "koala", "job.py"), self._program.spec.job_module.encode()
        )
        folders = self._program.environment.get("PYTHONPATH", "")
        path_variable = os.pathsep.join((folders, folder)) if folders else folder
        return {"KOALA_WORLD": path, "PYTHONPATH": path_variable}

    def change(self, order: Resize) -> None:
        """Write the members that are there now, then answer those that wait for them.

        A full disk is no reason to end the program: the next change may find room.
        """
        leave_by = None if order.leave_s is None else time.time() + order.leave_s
        try:
            self._write(self._name, world_of(order.bundle, order.number, leave_by))
        except OSError as error:
            log(f"{self._name} cannot be written: {error}")
            return
        self._number = order.number
        self._answer_due(lambda after, _until: after < order.number)

    @property
    def wake_at(self) -> float | None:
        """The next instant at which `tick` is due."""
        return min([until for _after, until in self._waiting.values()], default=None)

    def tick(self) -> None:
        """Answer the requests that have waited long enough, with the number that they know."""
        now = boot_now()
        self._answer_due(lambda _after, until: until <= now)

    def ask(self, event: WorldRequested) -> None:
        """Answer a request, or let it wait for a greater number."""
        if event.after < self._number or event.wait_s <= 0:
            self._answer(event.question, self._known())
        elif len(self._waiting) >= WAITING_MAX:
            text = f"{WAITING_MAX} requests wait for a change (expected fewer)"
            self._answer(event.question, {"ok": False, "error": text})
        else:
            self._waiting[event.question] = (event.after, boot_now() + event.wait_s)

    def _answer_due(self, is_due: Callable[[int, float], bool]) -> None:
        due = [question for question, waits in self._waiting.items() if is_due(*waits)]
        for question in due:
            del self._waiting[question]
            self._answer(question, self._known())

    def _known(self) -> dict[str, object]:
        return {"ok": True, "number": self._number}


def world_of(bundle: dict[str, object], number: int, leave_by: float | None) -> dict[str, object]:
    """Return the content of the file. Raises ValueError for a bundle without members."""
    members = [to_object(member) for member in to_list(bundle["members"])]
    components: list[dict[str, object]] = []
    ranks = 0
    for member in members:
        names = ("component", "label", "site", "processors", "processes", "address", "port")
        components.append({**{name: member[name] for name in names}, "first_rank": ranks})
        ranks += to_count(member["processes"])
    return {
        "number": number,
        "component": members[to_count(bundle["index"])]["component"],
        "components": components,
        "world_size": ranks,
        "leave_by": leave_by,
    }
