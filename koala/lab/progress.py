"""Progress of long calls: a bar in a terminal, a line in a notebook, lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from koala.common.runtime import clock
from koala.common.runtime.progress_bar import MinuteLines, progress, quiet, write_line
from koala.lab.sim.log_replay.multicluster import Listener

SHOWN_EVERY_S = 0.2


@contextmanager
def shown(what: str, total: int, *, is_wanted: bool = True) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the number of parts that are done."""
    if not is_wanted:
        with quiet():  # the workers, too
            yield lambda _done: None
    elif _is_notebook():
        with _in_notebook(what, total) as update:
            yield update
    else:
        with progress(f"{total} {what}", total) as bar:
            yield bar


class LineListener(Listener):
    """Listener to a run that writes lines: a warning at once, and once a minute where it is."""

    def __init__(self, run: str) -> None:
        """Begin each line with the name of the run."""
        self._run = run
        self._lines = MinuteLines()

    def tick(self, describe: Callable[[], str]) -> None:
        """Write where the run is, if a minute has passed since the last line."""
        if self._lines.is_due(clock.now()):
            write_line(f"{self._run}: {describe()}")

    def warn(self, text: str) -> None:
        """Write a warning."""
        write_line(f"{self._run}: {text}")


def _is_notebook() -> bool:
    """True inside a Jupyter kernel; a terminal of IPython is a terminal."""
    found = sys.modules.get("IPython")
    shell = found.get_ipython() if found is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


@contextmanager
def _in_notebook(what: str, total: int) -> Iterator[Callable[[int], None]]:
    from IPython.display import display  # noqa: PLC0415 - there in notebooks only

    show: Callable[..., Any] = display
    handle = show({"text/plain": f"0 of {total} {what}"}, raw=True, display_id=True)
    last_s = clock.now()

    def update(done: int) -> None:
        nonlocal last_s
        if done < total and clock.now() - last_s < SHOWN_EVERY_S:
            return
        last_s = clock.now()
        handle.update({"text/plain": f"{done} of {total} {what}"}, raw=True)

    yield update
