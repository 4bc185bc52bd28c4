"""A disk that is soon full, for tests. Only root may mount one: mark such tests `root`."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def small_disk(folder: Path, *, megabytes: int) -> Iterator[Path]:
    """A folder, made here, on a disk of this size."""
    folder.mkdir()
    size = f"size={megabytes}m,mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "none", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(folder: Path, leave: int) -> Path:
    """Leaves so many bytes free, also where somebody writes; the file that takes the others."""
    filler = folder / "filler"
    with filler.open("ab") as file:
        while (size := _free_bytes(folder) - leave) > 0:
            try:
                os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), size)
            except OSError as error:  # somebody has written meanwhile: there is less room now
                if error.errno != errno.ENOSPC:
                    raise
    return filler


def _free_bytes(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
