"""Keep Python's cyclic garbage collector away from long-lived objects.

A full collection visits all objects: with a hundred thousand queued jobs it blocks the daemon for a
second, and it repeats while a state is read or saved. Jobs form no cycles and are freed by
reference counting. So objects that have lived for a while are frozen, and later collections skip
them.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

POLL_S = 1.0
JOBS = 2_000
"""New jobs after which the existing objects are frozen."""


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the collector while long-lived objects are created."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def freeze_all() -> None:
    """Exclude all current objects from later collections, without a search for garbage among them.

    For the end of a pause in which objects were made to stay: the first collection after it would
    visit them all.
    """
    gc.freeze()


def freeze_survivors() -> None:
    """Exclude all current objects from later collections."""
    gc.collect(1)
    gc.freeze()


async def freeze_periodically(accepted: Callable[[], int]) -> None:
    """Freeze new objects as jobs are accepted; until cancelled."""
    before = accepted()
    while True:
        await asyncio.sleep(POLL_S)
        if accepted() - before >= JOBS:
            before = accepted()
            freeze_survivors()
