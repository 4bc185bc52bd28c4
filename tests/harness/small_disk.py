"""A disk that is soon full, for tests. Only root may mount one: mark such tests `root`."""

from __future__ import annotations

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


def enlarge(folder: Path, *, megabytes: int) -> None:
    """From now on the disk is of this size."""
    subprocess.run(["mount", "-o", f"remount,size={megabytes}m", folder], check=True)


def fill(folder: Path, leave: int) -> Path:
    """Leaves so many bytes free; the file that takes the others."""
    found = os.statvfs(folder)
    filler = folder / "filler"
    with filler.open("ab") as file:
        size = found.f_bavail * found.f_frsize - leave
        os.posix_fallocate(file.fileno(), file.tell(), size)
    return filler
