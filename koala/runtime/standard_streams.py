"""Reopen closed stdin, stdout and stderr on /dev/null at start-up.

A process that was started with one of them closed (`2>&-`) has None for it. Its first file or
socket gets the free number, and later writes to the stream would go there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HIGHEST = 2


def open_standard_streams() -> None:
    """Open the closed standard streams on /dev/null, for children too."""
    nothing = Path(os.devnull)
    while (lowest := os.open(nothing, os.O_RDWR)) <= HIGHEST:
        os.set_inheritable(lowest, True)  # noqa: FBT003 - has no keyword
    os.close(lowest)
    if sys.stdin is None:
        sys.stdin = nothing.open(encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = nothing.open("w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = nothing.open("w", encoding="utf-8")
