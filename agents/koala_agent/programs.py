"""Which programs a site starts: those below the folders that its owner lists.

The path is resolved before it is compared, and what was compared is what the starter runs: a link
that is turned elsewhere afterwards changes nothing. So a name is not looked up in PATH, and a file
that the job itself brings into its work folder is never one of them. This says what is started
first, not what that does: an interpreter, or a program that starts what its arguments name, is as
good as a list without an end.
"""

from __future__ import annotations

import os
from dataclasses import replace

from koala_agent.values import Program

KEY = "site.executables"


class NotAllowedError(Exception):
    """The site's owner does not allow this; the message says what, and what is allowed."""


def permitted(program: Program, folders: tuple[str, ...]) -> Program:
    """The program, its executable resolved. Raises NotAllowedError."""
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
    return replace(program, executable=found)


def _is_below(path: str, folder: str) -> bool:
    return os.path.commonpath((path, folder)) == folder != path


def _chooses_programs(name: str) -> bool:
    return name == "PATH" or name.startswith("LD_")
