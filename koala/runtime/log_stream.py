"""Where a service writes its messages: a stream that never ends the service.

A log on a full disk, or whose reader is gone, loses lines; the daemon and the agents go on. Lines
go to the descriptor itself, because Python's buffered streams keep what could not be written, and
fail again with it at every later line and at the end of the process.
"""

from __future__ import annotations

import io
import os
from typing import TextIO, cast


def log_stream(stream: TextIO) -> TextIO:
    """One beside this stream."""
    return cast("TextIO", LogStream(stream))


class LogStream(io.TextIOBase):
    """A text stream beside another one of the same descriptor."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost = 0
        """Texts that could not be written."""

    def write(self, text: str) -> int:
        """Write it, or lose it."""
        try:
            descriptor = self._stream.fileno()
        except (OSError, ValueError):  # no file: a test looks at it
            return self._stream.write(text)
        try:
            data = text.encode("utf-8", "backslashreplace")
            while data:
                data = data[os.write(descriptor, data) :]
        except OSError:
            self.lost += 1
        return len(text)

    def flush(self) -> None:
        """Nothing is kept back."""

    def isatty(self) -> bool:
        """As the other stream."""
        return self._stream.isatty()
