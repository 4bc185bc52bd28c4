"""Members of the malleable job that this program belongs to, for the program itself.

    from koala import job

    world = job.world()                 # who is there now
    for world in job.resizes():         # blocks until components join, leave, or this one shall
        if world.is_leaving:            # end by itself before world.leave_by, or it is stopped
            break

It needs the standard library alone, from Python 3.6 on. A job with `malleable=yes` finds it on its
PYTHONPATH, whether Koala is installed at its site or not. Programs in other languages read the file
that KOALA_WORLD names: JSON with the fields of `World`, replaced at each change.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

WAIT_S = 600.0
"""Longest wait of one request; a longer one is made of several."""
ANSWER_S = 30.0
"""Time that an answer may take beyond its wait."""


class JobError(Exception):
    """The job's members are unknown; the message says why."""


class Component(NamedTuple):
    """A component that runs, or joins now: its number, label and site, processors and processes.

    The others reach its site at `address`. Its processes have the ranks from `first_rank` on. It
    may listen at `port`.
    """

    component: int
    label: str
    site: str
    processors: int
    processes: int
    address: str
    port: int
    first_rank: int


class World(NamedTuple):
    """Components of the job, in the order of their ranks.

    - `number` is 0 at the start, and greater after each change.
    - `component` is the number of this program's own one.
    - `world_size` is the number of processes.
    - `leave_by` is when this component must have ended, in seconds since 1970 by the clock of this
      machine; None while it may stay.
    """

    number: int
    component: int
    components: tuple[Component, ...]
    world_size: int
    leave_by: float | None

    @property
    def own(self) -> Component:
        """This program's own component."""
        return next(part for part in self.components if part.component == self.component)

    @property
    def is_leaving(self) -> bool:
        """True when this component was asked to end."""
        return self.leave_by is not None


def world() -> World:
    """Return the components that are there now. Raises JobError."""
    path = os.environ.get("KOALA_WORLD")
    if not path:
        raise JobError("KOALA_WORLD is not set (expected a program of a job with malleable=yes)")
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        parts = [{name: part[name] for name in Component._fields} for part in content["components"]]
        content["components"] = tuple([Component(**part) for part in parts])
        return World(**{name: content[name] for name in World._fields})
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"KOALA_WORLD = {path}: {error} (expected the members of the job)"
        raise JobError(message) from error


def is_leaving() -> bool:
    """Return True if this component was asked to end. Raises JobError."""
    return world().is_leaving


def resizes(after: int | None = None, timeout_s: float | None = None) -> Iterator[World]:
    """Yield the components after each change; of several changes only the last.

    It blocks until the next change, and ends after `timeout_s` seconds without one. It begins with
    the first number greater than `after`: by default, than that at the call. Raises JobError.
    """
    return _resizes(world().number if after is None else after, timeout_s)


def _resizes(known: int, timeout_s: float | None) -> Iterator[World]:
    left_s = timeout_s
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        _connect(connection)
        while True:
            wait_s = WAIT_S if left_s is None else min(left_s, WAIT_S)
            if _ask(connection, known, wait_s) > known:
                newest = world()
                known = newest.number
                yield newest
                left_s = timeout_s
            elif left_s is not None:
                left_s -= wait_s  # it was answered when that was over
                if left_s <= 0:
                    return


def _connect(connection: socket.socket) -> None:
    path = os.environ.get("KOALA_KV", "")
    try:
        connection.connect(path)
    except OSError as error:
        message = f"KOALA_KV = {path}: {error} (expected the socket of the job)"
        raise JobError(message) from error


def _ask(connection: socket.socket, known: int, wait_s: float) -> int:
    """Return the number of the newest members, once it is greater or the wait is over."""
    request = {"op": "world", "after": known, "wait_s": wait_s}
    line = b""
    try:
        connection.settimeout(wait_s + ANSWER_S)
        connection.sendall(json.dumps(request).encode() + b"\n")
        while not line.endswith(b"\n"):
            part = connection.recv(4096)
            if not part:
                raise JobError("the starter of this job has ended (expected the next change)")
            line += part
        answer = json.loads(line.decode())
        if answer["ok"]:
            return int(answer["number"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise JobError(f"no answer of the starter: {error} (expected the next change)") from error
    raise JobError(str(answer["error"]))
