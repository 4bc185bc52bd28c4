"""Files that appear whole: written beside, under a hidden name, and renamed at the end.

The older file stays until then, and stays when the writing fails or its process is killed. A killed
process may leave its hidden file, which the next one that writes into that folder removes: who
writes one holds a lock on it, which ends with the process.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from koala.errors import KoalaError

PREFIX = ".koala-half-"
_STARTED_WITH = (0, 1, 2)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give the path of an empty file to write to, which takes the place of `path` when the block
    ends well; a block that removes it gives up, and the older file stays.

    What is no plain file (a pipe, a device), or is what this process has as standard output, is
    written where it is. A link stays, and the file that it leads to is replaced. Raises KoalaError,
    with the path, where it cannot be written, a full disk included.
    """
    try:
        target = _target(path)
        if target is None:
            yield path
            return
        _sweep(target.parent)
        part, lock = _begin(target, suffix=path.suffix)
        try:
            yield part
            if part.exists():
                os.fsync(lock)
                part.replace(target)
        finally:
            part.unlink(missing_ok=True)
            os.close(lock)
    except OSError as error:
        if isinstance(error, BrokenPipeError) or not _is_of(error, path):
            raise
        raise KoalaError(f"{path}: cannot be written: {error.strerror or error}") from error


def _is_of(error: OSError, path: Path) -> bool:
    """Tell whether an error is of the file; that of a write to an open file has no name."""
    named = error.filename
    return named is None or str(named) == str(path) or Path(str(named)).name.startswith(PREFIX)


def write_whole(path: Path, text: str) -> None:
    """Write a text in UTF-8. Raises KoalaError, see `whole_file`."""
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")


def check_whole(path: Path) -> None:
    """Raise KoalaError where `whole_file` would, as far as that can be known before; nothing is
    changed, and nobody who reads a pipe is told of an end."""
    with whole_file(path) as part:
        if part != path:
            part.unlink()


def _target(path: Path) -> Path | None:
    """The plain file to replace, behind all links; None for what is written where it is. Raises
    OSError."""
    target = Path(os.path.realpath(path))
    try:
        found = path.stat()
    except FileNotFoundError:
        return target
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return target if stat.S_ISREG(found.st_mode) and not _is_ours(found) else None


def _is_ours(found: os.stat_result) -> bool:
    """Tell whether this process was started with the file open: a file of another name in its place
    would get only a part of what is written."""
    for descriptor in _STARTED_WITH:
        with suppress(OSError):  # it was started without
            if os.path.samestat(found, os.fstat(descriptor)):
                return True
    return False


def _begin(target: Path, *, suffix: str) -> tuple[Path, int]:
    """Make an empty hidden file beside, as accessible as the file that it will replace, and a lock
    on it."""
    while True:
        part = target.with_name(f"{PREFIX}{secrets.token_hex(8)}{suffix}")
        lock = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.fstat(lock).st_nlink:
            break
        os.close(lock)  # somebody took it for one that was left, before the lock
    with suppress(FileNotFoundError):
        os.fchmod(lock, stat.S_IMODE(target.stat().st_mode))
    return part, lock


def _sweep(folder: Path) -> None:
    """Remove what killed processes left."""
    for part in folder.glob(f"{PREFIX}*"):
        with suppress(OSError):  # it is somebody else's, or at work
            lock = os.open(part, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink()
            finally:
                os.close(lock)
