"""Permission checks of the agent's state directory at start.

Claims, scripts and copies hold secrets and users' data. A wrong owner or mode is refused with the
path, its mode and what is allowed, as the daemon does: a silent repair would hide that others had
access. The directory itself and the claims' folders may be readable by others, as on login nodes
and as earlier releases made them, but not writable.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from koala.errors import ConfigError
from koala.identity.private_files import check_private

OURS = ("claims", "transfers")
PRIVATE = (
    "agent.db",
    "agent.db-wal",
    "agent.db-shm",
    "agent.mark",
    "identity",
    "identity/site.pem",
    "lrm",
    "lrm/jobs.sqlite3",
    "lrm/jobs.sqlite3-wal",
    "lrm/jobs.sqlite3-shm",
    "lrm/jobs.mark",
    "transfers/incoming",
)


def check_state(state_dir: Path) -> None:
    """Check the state directory. Raises ConfigError; missing files are made with the right mode
    later."""
    for path in (state_dir, *(state_dir / name for name in OURS)):
        if path.exists():
            _check_ours(path)
    for path in (state_dir / name for name in PRIVATE):
        if os.path.lexists(path):
            check_private(path)


def _check_ours(path: Path) -> None:
    """Check that only we can write to a folder; it may be a link to another file system."""
    status = path.stat()
    own, mode = os.geteuid(), stat.S_IMODE(status.st_mode)
    if status.st_uid != own:
        raise ConfigError(f"{path} is owned by user id {status.st_uid}: allowed is {own}, our own")
    if mode & 0o022:
        raise ConfigError(
            f"{path} has mode {mode:04o}, so that others may change it: allowed is 0755 or less"
            f" (chmod go-w {path})"
        )
