"""The state directory of an agent at its start: nobody else may change it, or read what is secret.

Claims, scripts and copies hold secrets and users' data. What is found otherwise is refused with its
path, its mode and what is allowed, as the daemon does: mending it would hide that others had it.
The directory itself and the claims' folders may be seen by others, as login nodes' folders are and
as earlier releases made them, but not changed by them.
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
    """Raises ConfigError; what is not there yet is made rightly later."""
    for path in (state_dir, *(state_dir / name for name in OURS)):
        if path.exists():
            _check_ours(path)
    for path in (state_dir / name for name in PRIVATE):
        if os.path.lexists(path):
            check_private(path)


def _check_ours(path: Path) -> None:
    """Whether nobody else can change it; it may be a link to where there is room."""
    status = path.stat()
    own, mode = os.geteuid(), stat.S_IMODE(status.st_mode)
    if status.st_uid != own:
        raise ConfigError(f"{path} is owned by user id {status.st_uid}: allowed is {own}, our own")
    if mode & 0o022:
        raise ConfigError(
            f"{path} has mode {mode:04o}, so that others may change it: allowed is 0755 or less"
            f" (chmod go-w {path})"
        )
