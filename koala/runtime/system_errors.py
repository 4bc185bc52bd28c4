"""Text of an error of the system, with the file that it is about.

An `open` that fails names its file; a `read`, `write` or `fsync` does not. Then the function that
made the call knows the file: it is the path in its variables.
"""

from __future__ import annotations

import errno
import traceback
from pathlib import Path

_OF_FILES = frozenset(
    {
        errno.EACCES,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EINVAL,
        errno.EIO,
        errno.ENOLCK,
        errno.ENOSPC,
        errno.EPERM,
        errno.EROFS,
        errno.ESTALE,
    }
)
"""Errors that a call without a path has of a file, and not of a connection."""


def system_error_text(error: OSError) -> str:
    """Describe an error: the file, as far as it is known, and what is wrong with it."""
    names = [str(name) for name in (error.filename, error.filename2) if name is not None]
    place = " -> ".join(names) or (_nearest_path(error) if error.errno in _OF_FILES else "")
    return f"{place}: {error.strerror or error}" if place else str(error.strerror or error)


def _nearest_path(error: OSError) -> str:
    """Return the path that the innermost function with one was about; empty without one."""
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        for value in frame.f_locals.values():
            if isinstance(value, Path):
                return str(value)
    return ""
