"""Log stream that never ends the service when a write fails.

A log on a full disk, or without a reader, loses lines; the daemon and the agents go on. Lines go
straight to the descriptor. Python's buffered streams would keep what could not be written, and fail
again with it at every later line and at the end of the process.
"""

from __future__ import annotations

import io
import os
from typing import TextIO, cast


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
