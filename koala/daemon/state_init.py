"""Whether a state directory without a journal may be begun: one that is only away must not be.

A daemon whose disk is not mounted finds an empty folder, or none, exactly as at its first start. If
it began there it would have a new authority and no jobs, and every site and user would be shut out.
So it begins by itself only where it can see that the place is new: the folder around the state
directory is there, holds something (a configuration, logs, other folders: no empty mount point or
volume), can be written, and has no *witness*, a small file beside the state directory that a daemon
leaves there when it serves. Everywhere else somebody has to say so, once: `koala daemon CONFIG
--init`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from koala.daemon.state_folder import DAMAGED, FILE, SALVAGED
from koala.errors import JournalError

INIT = "--init"


def witness_path(state_dir: Path) -> Path:
    """The file beside a state directory that says that one was begun."""
    place = state_dir.absolute()
    return place.with_name(f".{place.name}.koala-begun")


def require_initialized(state_dir: Path, *, may_begin: bool = False) -> None:
    """Raise JournalError where a state directory without a journal may only be away. Nothing is
    made."""
    if not (may_begin or _has_journal(state_dir)) and (why := _doubt(state_dir)):
        raise JournalError(
            f"{state_dir}: no journal is there, and {why}. If it is on a disk or volume of its own,"
            " have that mounted; if it is lost, put a backup back (koala restore BACKUP STATE_DIR);"
            f" to begin without jobs, sites and users: koala daemon CONFIG {INIT}, once"
        )


def leave_witness(state_dir: Path) -> None:
    """Leave a witness of a state directory with which a daemon serves."""
    with suppress(OSError):  # nothing can be told there later: then only `--init` begins
        witness_path(state_dir).touch(mode=0o644)


def _has_journal(state_dir: Path) -> bool:
    """Whether it was begun; what is damaged or was moved aside is for others to judge."""
    names = (state_dir / FILE, state_dir / SALVAGED)
    return any(path.exists() for path in names) or any(state_dir.glob(f"{DAMAGED}*/{FILE}"))


def _doubt(state_dir: Path) -> str:
    """Say what speaks against a new state directory; empty when nothing does."""
    witness = witness_path(state_dir)
    around = witness.parent
    try:
        others = [path for path in around.iterdir() if path.name != state_dir.name]
    except OSError as error:
        return f"the folder around it cannot be read ({error.strerror})"
    if witness.exists():
        return f"a daemon began one there before ({witness})"
    if not others:
        return f"{around} has nothing else in it, as a disk that is not mounted"
    if not os.access(around, os.W_OK):
        return f"nothing in {around} can tell whether it is new (it cannot be written)"
    return ""
