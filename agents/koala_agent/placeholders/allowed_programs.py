"""Allowlist of programs: a site runs only those below the folders that its owner lists.

- The path is resolved before it is compared, and the starter runs the resolved path: a link that is
  changed afterwards has no effect.
- A name is not looked up in PATH, and a file that the job brings into its work folder never counts.
- The list restricts the first program only. An interpreter, or a program that starts what its
  arguments name, makes the list ineffective.
- With a list, standard streams and the start directory must lie in the claim's own folder.
  Otherwise any program that prints could overwrite the listed programs.
- With a list, a job sets only the environment variables that the owner names. Shells, interpreters
  and loaders read too many variables that name other code to run.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from koala.common.protocol.messages import Program
from koala_agent.starter.program import STATE_FOLDER

KEY = "site.executables"
VARIABLES = "site.variables"


class NotAllowedError(Exception):
    """The site's owner does not allow this; the message says what is refused and what not."""


def check_program(
    program: Program, folders: tuple[str, ...], *, variables: tuple[str, ...] = (), work: Path
) -> Program:
    """Check a program and return it with its executable resolved.

    `variables` are names and patterns of the variables that it may set; `work` is its claim's own
    folder, before anything runs there. Raises NotAllowedError.
    """
    if not folders:
        return program
    named, allowed = program.executable, f"{KEY} allows programs below {', '.join(folders)}"
    if not named.startswith("/"):
        raise NotAllowedError(f"executable {named!r} is not an absolute path: {allowed}")
    path = os.path.realpath(named)
    if not any(_is_below(path, os.path.realpath(folder)) for folder in folders):
        where = "" if path == named else f", which is {path!r}"
        raise NotAllowedError(f"executable {named!r}{where}: {allowed}")
    _keep_to((name for name, _value in program.environment), variables)
    _keep_below(work, "directory", program.directory)
    for what in ("stdin", "stdout", "stderr"):
        _keep_below(work, what, getattr(program, what), directory=program.directory or "")
    return replace(program, executable=path)


def _keep_to(names: Iterable[str], patterns: tuple[str, ...]) -> None:
    """Check the names of environment variables. Raises NotAllowedError."""
    for name in names:
        if not any(fnmatchcase(name, pattern) for pattern in patterns):
            raise NotAllowedError(
                f"environment variable {name!r} with {KEY} (expected those of {VARIABLES}:"
                f" {', '.join(patterns) or 'none'})"
            )


def _keep_below(work: Path, what: str, named: str | None, *, directory: str = "") -> None:
    """Check that a name stays in the claim's own folder. Raises NotAllowedError."""
    path = Path(directory, named or "")
    is_relative = not path.is_absolute() and ".." not in path.parts
    is_ours = path.parts[:1] == (STATE_FOLDER,)
    end = Path(os.path.realpath(work / path))
    if named and not (is_relative and not is_ours and end.is_relative_to(os.path.realpath(work))):
        raise NotAllowedError(
            f"{what} {named!r} with {KEY} (expected a relative path in the claim's own folder,"
            f" without '..', links out of it, and {STATE_FOLDER})"
        )


def _is_below(path: str, folder: str) -> bool:
    return os.path.commonpath((path, folder)) == folder != path
