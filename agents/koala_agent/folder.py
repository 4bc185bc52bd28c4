"""The state directory of an agent at its start: nobody else may change it, or read what is secret.

Claims, scripts and copies hold secrets and users' data. What is found otherwise is refused with its
path, its mode and what is allowed, as the daemon does: mending it would hide that others had it.
The directory itself may be seen by others, as login nodes' folders are, but not changed by them.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from koala.errors import ConfigError
from koala.wire.private import check_private

PRIVATE = (
    "agent.db",
    "agent.db-wal",
    "agent.db-shm",
    "claims",
    "identity",
    "identity/site.pem",
    "lrm",
    "lrm/jobs.sqlite3",
    "lrm/jobs.sqlite3-wal",
    "lrm/jobs.sqlite3-shm",
    "transfers/incoming",
)


def check_state(state_dir: Path) -> None:
    """Raises ConfigError; what is not there yet is made rightly later."""
    try:
        status = state_dir.stat()  # the directory may be a link to where there is room
    except FileNotFoundError:
        return
    own, mode = os.geteuid(), stat.S_IMODE(status.st_mode)
    if status.st_uid != own:
        raise ConfigError(f"{state_dir} is owned by user id {status.st_uid}: allowed is {own}")
    if mode & 0o022:
        raise ConfigError(
            f"{state_dir} has mode {mode:04o}, so that others may change it: allowed is 0755 or"
            f" less (chmod go-w {state_dir})"
        )
    for name in PRIVATE:
        path = state_dir / name
        if os.path.lexists(path):
            check_private(path)
