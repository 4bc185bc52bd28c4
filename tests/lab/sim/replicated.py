"""Runs for tests of replication: worker processes import this module, so it imports little."""

from __future__ import annotations

import os
import signal
import threading
from itertools import count
from pathlib import Path

from koala.lab.sim.replication import replicate


def square(item: int) -> int:
    return item * item


def fail(item: int) -> int:
    raise ValueError(item)


def interrupt_parent(parent: int, item: int) -> int:
    if item == 1:
        os.kill(parent, signal.SIGINT)
        signal.pause()
    return item


def wait_for(path: Path, item: int) -> int:
    while not path.exists():
        threading.Event().wait(0.02)
    return item


def compute_for_ever(item: int) -> int:
    """Never wait for anything, so that nothing but the kernel can end it."""
    os.write(1, f"{os.getpid()}\n".encode())
    return sum(item for _ in count())


def play(how: str) -> None:
    """Run for ever in two workers; `beside`: a thread runs, so that workers are not forked."""
    if how == "beside":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    replicate(compute_for_ever, [1, 1], workers=2)


def end_badly(item: int) -> int:
    if item:
        os.kill(os.getpid(), signal.SIGKILL)
    return item
