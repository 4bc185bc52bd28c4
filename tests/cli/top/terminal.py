"""A command in a real pseudo-terminal, whose screen a test reads as a user does."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pyte

from koala.common.runtime import clock
from tests.cli.command import LIMIT_S, environment

COLUMNS, LINES = 80, 24
AS_LEADER = """
import fcntl, runpy, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
runpy.run_module("koala.cli", run_name="__main__")
"""
"""Takes the terminal, so that Ctrl-C is a signal, and becomes the command."""


class Terminal:
    """A pseudo-terminal with a process that has it as its controlling terminal."""

    def __init__(self, *words: str, **changes: str) -> None:
        self.screen = pyte.Screen(COLUMNS, LINES)
        self.written = b""
        self._stream = pyte.ByteStream(self.screen)
        self.descriptor, other = os.openpty()
        self.resize(COLUMNS, LINES)
        self.mode = termios.tcgetattr(other)
        self.process = subprocess.Popen(
            [sys.executable, "-c", AS_LEADER, *words],
            env=environment(TERM="xterm", COLUMNS="", LINES="", **changes),
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
        )
        self._other = other

    def resize(self, columns: int, lines: int) -> None:
        """Change the size, as a window does."""
        self.screen.resize(lines, columns)
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, size)

    @property
    def text(self) -> str:
        """The screen, without blanks at the ends of lines."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def press(self, keys: str) -> None:
        """Type keys."""
        os.write(self.descriptor, keys.encode())

    def wait(self, shows: Callable[[str], bool], what: str) -> str:
        """Read until the screen is as expected; return it."""
        end = clock.now() + LIMIT_S
        while not shows(self.text):
            left = end - clock.now()
            assert left > 0, f"waited for {what}:\n{self.text}"
            assert self._read(left), f"ended before {what}:\n{self.text}"
        return self.text

    def wait_for(self, *words: str) -> str:
        """Read until the screen shows all these words; return it."""
        return self.wait(lambda text: all(word in text for word in words), " and ".join(words))

    def end(self) -> int:
        """Read up to the end of the process; return its status."""
        end = clock.now() + LIMIT_S
        while self.process.poll() is None:
            assert clock.now() < end, f"still runs:\n{self.text}"
            self._read(0.1)
        self._read(0.1)
        return self.process.returncode

    def close(self) -> None:
        """Kill the process, if it still runs."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(LIMIT_S)
        os.close(self._other)
        os.close(self.descriptor)

    def mode_now(self) -> list[object]:
        """Return the mode that the terminal has."""
        return list(termios.tcgetattr(self._other))

    def _read(self, limit_s: float) -> bool:
        """Read what comes within the limit; False at the end of the process."""
        ready, _, _ = select.select([self.descriptor], [], [], min(limit_s, 1.0))
        if ready:
            data = os.read(self.descriptor, 65_536)
            self.written += data
            self._stream.feed(data)
        return bool(ready) or self.process.poll() is None


@contextmanager
def terminal(*words: str, **changes: str) -> Iterator[Terminal]:
    """Run a command in a terminal; it is killed with the block."""
    running = Terminal(*words, **changes)
    try:
        yield running
    finally:
        running.close()
