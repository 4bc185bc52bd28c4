"""Progress of long calls: a bar in a terminal, a line in a notebook, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from koala.common.runtime import clock
from koala.common.runtime.progress_bar import progress

SHOWN_EVERY_S = 0.2


@contextmanager
def shown(what: str, total: int, *, is_wanted: bool = True) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the number of parts that are done."""
    if not is_wanted:
        yield lambda _done: None
    elif _is_notebook():
        with _in_notebook(what, total) as update:
            yield update
    else:
        with progress(f"{total} {what}", total) as bar:
            yield bar


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
