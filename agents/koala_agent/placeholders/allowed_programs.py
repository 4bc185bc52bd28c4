"""Which programs a site starts: those below the folders that its owner lists.

The path is resolved before it is compared, and what was compared is what the starter runs: a link
that is turned elsewhere afterwards changes nothing. So a name is not looked up in PATH, and a file
that the job itself brings into its work folder is never one of them. This says what is started
first, not what that does: an interpreter, or a program that starts what its arguments name, is as
good as a list without an end. But what it reads and writes as its standard streams is the job's
choice, not the program's: with a list these lie in the claim's own folder, and so does the folder
in which it begins. Else any program that prints writes the programs that are listed. And of
variables of the environment it sets those that the owner names and no others: shells, interpreters
and loaders read too many that name what else is run.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from koala_agent.claims.messages import Program
from koala_agent.starter.program import STATE_FOLDER

KEY = "site.executables"
VARIABLES = "site.variables"


class NotAllowedError(Exception):
    """The site's owner does not allow this; the message says what, and what is allowed."""


def permitted(
    program: Program, folders: tuple[str, ...], *, variables: tuple[str, ...] = (), work: Path
) -> Program:
    """The program, its executable resolved. `variables` are names and patterns of those that it may
    set; `work` is its claim's own folder, before anything runs there. Raises NotAllowedError."""
    if not folders:
        return program
    named, allowed = program.executable, f"{KEY} allows programs below {', '.join(folders)}"
    if not named.startswith("/"):
        raise NotAllowedError(f"executable {named!r} is no absolute path: {allowed}")
    found = os.path.realpath(named)
    if not any(_is_below(found, os.path.realpath(folder)) for folder in folders):
        where = "" if found == named else f", which is {found!r}"
        raise NotAllowedError(f"executable {named!r}{where}: {allowed}")
    _keep_to((name for name, _value in program.environment), variables)
    _keep_below(work, "directory", program.directory)
    for what in ("stdin", "stdout", "stderr"):
        _keep_below(work, what, getattr(program, what), directory=program.directory)
    return replace(program, executable=found)


def _keep_to(names: Iterable[str], patterns: tuple[str, ...]) -> None:
    """Raises NotAllowedError for a variable that the site's owner does not name."""
    for name in names:
        if not any(fnmatchcase(name, pattern) for pattern in patterns):
            raise NotAllowedError(
                f"environment variable {name!r}: allowed with {KEY} are those of {VARIABLES},"
                f" {', '.join(patterns) or 'none'}"
            )


def _keep_below(work: Path, what: str, named: str, *, directory: str = "") -> None:
    """Raises NotAllowedError for a name that is not of the claim's own folder."""
    path = Path(directory, named)
    is_relative = not path.is_absolute() and ".." not in path.parts
    is_ours = path.parts[:1] == (STATE_FOLDER,)
    end = Path(os.path.realpath(work / path))
    if named and not (is_relative and not is_ours and end.is_relative_to(os.path.realpath(work))):
        raise NotAllowedError(
            f"{what} {named!r}: allowed with {KEY} are relative paths in the claim's own folder,"
            f" without '..', links out of it, and {STATE_FOLDER}"
        )


def _is_below(path: str, folder: str) -> bool:
    return os.path.commonpath((path, folder)) == folder != path
