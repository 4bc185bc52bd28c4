"""Archives of staged programs: packed by a client, unpacked into a claim's folder.

An archive is a tar file of regular files. The same files make the same bytes, so they are uploaded
once. Calls block.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from koala.errors import SpecError
from koala.files.names import check_name, shown

ARCHIVE_BYTES_MAX = 2**30
FILES_MAX = 10_000
_OWN = (".koala", "inputs")
"""Folders of a claim's folder that are Koala's own."""


def pack(files: Iterable[tuple[Path, str]], target: Path) -> None:
    """Write an archive of files with their names. Raises SpecError when they are too many or too
    large, OSError."""
    size_bytes = count = 0
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        for path, name in sorted(files, key=lambda pair: pair[1]):
            check_name(name)
            with path.open("rb") as file:
                status = os.fstat(file.fileno())
                size_bytes, count = size_bytes + status.st_size, count + 1
                if size_bytes > ARCHIVE_BYTES_MAX or count > FILES_MAX:
                    raise SpecError(
                        f"the staged files up to {path} are {count} with {size_bytes} bytes:"
                        f" allowed are {FILES_MAX} with {ARCHIVE_BYTES_MAX}; `koala files add` is"
                        " for more"
                    )
                entry = tarfile.TarInfo(name)
                entry.size = status.st_size
                entry.mode = 0o755 if status.st_mode & 0o100 else 0o644
                archive.addfile(entry, file)


def unpack(archive: Path, folder: Path) -> list[tuple[str, int]]:
    """Unpack an archive into a folder; return the names of its files with their modes.

    Raises SpecError for an archive that `pack` would not write, OSError.
    """
    found: list[tuple[str, int]] = []
    try:
        with tarfile.open(archive, "r:") as content:
            for entry in content:
                parts = check_name(entry.name)
                if not entry.isreg() or entry.issparse() or parts[0] in _OWN:
                    raise SpecError(f"staged file {shown(entry.name)}: allowed are regular files")
                if len(found) == FILES_MAX:
                    raise SpecError(f"an archive of more than {FILES_MAX} files")
                source = content.extractfile(entry)
                assert source is not None
                mode = 0o755 if entry.mode & 0o100 else 0o644
                _write(folder / entry.name, source, mode)
                found.append((entry.name, mode))
    except tarfile.TarError as error:
        raise SpecError(f"the staged archive cannot be read: {error}") from error
    return found


def _write(path: Path, source: IO[bytes], mode: int) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, mode), "wb") as file:
        shutil.copyfileobj(source, file)
    path.chmod(mode)
