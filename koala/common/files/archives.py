"""Archives of staged programs: packed by a client, unpacked into a claim's folder.

An archive is a tar file of regular files. The same files make the same bytes, so they are uploaded
once. A client that packs, the daemon at a submission, and each agent that unpacks refuse the same
archives: `_Tally` has the limits, `koala.common.files.tar_reader` the format. Calls block.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from koala.common.files.names import check_name, shown
from koala.common.files.tar_reader import BLOCK_BYTES, HEADER_BYTES_MAX, Entry, read_tar
from koala.errors import SpecError

ARCHIVE_BYTES_MAX = 2**30
"""Size of all files of an archive."""
FILES_MAX = 10_000
FOLDERS_MAX = 10_000
NAMES_BYTES_MAX = 2 * 2**20
"""Size of all names of an archive: agents keep them in memory, and in each claim's specification.
"""
TAR_BYTES_MAX = ARCHIVE_BYTES_MAX + FILES_MAX * (3 * BLOCK_BYTES + HEADER_BYTES_MAX)
"""Size of an archive with headers and padding."""
OWN = (".koala", "inputs", "placeholder.out")
"""Names in a claim's folder that are Koala's own."""


def pack(files: Iterable[tuple[Path, str]], target: Path) -> None:
    """Write an archive of files with their names. Raises SpecError when they are too many or too
    large, or have names that are not allowed, OSError."""
    tally = _Tally()
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        for path, name in sorted(files, key=lambda pair: pair[1]):
            with path.open("rb") as file:
                status = os.fstat(file.fileno())
                tally.add(name, status.st_size)
                entry = tarfile.TarInfo(name)
                entry.size = status.st_size
                entry.mode = _mode(status.st_mode)
                archive.addfile(entry, file)


def check_archive(archive: Path) -> None:
    """Check that `unpack` takes an archive; only its headers are read. Raises SpecError, which
    names the entry and what is allowed, OSError."""
    with archive.open("rb") as file:
        for _ in _entries(file):
            pass


def unpack(archive: Path, folder: Path) -> list[tuple[str, int]]:
    """Unpack an archive into a folder; return the names of its files with their modes.

    Raises SpecError for an archive that `pack` would not write, OSError for one that cannot be read
    or written here.
    """
    unpacked: list[tuple[str, int]] = []
    with archive.open("rb") as file:
        for entry in _entries(file):
            mode = _mode(entry.mode)
            entry.write(folder / entry.name, mode)
            unpacked.append((entry.name, mode))
    return unpacked


def _entries(file: IO[bytes]) -> Iterator[Entry]:
    """Yield the entries of an archive, each after it was checked. Raises SpecError."""
    size_bytes = os.fstat(file.fileno()).st_size
    try:
        if size_bytes > TAR_BYTES_MAX:
            raise SpecError(f"a tar file of {size_bytes} bytes (expected at most {TAR_BYTES_MAX})")
        tally = _Tally()
        for entry in read_tar(file):
            if entry.is_folder:
                raise SpecError(f"{shown(entry.name)} is a folder (expected regular files only)")
            tally.add(entry.name, entry.size_bytes)
            if file.tell() + entry.size_bytes > size_bytes:
                raise SpecError(f"the tar file ends within {shown(entry.name)}")
            yield entry
    except SpecError as error:
        raise SpecError(f"the staged archive is refused: {error}") from error


class _Tally:
    """Files of an archive so far. They can be unpacked side by side: no name occurs twice, or is
    that of a folder as well."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._folders: set[str] = set()
        self._size_bytes = 0
        self._names_bytes = 0

    def add(self, name: str, size_bytes: int) -> None:
        """Count another file. Raises SpecError for a wrong name, and for one file too many."""
        parts = check_name(name)
        if parts[0] in OWN:
            raise SpecError(
                f"staged file {shown(name)}: {parts[0]} is Koala's own (expected another name)"
            )
        above = {"/".join(parts[:count]) for count in range(1, len(parts))}
        if name in self._files or name in self._folders or not self._files.isdisjoint(above):
            raise SpecError(
                f"staged file {shown(name)}: its name, or one above it, is taken (expected each"
                " name once)"
            )
        self._files.add(name)
        self._folders |= above
        self._size_bytes += size_bytes
        self._names_bytes += len(name.encode())
        for count, most, what in (
            (len(self._files), FILES_MAX, "files"),
            (len(self._folders), FOLDERS_MAX, "folders"),
            (self._names_bytes, NAMES_BYTES_MAX, "bytes of names"),
            (self._size_bytes, ARCHIVE_BYTES_MAX, "bytes"),
        ):
            if count > most:
                raise SpecError(
                    f"the staged files up to {shown(name)} have {count} {what} (expected at most"
                    f" {most}); `koala files add` is for more"
                )


def _mode(mode: int) -> int:
    return 0o755 if mode & 0o100 else 0o644
