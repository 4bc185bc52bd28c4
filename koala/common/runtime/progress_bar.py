"""Progress of long operations, with the time that is left: a bar on terminals, lines elsewhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta

from koala.common.runtime import clock

QUIET_VARIABLE = "KOALA_QUIET"
"""Set by `koala --quiet`, and by users: no progress is shown."""

SHOWN_AFTER_S = 1.0
"""Operations that are shorter show no bar."""
LINE_EVERY_S = 60.0
"""Time between two lines where standard error is no terminal, as in a batch job."""


@contextmanager
def progress(what: str, total: float) -> Iterator[Callable[[float], None]]:
    """Show on standard error how far an operation is, unless the user is quiet.

    The yielded function takes the part of `total` that is done.
    """
    if os.environ.get(QUIET_VARIABLE):
        yield lambda _done: None
    elif sys.stderr.isatty():
        with _bar(what, total) as update:
            yield update
    else:
        yield _lines(what, total)


@contextmanager
def quiet() -> Iterator[None]:
    """Show no progress here, nor in the processes that are started meanwhile."""
    before = os.environ.get(QUIET_VARIABLE)
    os.environ[QUIET_VARIABLE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[QUIET_VARIABLE]
        else:
            os.environ[QUIET_VARIABLE] = before


def write_line(text: str) -> None:
    """Write a line on standard error, unless the user is quiet."""
    if not os.environ.get(QUIET_VARIABLE):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


class MinuteLines:
    """Pace of lines on standard error: at most one a minute, the first after a minute."""

    def __init__(self) -> None:
        self._last_s = clock.now()

    def is_due(self, now_s: float) -> bool:
        """Return True if a line is to be written now."""
        is_due = now_s - self._last_s >= LINE_EVERY_S
        if is_due:
            self._last_s = now_s
        return is_due


def _lines(what: str, total: float) -> Callable[[float], None]:
    """Return a function that writes a line from time to time.

    The speed is that since the first call: what was done before may be stored results.
    """
    lines = MinuteLines()
    first: tuple[float, float] | None = None

    def update(done: float) -> None:
        nonlocal first
        now_s = clock.now()
        if first is None:
            first = (now_s, done)
        first_s, before = first
        if done >= total or not lines.is_due(now_s):
            return
        left = ""
        if done > before:
            left_s = (now_s - first_s) * (total - done) / (done - before)
            left = f", {timedelta(seconds=round(left_s))} left"
        write_line(f"{what}: {done / total:.0%}{left}")

    return update


@contextmanager
def _bar(what: str, total: float) -> Iterator[Callable[[float], None]]:
    """Yield a function that draws a bar once the operation has taken a moment.

    Its first call never does: a bar is a thread, and workers that are made after that call can be
    forked only in a process without threads.
    """
    began_s: float | None = None
    show: Callable[[float], None] | None = None
    with ExitStack() as stack:

        def update(done: float) -> None:
            nonlocal began_s, show
            if began_s is None:
                began_s = clock.now()
            elif show is None and clock.now() - began_s >= SHOWN_AFTER_S:
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
