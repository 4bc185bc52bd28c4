"""Files of the agent's state directory, and permission checks at start.

Claims, scripts and copies hold secrets and users' data. A wrong owner or mode is refused with the
path, its mode and what is allowed, as the daemon does: a silent repair would hide that others had
access. The directory itself and the claims' folders may be readable by others, as on login nodes,
but not writable.
"""

from __future__ import annotations

import os
from pathlib import Path

from koala.common.identity.private_files import check_private

PID_FILE = "agent.pid"
LOG_FILE = "agent.log"
"""Log of an agent in the background."""
STATUS_FILE = "agent.status"
"""Last state of the link to the daemon: why the site is not registered, or REGISTERED."""
REGISTERED = "registered"

OURS = ("claims", "transfers")
PRIVATE = (
    "agent.db",
    "agent.db-wal",
    "agent.db-shm",
    "agent.mark",
    "identity",
    "identity/site.pem",
    "lrm",
    "lrm/gate-probe.json",
    "lrm/jobs.sqlite3",
    "lrm/jobs.sqlite3-wal",
    "lrm/jobs.sqlite3-shm",
    "lrm/jobs.mark",
    "transfers/incoming",
)


def lrm_folder(state_dir: Path) -> Path:
    """Return the folder of the local manager's state."""
    return state_dir / "lrm"


def check_state(state_dir: Path) -> None:
    """Check the state directory; missing files are made later. Raises ConfigError."""
    for path in (state_dir, *(state_dir / name for name in OURS)):
        if path.exists():
            check_private(path, is_readable=True)
    for path in (state_dir / name for name in PRIVATE):
        if os.path.lexists(path):
            check_private(path)
