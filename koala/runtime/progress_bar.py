"""Progress bar of long operations, with the time that is left."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from koala.runtime import clock

QUIET_VARIABLE = "KOALA_QUIET"
"""Set by `koala --quiet`, and by users: no progress is shown."""

SHOWN_AFTER_S = 1.0
"""Operations that are shorter show no bar."""


@contextmanager
def progress(what: str, total: float) -> Iterator[Callable[[float], None]]:
    """Show a progress bar on standard error if it is a terminal and the user is not quiet.

    The yielded function takes the part of `total` that is done.
    """
    if os.environ.get(QUIET_VARIABLE) or not sys.stderr.isatty():
        yield lambda _done: None
        return
    began_s = clock.now()
    show: Callable[[float], None] | None = None
    with ExitStack() as stack:

        def update(done: float) -> None:
            nonlocal show
            if show is None and clock.now() - began_s >= SHOWN_AFTER_S:
                show = _begin(stack, what, total)
            if show is not None:
                show(done)

        yield update


def _begin(stack: ExitStack, what: str, total: float) -> Callable[[float], None]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    bar = stack.enter_context(Progress(*columns, console=Console(stderr=True), transient=True))
    task = bar.add_task(what, total=total)
    return lambda done: bar.update(task, completed=done)
