"""Temporary folders of starters, outside of the folders that the agent cleans up.

Who is killed removes nothing. So an owner holds a lock in its folder, and the next starter removes
what nobody holds of this account and machine, whose name is in that of the folder: a file system
may be shared.
"""

from __future__ import annotations

import os
import stat
import time

LOCK = ".koala-owner"
NEW = ".new"
BEGINNING_S = 600.0
"""Longest time from the making of a folder to the lock in it."""


def name_of(rest: str) -> str:
    """Return the name of a folder on this machine; the batch script makes the same."""
    return f"koala-on-{os.uname().nodename[:32]}-{rest}"  # so that a socket's path is not too long


def hold(folder: str) -> None:
    """Hold a folder as long as this process lives, and remove those that its siblings left. Nothing
    is removed where the file system has no locks. Raises OSError.
    """
    path = os.path.join(folder, LOCK)
    # Its name says that it is locked.
    lock = os.open(path + NEW, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        _lock(lock)
    except OSError:
        return
    os.rename(path + NEW, path)
    parent, began = os.path.dirname(folder), name_of("")
    for name in os.listdir(parent):
        left = os.path.join(parent, name)
        try:
            if name.startswith(began) and left != folder and _is_left(left):
                _remove(left)
        except OSError:
            continue  # another account's, or just gone


def _lock(file: int) -> None:
    import fcntl  # noqa: PLC0415 - hardly ever needed

    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_left(folder: str) -> bool:
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return False
    try:
        lock = os.open(os.path.join(folder, LOCK), os.O_WRONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        has_none = not os.path.exists(os.path.join(folder, LOCK + NEW))
        return has_none and time.time() - status.st_ctime > BEGINNING_S
    try:
        _lock(lock)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def _remove(folder: str) -> None:
    import shutil  # noqa: PLC0415 - hardly ever needed

    for path, names, _files in os.walk(folder):  # programs leave folders that nobody may write
        for name in names:
            if not os.path.islink(os.path.join(path, name)):
                os.chmod(os.path.join(path, name), 0o700)
    shutil.rmtree(folder)
