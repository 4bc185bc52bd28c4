"""Initialize a new state directory, but never one whose disk is only unmounted.

A daemon whose disk is not mounted finds an empty folder, or none, exactly as at its first start. If
it initialized that, it would have a new authority and no jobs, and every site and user would be
locked out. So it does so only if all of this holds for the folder around the state directory:

- It exists and holds something (a configuration, logs, other folders), so it is no empty mount
  point or volume.
- It can be written.
- It has no *witness*, a small file beside the state directory that a daemon leaves once it serves.

Otherwise the operator has to request it once: `koala daemon CONFIG --init`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from koala.daemon.storage.folder import FILE
from koala.errors import JournalError

INIT = "--init"


def initialized_path(state_dir: Path) -> Path:
    """Return the path of the file that records that a state directory was initialized."""
    place = state_dir.absolute()
    return place.with_name(f".{place.name}.koala-begun")


def require_initialized(state_dir: Path, *, may_begin: bool = False) -> None:
    """Raise JournalError if a state directory without a journal may only be unmounted.

    Nothing is created.
    """
    if not (may_begin or (state_dir / FILE).exists()) and (why := _doubt(state_dir)):
        raise JournalError(
            f"{state_dir}: no journal is there, and {why}. If it is on a disk or volume of its own,"
            " have that mounted; if it is lost, put a backup back (koala restore BACKUP STATE_DIR);"
            f" to begin without jobs, sites and users: koala daemon CONFIG {INIT}, once"
        )


def record_initialized(state_dir: Path) -> None:
    """Record that a daemon serves with this state directory."""
    with suppress(OSError):  # without a witness only `--init` initializes
        initialized_path(state_dir).touch(mode=0o644)


def _doubt(state_dir: Path) -> str:
    """Return the reason against initializing the state directory; empty if there is none."""
    witness = initialized_path(state_dir)
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
