"""Processes that end with the one that made them, and ends that are in order.

A worker or a child must not outlive the command that needs it, however that ends: the kernel kills
it then (Linux only, prctl(2)), also in the midst of a long computation or stopped. Elsewhere it
runs on. A signal that ends a command becomes an exception, so that what the command has begun is
undone.
"""

from __future__ import annotations

import ctypes
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
"""An exit status after a signal is this and its number, as a shell says it."""


def end_with(parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send this process the signal when its parent is gone, or now when that is gone already.

    The kernel takes the end of the *thread* that made this process for the end of its parent, so a
    thread that makes such processes has to last as long as they do."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it ended before we asked
        os.kill(os.getpid(), number)


def serve(parent: int) -> None:
    """Make this process a worker of a pool: it ends with the command, and leaves to the command
    what Ctrl-C and a terminal that goes away mean."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
    end_with(parent)


@contextmanager
def ended_in_order() -> Iterator[None]:
    """End by SystemExit, not at once, upon TERM or a terminal that goes away; what is ignored stays
    so."""

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
    """Have the first signal that ends a command call `end`; later ones, as of somebody who presses
    Ctrl-C again and again, disturb nothing until this process is gone. What is ignored stays so.
    What the signals meant before."""

    def first(number: int, _frame: FrameType | None) -> None:
        for one in before:
            signal.signal(one, signal.SIG_IGN)
        end(number)

    numbers = (signal.SIGINT, *ENDING)
    before: dict[int, Any] = {number: signal.getsignal(number) for number in numbers}
    for number in [one for one, found in before.items() if found is signal.SIG_IGN]:
        del before[number]
    for number in before:
        signal.signal(number, first)
    return before


def ended_by(number: int) -> NoReturn:
    """End by SystemExit, as a shell says it of this signal."""
    raise SystemExit(SIGNALLED + number)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Let Ctrl-C wait until the block is over; processes that are made in it hold it, too, until
    they say what it means to them (`serve`)."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
