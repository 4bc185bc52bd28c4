"""Which programs a site starts: those below the folders that its owner lists.

The path is resolved before it is compared, and what was compared is what the starter runs: a link
that is turned elsewhere afterwards changes nothing. So a name is not looked up in PATH, and a file
that the job itself brings into its work folder is never one of them. This says what is started
first, not what that does: an interpreter, or a program that starts what its arguments name, is as
good as a list without an end. But what it reads and writes as its standard streams is the job's
choice, not the program's: with a list these lie in the claim's own folder, and so does the folder
in which it begins. Else any program that prints writes the programs that are listed.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from koala_agent.starter.program import STATE_FOLDER
from koala_agent.values import Program

KEY = "site.executables"


class NotAllowedError(Exception):
    """The site's owner does not allow this; the message says what, and what is allowed."""


def permitted(program: Program, folders: tuple[str, ...], *, work: Path) -> Program:
    """The program, its executable resolved; `work` is its claim's own folder, before anything runs
    there. Raises NotAllowedError."""
    if not folders:
        return program
    named, allowed = program.executable, f"{KEY} allows programs below {', '.join(folders)}"
    if not named.startswith("/"):
        raise NotAllowedError(f"executable {named!r} is no absolute path: {allowed}")
    found = os.path.realpath(named)
    if not any(_is_below(found, os.path.realpath(folder)) for folder in folders):
        where = "" if found == named else f", which is {found!r}"
        raise NotAllowedError(f"executable {named!r}{where}: {allowed}")
    for name, _value in program.environment:
        if _chooses_programs(name):
            raise NotAllowedError(
                f"environment variable {name}, which decides what is run or loaded: allowed with"
                f" {KEY} are all but PATH and LD_*"
            )
    _keep_below(work, "directory", program.directory)
    for what in ("stdin", "stdout", "stderr"):
        _keep_below(work, what, getattr(program, what), directory=program.directory)
    return replace(program, executable=found)


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


def _chooses_programs(name: str) -> bool:
    return name == "PATH" or name.startswith("LD_")
