"""Python's search for cyclic garbage, kept away from what stays.

Now and then it looks at all objects that there are: with a hundred thousand queued jobs that is a
second in which nobody is served, and while a state is read or saved it happens again and again.
Jobs are no cycles and go when nobody knows them any more; so what has lived for a while is set
aside, and not looked at again.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

POLL_S = 1.0
JOBS = 2_000
"""After so many new jobs what is there is set aside."""


@contextmanager
def gc_paused() -> Iterator[None]:
    """Within, objects are made that stay, and nothing is looked for."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def freeze_survivors() -> None:
    """What is there stays."""
    gc.collect(1)
    gc.freeze()


async def freeze_periodically(accepted: Callable[[], int]) -> None:
    """Set aside what has come, for as long as jobs are accepted; until cancelled."""
    before = accepted()
    while True:
        await asyncio.sleep(POLL_S)
        if accepted() - before >= JOBS:
            before = accepted()
            freeze_survivors()
