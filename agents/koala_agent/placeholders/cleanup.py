"""Remove claims' folders, whatever their programs left: read-only folders, or paths beyond
PATH_MAX.

No link is followed. Subfolders are moved to the top before their parent is removed, so nothing here
recurses, and at most two folders are open at a time.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_all(paths: Iterable[Path]) -> None:
    """Remove files, links and folders. Whatever cannot be removed stays for the next sweep."""
    for path in paths:
        with suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                _remove(path)
            else:
                path.unlink()


def _remove(folder: Path) -> None:
    """Remove a folder, including read-only subfolders, as programs leave them that unpack or build.
    Raises OSError when something is left."""
    folder.chmod(0o700)
    top = os.open(folder, _FOLDER_FLAGS)
    try:
        fresh = _names()
        is_less = True
        while is_less:
            is_less = sum(_remove_entry(name, top, fresh) for name in os.listdir(top)) > 0  # noqa: PTH208
    finally:
        os.close(top)
    folder.rmdir()


def _names() -> Iterator[str]:
    """Yield names that no program has used."""
    mark, number = secrets.token_hex(8), 0
    while True:
        number += 1
        yield f"{mark}.{number}"


def _remove_entry(name: str, top: int, fresh: Iterator[str]) -> bool:
    """Remove an entry of the top folder; its subfolders move to the top. True when it is gone."""
    with suppress(OSError):
        if not stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=top)
            return True
        os.chmod(name, 0o700, dir_fd=top)
        folder_fd = os.open(name, _FOLDER_FLAGS, dir_fd=top)
        try:
            with os.scandir(folder_fd) as entries:
                for entry in entries:
                    _move_up(entry, folder_fd, top, fresh)
        finally:
            os.close(folder_fd)
        os.rmdir(name, dir_fd=top)
        return True
    return False


def _move_up(entry: os.DirEntry[str], folder_fd: int, top: int, fresh: Iterator[str]) -> None:
    with suppress(OSError):
        if entry.is_dir(follow_symlinks=False):
            os.chmod(entry.name, 0o700, dir_fd=folder_fd)  # a folder that is moved is written to
            os.rename(entry.name, next(fresh), src_dir_fd=folder_fd, dst_dir_fd=top)
        else:
            os.unlink(entry.name, dir_fd=folder_fd)
