"""Atomic file replacement: write beside the target under a hidden name, then rename.

The older file stays until the rename, also when the writing fails or its process is killed. A
killed process may leave its hidden file. The writer holds a lock on it, which ends with the
process; so the next writer in that folder can remove it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from koala.errors import KoalaError

PREFIX = ".koala-half-"
_STARTED_WITH = (0, 1, 2)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield the path of an empty file, which replaces `path` when the block ends without an error.

    - A block that removes the file gives up: the older file stays.
    - A `path` that is no regular file (a pipe, a device) is written in place.
    - A `path` that is this process's standard output gets the text behind what was printed so far.
    - A link stays, and the file that it leads to is replaced.

    Raises KoalaError, with the path, if it cannot be written, also when the disk is full.
    """
    try:
        target = _target(path)
        if target is None:
            yield path
            return
        if isinstance(target, int):
            with _appended(target, suffix=path.suffix) as part:
                yield part
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
    """Return True if an error concerns the file; errors of writes to open files have no name."""
    named = error.filename
    return named is None or str(named) == str(path) or Path(str(named)).name.startswith(PREFIX)


def write_atomically(path: Path, text: str) -> None:
    """Write a text in UTF-8 atomically. Raises KoalaError as `atomic_file` does."""
    with atomic_file(path) as part:
        part.write_text(text, encoding="utf-8")


def check_writable(path: Path) -> None:
    """Raise KoalaError where `atomic_file` would, as far as can be known before.

    Changes nothing; the reader of a pipe does not see an end of file.
    """
    with atomic_file(path) as part:
        if part != path:
            part.unlink()


def _target(path: Path) -> Path | int | None:
    """Return the regular file to replace, behind all links; its descriptor if this process was
    started with it; None for one to write in place.

    Raises OSError.
    """
    target = Path(os.path.realpath(path))
    try:
        status = path.stat()
    except FileNotFoundError:
        return target
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    if not stat.S_ISREG(status.st_mode):
        return None
    ours = _our_descriptor(status)
    return target if ours is None else ours


def _our_descriptor(status: os.stat_result) -> int | None:
    """Return the descriptor of a file with which this process was started.

    A new file in its place would get only a part of the output.
    """
    for descriptor in _STARTED_WITH:
        with suppress(OSError):  # it was started without
            if os.path.samestat(status, os.fstat(descriptor)):
                return descriptor
    return None


@contextmanager
def _appended(descriptor: int, *, suffix: str) -> Iterator[Path]:
    """Yield the path of an empty file, which is copied to the descriptor: a second opening of the
    same file would write over what is printed."""
    from tempfile import TemporaryDirectory  # noqa: PLC0415 - hardly any output needs it

    with TemporaryDirectory(prefix=PREFIX) as folder:
        part = Path(folder, f"part{suffix}")
        part.touch()
        yield part
        if part.exists():
            sys.stdout.flush()
            with part.open("rb") as source, os.fdopen(descriptor, "wb", closefd=False) as stream:
                shutil.copyfileobj(source, stream)


def _begin(target: Path, *, suffix: str) -> tuple[Path, int]:
    """Create an empty hidden file beside the target, with its mode, and lock it."""
    while True:
        part = target.with_name(f"{PREFIX}{os.urandom(8).hex()}{suffix}")
        lock = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.fstat(lock).st_nlink:
            break
        os.close(lock)  # another process removed it as stale before the lock
    with suppress(FileNotFoundError):
        os.fchmod(lock, stat.S_IMODE(target.stat().st_mode))
    return part, lock


def _sweep(folder: Path) -> None:
    """Remove the hidden files of killed processes."""
    for part in folder.glob(f"{PREFIX}*"):
        with suppress(OSError):  # it is somebody else's, or at work
            lock = os.open(part, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink()
            finally:
                os.close(lock)
