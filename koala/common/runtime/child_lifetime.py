"""End child processes with their parent, and end commands in order on signals.

A worker or a child must not outlive its command, however that ends. The kernel kills it then, even
in the middle of a long computation or while stopped (Linux only, prctl(2)); elsewhere it runs on. A
signal that ends a command becomes an exception, so that the command can clean up.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

PR_SET_PDEATHSIG = 1
ENDING = (signal.SIGTERM, signal.SIGHUP)
SIGNALLED = 128
"""Base of an exit status after a signal: the shell's convention adds the signal's number."""


def end_with(parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send this process the signal when its parent is gone, or now when that is gone already.

    The kernel takes the end of the *thread* that made this process for the end of its parent, so a
    thread that makes such processes has to last as long as they do."""
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - slow, and only children need it

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it ended before we asked
        os.kill(os.getpid(), number)


def serve(parent: int) -> None:
    """Make this process a worker of a pool, which ends with the command.

    The command handles Ctrl-C and a terminal that goes away.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
    end_with(parent)


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Turn TERM and HUP into SystemExit inside the block; ignored signals stay ignored."""

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        ended_by(number)

    taken = [number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def end_once(end: Callable[[int], None]) -> dict[int, Any]:
    """Call `end` on the first signal that ends a command; return the handlers from before.

    Later signals, as of a person who presses Ctrl-C again and again, are ignored until this process
    is gone. Ignored signals stay ignored.
    """

    def first(number: int, _frame: FrameType | None) -> None:
        for signal_number in before:
            signal.signal(signal_number, signal.SIG_IGN)
        end(number)

    numbers = (signal.SIGINT, *ENDING)
    before: dict[int, Any] = {number: signal.getsignal(number) for number in numbers}
    for number in [n for n, handler in before.items() if handler is signal.SIG_IGN]:
        del before[number]
    for number in before:
        signal.signal(number, first)
    return before


def ended_by(number: int) -> NoReturn:
    """Raise SystemExit with the exit status that a shell gives for this signal."""
    raise SystemExit(SIGNALLED + number)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Block Ctrl-C inside the block.

    Processes that are created in it block it too, until they set their own handling (`serve`).
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
