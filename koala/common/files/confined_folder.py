"""Access to files of one folder that cannot escape it.

Every part of a name is opened relative to the descriptor of the part before (openat), and never
through a symbolic link (O_NOFOLLOW). So a link, or a folder that is swapped for a link between two
steps (as in CVE-2023-41914), is an error and not another place. Only regular files are opened: a
FIFO would block, a device could do anything.

All calls block; drivers make them in threads. Sizes are bytes, `changed_ns` nanoseconds of mtime.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from koala.common.files.names import PARTS_MAX, check_name, is_name, shown
from koala.errors import KoalaError

FILES_MAX = 50_000
"""Most files that one listing returns."""

_PASSING = (
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EIO,
    errno.ESTALE,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
)
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""Errors of file systems without hard links: a file is moved instead."""
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class UnusableFileError(KoalaError):
    """A named file is missing, not regular, or reached only through a symbolic link."""


def is_passing(error: Exception) -> bool:
    """Return True for an error of our process or disk, not of the file: a retry may help."""
    cause = error.__cause__ or error
    return isinstance(cause, OSError) and cause.errno in _PASSING


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStamp:
    """Size, mtime and inode, which identify one content of a file without reading it."""

    size_bytes: int
    changed_ns: int
    inode: int


class Descriptor:
    """File descriptor that one task may close while a thread still uses it.

    `close` returns at once; a thread inside `use` closes at its end. Otherwise a number closed too
    early could already mean another file.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._lock = threading.Lock()
        self._is_closing = False

    @contextmanager
    def use(self) -> Iterator[int]:
        """Lock the descriptor for the block and yield its number. Raises OSError (EBADF) when
        closed.
        """
        try:
            with self._lock:
                if self._is_closing:
                    raise OSError(errno.EBADF, "closed")
                yield self._number
        finally:
            if self._is_closing:
                self._close_unless_used()

    def close(self) -> None:
        """Close now, or when the thread that uses it is done. Idempotent."""
        self._is_closing = True
        self._close_unless_used()

    def __del__(self) -> None:
        """Close what was opened in a thread for a task that was cancelled meanwhile."""
        self.close()

    def stamp(self) -> FileStamp:
        """Return size, time of change and inode of the open file."""
        with self.use() as number:
            return stamp_of(os.fstat(number))

    def read(self, size_bytes: int, offset: int) -> bytes:
        """Read up to `size_bytes` at `offset`; empty at the end of the file."""
        with self.use() as number:
            return os.pread(number, size_bytes, offset)

    def write(self, content: bytes, offset: int) -> None:
        """Write all of `content` at `offset`."""
        with self.use() as number:
            written = 0
            while written < len(content):
                written += os.pwrite(number, content[written:], offset + written)

    def truncate(self, size_bytes: int = 0) -> None:
        """Cut the file to this size."""
        with self.use() as number:
            os.ftruncate(number, size_bytes)

    def sync(self) -> None:
        """Flush the bytes to the disk."""
        with self.use() as number:
            os.fsync(number)

    def _close_unless_used(self) -> None:
        if self._lock.acquire(blocking=False):
            try:
                if self._number >= 0:
                    os.close(self._number)
                    self._number = -1
            finally:
                self._lock.release()


class Folder:
    """A folder, accessed by logical names relative to it (see `names`).

    The folder may itself be a link, to a place with more room. It must not be followed where others
    can replace it: `is_followed` is False then.
    """

    def __init__(self, path: Path, *, is_followed: bool = True) -> None:
        self.path = path
        self._flags = _FOLDER_FLAGS & ~os.O_NOFOLLOW if is_followed else _FOLDER_FLAGS

    def open(self, name: str) -> Descriptor:
        """Open a regular file below the folder for reading. Raises SpecError, UnusableFileError."""
        try:
            with self._parent(name) as (parent, last):
                return Descriptor(_open_regular(parent, last))
        except OSError as error:
            raise UnusableFileError(f"file {shown(name)}: {_reason(error)}") from error

    def find(self, name: str) -> Path:
        """Check a regular file as `open` does and return its path. Raises as `open` does."""
        self.open(name).close()
        return self.path / name

    def take(self, source: Path, name: str) -> None:
        """Move a finished file of the same file system to `name`, replacing what is there."""
        with self._placing(name) as (parent, last):
            os.rename(source, last, dst_dir_fd=parent)
            os.fsync(parent)

    def link(self, name: str, other: Folder, label: str) -> None:
        """Hard-link the file `name` as `label` of another folder of the same file system.

        Replaces what is there. Idempotent.
        """
        with self._parent(name) as (parent, last), other._placing(label) as (target, shown_as):
            _link(parent, last, target, shown_as)
            os.fsync(target)

    def remove(self, name: str) -> None:
        """Delete a file, and the folders that become empty. None is no error."""
        with suppress(FileNotFoundError), self._parent(name) as (parent, last):
            os.unlink(last, dir_fd=parent)
        *folders, _last = check_name(name)
        while folders:
            with suppress(FileNotFoundError):
                try:
                    with self._parent("/".join(folders)) as (parent, last):
                        os.rmdir(last, dir_fd=parent)
                except OSError as error:
                    if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                        return
                    raise
            folders.pop()

    def listing(self) -> Iterator[tuple[str, FileStamp]]:
        """Yield the regular files below the folder in order of name.

        Other files, and names that are no logical names, are left out. A missing folder has no
        files.
        """
        with suppress(FileNotFoundError):
            root = os.open(self.path, self._flags)
            try:
                left = FILES_MAX
                for found in _walk(root, "", 1):
                    yield found
                    left -= 1
                    if left == 0:
                        return
            finally:
                os.close(root)

    def entries(self, folder: str = "") -> tuple[list[str], list[str]]:
        """Return the names right below the folder, or below one in it: of folders, and of regular
        files, sorted.

        Links, and names that are no logical names, are left out. Raises SpecError,
        UnusableFileError.
        """
        folders, files = [], []
        try:
            with (
                self._below(check_name(folder) if folder else ()) as number,
                os.scandir(number) as scan,
            ):
                for entry in scan:
                    if is_name(entry.name):
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(entry.name)
                        elif entry.is_file(follow_symlinks=False):
                            files.append(entry.name)
        except OSError as error:
            raise UnusableFileError(f"folder {shown(folder)}: {_reason(error)}") from error
        return sorted(folders), sorted(files)

    @contextmanager
    def _parent(self, name: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Open the folder that holds `name`; yield its descriptor and the last part of the name."""
        *folders, last = check_name(name)
        with self._below(folders, make=make) as number:
            yield number, last

    @contextmanager
    def _below(self, folders: Sequence[str], *, make: bool = False) -> Iterator[int]:
        """Open the folder at the end of these; yield its descriptor."""
        number = os.open(self.path, self._flags)
        try:
            for part in folders:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, mode=0o700, dir_fd=number)
                below = os.open(part, _FOLDER_FLAGS, dir_fd=number)
                os.close(number)
                number = below
            yield number
        finally:
            os.close(number)

    @contextmanager
    def _placing(self, name: str) -> Iterator[tuple[int, str]]:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._parent(name, make=True) as found:
            yield found


def kept_in(folder: Path, path: str, *, may_leave: bool) -> tuple[Folder, str]:
    """Choose the folder that confines a file of a claim, and the file's name below it.

    A claim's `folder` may have become a link, because its program can replace it: it is not
    followed. Where a path leads out of `folder` and it `may_leave`, the file's own folder confines
    it. Otherwise opening the file fails.
    """
    if may_leave and (path.startswith("/") or ".." in path.split("/")):
        whole = folder / path
        return Folder(whole.parent), whole.name
    return Folder(folder, is_followed=False), path


def stamp_of(status: os.stat_result) -> FileStamp:
    """Make the stamp of a file from its stat result."""
    return FileStamp(size_bytes=status.st_size, changed_ns=status.st_mtime_ns, inode=status.st_ino)


def _open_regular(parent: int, last: str) -> int:
    # Checked before it is opened, because opening alone can rewind a tape; and after it, because
    # it may have been swapped in between.
    _check_regular(os.stat(last, dir_fd=parent, follow_symlinks=False))
    number = os.open(last, _FILE_FLAGS, dir_fd=parent)
    try:
        _check_regular(os.fstat(number))
    except OSError:
        os.close(number)
        raise
    return number


def _check_regular(status: os.stat_result) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "is a symbolic link")
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "is not a regular file")


def _walk(folder: int, prefix: str, depth: int) -> Iterator[tuple[str, FileStamp]]:
    with os.scandir(folder) as scan:
        entries = sorted(scan, key=lambda entry: entry.name)
    for entry in entries:
        name = prefix + entry.name
        if not is_name(name):
            continue
        with suppress(FileNotFoundError, PermissionError, NotADirectoryError):
            if entry.is_file(follow_symlinks=False):
                yield name, stamp_of(entry.stat(follow_symlinks=False))
            elif entry.is_dir(follow_symlinks=False) and depth < PARTS_MAX:
                yield from _walk_below(folder, entry.name, f"{name}/", depth + 1)


def _walk_below(parent: int, part: str, prefix: str, depth: int) -> Iterator[tuple[str, FileStamp]]:
    try:
        folder = os.open(part, _FOLDER_FLAGS, dir_fd=parent)
    except OSError as error:
        if error.errno == errno.ELOOP:  # became a link since it was listed
            return
        raise
    try:
        yield from _walk(folder, prefix, depth)
    finally:
        os.close(folder)


def _link(parent: int, last: str, target: int, label: str) -> None:
    here = os.stat(last, dir_fd=parent, follow_symlinks=False)
    with suppress(FileNotFoundError):
        there = os.stat(label, dir_fd=target, follow_symlinks=False)
        if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino):
            return
    fresh = f".{here.st_ino:x}.new"
    with suppress(FileNotFoundError):
        os.unlink(fresh, dir_fd=target)
    try:
        os.link(last, fresh, src_dir_fd=parent, dst_dir_fd=target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.rename(last, fresh, src_dir_fd=parent, dst_dir_fd=target)
    os.rename(fresh, label, src_dir_fd=target, dst_dir_fd=target)


def _reason(error: OSError) -> str:
    match error.errno:
        case errno.ENOENT:
            return "does not exist"
        case errno.ELOOP | errno.ENOTDIR:
            return "is a symbolic link, or below one or below a file; links are not followed"
        case errno.EINVAL:
            return "is not a regular file"
        case _:
            return error.strerror or str(error)
