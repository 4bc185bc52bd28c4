"""Make standard streams safe: closed ones are reopened, and a failed write of a log ends nothing.

A process that was started with one of them closed (`2>&-`) has None for it. Its first file or
socket gets the free number, and later writes to the stream would go there.

A log on a full disk, or without a reader, loses lines; the daemon and the agents go on. Lines go
straight to the descriptor. Python's buffered streams would keep what could not be written, and fail
again with it at every later line and at the end of the process.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TextIO, cast

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


def log_stream(stream: TextIO) -> TextIO:
    """Wrap a text stream in a LogStream."""
    return cast("TextIO", LogStream(stream))


class LogStream(io.TextIOBase):
    """Text stream on another one's descriptor, which drops what cannot be written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost = 0
        """Number of texts that could not be written."""

    def write(self, text: str) -> int:
        """Write a text, or drop it."""
        try:
            descriptor = self._stream.fileno()
        except (OSError, ValueError):  # no descriptor: a test reads the stream
            return self._stream.write(text)
        try:
            data = text.encode("utf-8", "backslashreplace")
            while data:
                data = data[os.write(descriptor, data) :]
        except OSError:
            self.lost += 1
        return len(text)

    def flush(self) -> None:
        """Do nothing: there is no buffer."""

    def isatty(self) -> bool:
        """Return the answer of the wrapped stream."""
        return self._stream.isatty()
