"""The interface of a transport: commands and files of a site, wherever the agent runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from koala.errors import LocalManagerError


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Argv, and its standard input. Where a question's answer hardly changes, one of `keep_s`
    seconds ago will do. A command that `hands_on` its environment to programs gets theirs, less the
    variables `without`, which may have a * each; any other one gets little."""

    argv: tuple[str, ...]
    stdin: str = ""
    keep_s: float = 0.0
    hands_on: bool = False
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Output of a command that ended by itself."""

    status: int
    out: str
    err: str

    def complaints(self) -> str:
        """Return all its messages for a person, without the names of commands before them."""
        lines = [line.strip() for line in (self.err.strip() or self.out.strip()).splitlines()]
        words = [re.sub(r"^\w+: (error|fatal): ", "", line) for line in lines if line]
        text = "; ".join(dict.fromkeys(words))[:1000] or self.complaint()
        return "".join(c if c.isprintable() else " " for c in text)

    def complaint(self) -> str:
        """Return its message for a person: the last line with content."""
        lines = [line.strip() for line in (self.err.strip() or self.out.strip()).splitlines()]
        lines = [line for line in lines if line and line != "Exiting."]
        words = lines[-1][:500] if lines else f"exit status {self.status}"
        return "".join(c if c.isprintable() else " " for c in words)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """Size in bytes, whether the path is a folder or a regular file (else: a link, a pipe ...), the
    user id of the owner, and permissions."""

    size_bytes: int
    is_folder: bool
    is_file: bool
    owner: int
    mode: int


class SiteAwayError(LocalManagerError):
    """The site cannot be reached; it may when its connection is back."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, transient=True)


class CommandRunner(Protocol):
    """Runner of a site's commands."""

    async def run(self, command: Command, account: str = "") -> Answer:
        """Run a command and return its answer, whatever its status; an empty account is the agent's
        own.

        Raises LocalManagerError: transient when no answer came within the limit, when the output
        was too long, or when the site cannot be reached: then the command may or may not have run.
        Final when there is no such command.
        """


class SiteFiles(Protocol):
    """Files of a site.

    Paths are those of the site; a relative one begins at the home directory of the agent's account
    there. The calls raise OSError as the functions of `os` do, and LocalManagerError when the
    site cannot be reached.
    """

    async def put(self, path: str, content: bytes, *, is_durable: bool = True) -> None:
        """Write a file for its owner alone; readers see the old content or the new. It outlives a
        power failure if it `is_durable`."""

    async def get(self, path: str, size_max: int) -> bytes:
        """Read a file, at most so many bytes of it."""

    async def stat(self, path: str) -> FileStatus | None:
        """Look at a path without following a link; None when nothing is there."""

    async def list(self, path: str) -> tuple[str, ...]:
        """Return the names in a folder, sorted."""

    async def make_folder(self, path: str) -> None:
        """Make a folder for its owner alone; one that exists is left as it is."""

    async def remove(self, path: str) -> None:
        """Remove a file; one that is not there is no error."""

    async def remove_folder(self, path: str) -> None:
        """Remove an empty folder; one that is not there is no error."""


class Transport(CommandRunner, SiteFiles, Protocol):
    """Access to a site: commands and files."""
