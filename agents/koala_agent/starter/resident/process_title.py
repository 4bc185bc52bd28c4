"""Show what a forked process does, where an executed one shows its arguments and variables."""

from __future__ import annotations

import os

from koala_agent.starter import procfs
from koala_agent.starter.procfs import Stat

VERB = "resident"
"""Word of the resident parent's command, in whose place a starter writes its specification."""
IDLE = "idle"
"""Word that a starter without a claim writes there."""
PADDING = "KOALA_STARTERS"
"""Variable of the resident parent, in whose memory a starter writes the name of its claim."""
PADDING_BYTES = 1024


class ProcessTitle:
    """Places in this process's memory that the kernel shows as its arguments and environment."""

    def __init__(self) -> None:
        self._arguments = self._variables = (0, 0)
        try:
            import ctypes  # noqa: PLC0415 - some interpreters have none
        except ImportError:
            return
        self._copy = ctypes.memmove
        stat = Stat(procfs.read(os.getpid(), "stat"))
        arguments = procfs.read(os.getpid(), "cmdline")
        variables = procfs.read(os.getpid(), "environ")
        self._arguments = _place(stat.arguments_at, arguments, VERB + "\0")
        self._variables = _place(stat.environment_at, variables, PADDING + "=")

    def show(self, spec: str, claim: str) -> None:
        """Show the specification in place of our verb, and the claim among the variables."""
        # A rest of zeros would end the list of variables for some of its readers.
        self._write(self._variables, "KOALA_CLAIM=" + claim + "\0_=", b" ")
        self._write(self._arguments, spec, b"\0")

    def show_idle(self) -> None:
        """Show that this process has no claim."""
        self._write(self._variables, "_=", b" ")
        self._write(self._arguments, IDLE, b"\0")

    def _write(self, place: tuple[int, int], text: str, rest: bytes) -> None:
        address, size = place
        if size > 0:
            self._copy(address, os.fsencode(text)[:size].ljust(size, rest), size)


def _place(address: int, content: bytes, first: str) -> tuple[int, int]:
    """Return address and size of what begins with this word and ends with its padding of blanks;
    size 0 for none.
    """
    place = (b"\0" + content).find(b"\0" + first.encode())
    size = content.find(b" \0", place) + 1 - place
    return (address + place, size) if address > 0 and place >= 0 and size > 0 else (0, 0)
