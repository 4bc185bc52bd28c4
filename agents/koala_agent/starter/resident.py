"""Resident parent of starters: a process with the starter's code loaded, which forks a starter for
each order of its agent. A fork takes a millisecond, an interpreter with these modules thirty.

Orders and answers are JSON objects, one a packet, on a socket that is the standard input:

    {"claim", "spec", "directory", "environment"}   fork a starter with these variables and ours
    {"started": claim, "pid", "start_ticks"}        or {"unstarted": claim, "error"}
    {"ended": claim, "status", "cpu_s", "memory_bytes"}

- It has one thread, and ends with its agent. Its starters outlive both.
- A starter is as one that was executed: session, working directory, standard streams, environment
  and signals are its own, and the process list shows its claim and specification.
- A starter begins when it has taken the claim's launch (`take_launch`). So when this process dies
  in the midst of an order, either its starter runs the claim or one that the agent executes.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
from _signal import (  # type: ignore[import-not-found] # without the enumerations around it
    signal as set_action,
)

from koala_agent.starter import procfs
from koala_agent.starter.compat import log, to_exit_code, to_object
from koala_agent.starter.process_tree import apply_brand, die_with_parent, started_at
from koala_agent.starter.procfs import Stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

VERB = "resident"
ORDER_MAX_BYTES = 128 * 1024
OUTPUT_FILE = "placeholder.out"
LAUNCH = "launch"
"""Symbolic link in the state folder of a claim; its target names the process that launches it."""
PADDING = "KOALA_STARTERS"
"""Variable of this process, in whose memory a starter writes the name of its claim."""
PADDING_BYTES = 1024
EMPTY = 64
"""Exit status of a starter that has seen the end of all that it started; 0 says nothing of that."""


def take_launch(spec: str, launcher: str) -> bool:
    """Take the launch of a claim, by the path of its specification; False when it is taken. Raises
    OSError.
    """
    try:
        os.symlink(launcher, os.path.join(os.path.dirname(spec), LAUNCH))
    except FileExistsError:
        return False
    return True


def launched_by(spec: str) -> tuple[int, int]:
    """Return pid and start ticks of the starter that has taken a launch. Raises OSError when nobody
    has, ValueError when it is no starter.
    """
    pid, start_ticks = os.readlink(os.path.join(os.path.dirname(spec), LAUNCH)).split()
    return int(pid), int(start_ticks)


def serve(start: Callable[[str], int]) -> int:
    """Fork a starter for each order, until the agent ends; `start` runs it."""
    _load()
    die_with_parent(os.getppid())
    parent = _Parent(start)
    gc.collect()
    if hasattr(gc, "freeze"):
        gc.freeze()  # no collection in a starter touches these objects, so their pages stay shared
    try:
        while parent.serve_once():
            pass
    except BrokenPipeError:
        pass  # the agent has ended, and the kernel is about to end this process
    return 0


def _load() -> None:
    """Load before the first fork what a starter would load on its own, each in its turn."""
    import resource  # noqa: F401, PLC0415

    from koala_agent.starter.blocked import compiled  # noqa: F401, PLC0415
    from koala_agent.starter.challenge_response import challenge, proof  # noqa: PLC0415

    "localhost".encode("idna")  # the codec of host names
    proof("", "", challenge())  # and the keyed hash


class _Parent:
    """The process that waits for orders and for the ends of its starters."""

    def __init__(self, start: Callable[[str], int]) -> None:
        self._start = start
        self._claims: dict[int, str] = {}
        self._title = _Title()
        self._woken, writing = os.pipe()
        for descriptor in (self._woken, writing):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(writing)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        self._packet = bytearray(ORDER_MAX_BYTES)  # mapped once, not for each order
        self._poll = select.poll()
        self._poll.register(0, select.POLLIN)
        self._poll.register(self._woken, select.POLLIN)

    def serve_once(self) -> bool:
        """Wait, then handle ends and one order; False at the end of the agent."""
        ready = dict(self._poll.poll())
        if self._woken in ready:
            os.read(self._woken, 4096)
            self._reap()
        if 0 not in ready:
            return True
        packet = bytes(memoryview(self._packet)[: os.readv(0, [self._packet])])
        if packet:
            self._launch(to_object(json.loads(packet)))
        return bool(packet)

    def _launch(self, order: dict[str, object]) -> None:
        claim = str(order["claim"])
        try:
            pid = os.fork()
        except OSError as error:
            self._answer({"unstarted": claim, "error": str(error)})
            return
        if pid == 0:
            _become_starter(order, self._title, self._start)
        self._claims[pid] = claim
        ticks = Stat(procfs.read(pid, "stat")).start_ticks  # not reaped yet, so it is there
        self._answer({"started": claim, "pid": pid, "start_ticks": ticks})

    def _reap(self) -> None:
        while self._claims:
            pid, status, used = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return
            ended: dict[str, object] = {
                "ended": self._claims.pop(pid),
                "status": to_exit_code(status),
                "cpu_s": used.ru_utime + used.ru_stime,
                "memory_bytes": used.ru_maxrss * 1024,
            }
            self._answer(ended)

    def _answer(self, message: dict[str, object]) -> None:
        os.write(0, json.dumps(message).encode())


def _become_starter(
    order: dict[str, object], title: _Title, start: Callable[[str], int]
) -> NoReturn:
    """Make the forked process a starter, as if it had been executed, and run it."""
    code = 0
    try:
        signal.set_wakeup_fd(-1)
        set_action(int(signal.SIGCHLD), int(signal.SIG_DFL))
        os.setsid()
        directory, spec = str(order["directory"]), str(order["spec"])
        _open_streams(os.path.join(directory, OUTPUT_FILE))
        os.chdir(directory)
        os.environ.pop(PADDING, None)
        for name, value in to_object(order["environment"]).items():
            os.environ[name] = str(value)  # each page that `update` uses would be copied
        title.show(spec, str(order["claim"]))
        apply_brand()
        pid = os.getpid()
        if take_launch(spec, f"{pid} {started_at(pid)}"):
            code = start(spec)
    except PermissionError as error:
        log(str(error))
        code = 126
    except FileNotFoundError as error:
        log(str(error))
        code = 127
    except BaseException:  # noqa: BLE001 - what an interpreter would show at its end
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        os._exit(code)


def _open_streams(output: str) -> None:
    """Open the standard streams and close all other descriptors of the parent."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(nothing, 0)
    os.dup2(written, 1)
    os.dup2(written, 2)
    os.closerange(3, 256)


class _Title:
    """Places in this process's memory that the kernel shows as its arguments and environment."""

    def __init__(self) -> None:
        self._arguments = self._variables = (0, 0)
        try:
            import ctypes  # noqa: PLC0415 - some interpreters have none
        except ImportError:
            return
        self._copy = ctypes.memmove
        stat = Stat(procfs.read(os.getpid(), "stat"))
        arguments = procfs.read(os.getpid(), "cmdline")
        variables = procfs.read(os.getpid(), "environ")
        self._arguments = _place(stat.arguments_at, arguments, VERB + "\0")
        self._variables = _place(stat.environment_at, variables, PADDING + "=")

    def show(self, spec: str, claim: str) -> None:
        """Show the specification in place of our verb, and the claim among the variables."""
        self._write(self._arguments, spec, b"\0")
        # A rest of zeros would end the list of variables for some of its readers.
        self._write(self._variables, "KOALA_CLAIM=" + claim + "\0_=", b" ")

    def _write(self, place: tuple[int, int], text: str, rest: bytes) -> None:
        address, size = place
        if size > 0:
            self._copy(address, os.fsencode(text)[:size].ljust(size, rest), size)


def _place(address: int, content: bytes, first: str) -> tuple[int, int]:
    """Return address and size of what begins with this word and ends with its padding of blanks;
    size 0 for none.
    """
    found = (b"\0" + content).find(b"\0" + first.encode())
    size = content.find(b" \0", found) + 1 - found
    return (address + found, size) if address > 0 and found >= 0 and size > 0 else (0, 0)
