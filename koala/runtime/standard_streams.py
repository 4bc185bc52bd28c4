"""What a process sees to first of all: that it has the three standard streams.

A process that was started with one of them closed (`2>&-`) has None for it, and its first file or
socket gets the free number: what is then written to the stream is written there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HIGHEST = 2


def open_standard_streams() -> None:
    """Those that are closed are opened on /dev/null, for children too."""
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
