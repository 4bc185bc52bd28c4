"""Read and write secret files that only this user may access.

Files are 0600, folders 0700. A file with another mode or owner is refused with its path, its mode
and the allowed mode. A key that others could read is compromised, and correcting the mode would
hide that.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from koala.errors import ConfigError

FILE_MODE = 0o600
FOLDER_MODE = 0o700


def check_private(path: Path, *, is_readable: bool = False) -> None:
    """Raise ConfigError unless only this user can read and change the file or folder.

    With `is_readable` others may read it, and it may be a link to another file system. Raises
    FileNotFoundError when it is missing.
    """
    status = path.stat() if is_readable else path.lstat()
    is_folder = stat.S_ISDIR(status.st_mode)
    if not is_folder and not stat.S_ISREG(status.st_mode):
        raise ConfigError(f"{path} is neither a file nor a folder (a link is not followed here)")
    if status.st_uid != os.geteuid():
        owner, own = status.st_uid, os.geteuid()
        raise ConfigError(f"{path} is owned by user id {owner} (expected {own}, our own)")
    mode = stat.S_IMODE(status.st_mode)
    if is_readable and mode & 0o022:
        raise ConfigError(
            f"{path} has mode {mode:04o}, so that others may change it (expected 0755 or less:"
            f" chmod go-w {path})"
        )
    if not is_readable and mode & 0o077:
        allowed = FOLDER_MODE if is_folder else FILE_MODE
        raise ConfigError(
            f"{path} has mode {mode:04o}, so that others may use it (expected {allowed:04o}: chmod"
            f" {allowed:04o} {path})"
        )


def private_folder(path: Path) -> Path:
    """Return the folder, created when missing. Raises ConfigError when others may use it."""
    try:
        for folder in (path.parent, path):  # those above are made as the system likes it
            folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        check_private(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be used: {error.strerror}") from error
    return path


def read_private(path: Path) -> bytes:
    """Read a private file. Raises ConfigError when others may read it, FileNotFoundError."""
    check_private(path)
    return path.read_bytes()


def write_private(path: Path, content: bytes) -> None:
    """Write a private file atomically and durably. Raises OSError."""
    part = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync(path.parent)


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, durable. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
