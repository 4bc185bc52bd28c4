"""Read tar files that others wrote: each number is checked before memory is taken for it.

A tar file has regular files and folders, as `common.files.archives`, `koala backup` and the usual
commands write them. An extended header (POSIX or GNU) may precede an entry; it gives a long name or
a size. All else is refused: links, devices, sparse files, global headers, a header upon a header.

`tarfile` reads a header of any length into memory, follows headers upon headers by recursion, and
takes a damaged file for a shorter one. So only its parser of a single block is used here. Whatever
a file contains, the reader's memory is bounded by `HEADER_BYTES_MAX`. Calls block.
"""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from koala.common.files.names import shown
from koala.errors import SpecError

BLOCK_BYTES = tarfile.BLOCKSIZE
HEADER_BYTES_MAX = 8 * 1024
"""Longest extended header: room for the longest name several times."""
COPY_BYTES = 2**20
_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE)
_LONG_NAME = tarfile.GNUTYPE_LONGNAME
_HEADERS = (tarfile.XHDTYPE, _LONG_NAME)
_PATH, _SIZE = b"path", b"size"
_IGNORED = (b"mtime", b"atime", b"ctime", b"uid", b"gid", b"uname", b"gname")
_KEYWORDS = (_PATH, _SIZE, *_IGNORED)
_RECORD = re.compile(rb"(?P<length>[1-9][0-9]{0,4}) (?P<keyword>[^=]{1,100})=")
_NUMBER = re.compile(rb"[0-9]{1,15}")
_SIZE_MAX = 10**15


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """File or folder in a tar file. Its content can be read until the next entry is."""

    name: str
    size_bytes: int
    mode: int
    is_folder: bool
    file: IO[bytes]

    def write(self, path: Path, mode: int) -> None:
        """Write the content to a file, with the folders above it; a link there is not followed.

        Raises SpecError for a tar file that ends too early, OSError.
        """
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, mode), "wb") as target:
            left = self.size_bytes
            while left > 0:
                block = self.file.read(min(left, COPY_BYTES))
                if not block:
                    raise SpecError(f"the tar file ends within {shown(self.name)}")
                target.write(block)
                left -= len(block)
        path.chmod(mode)


def read_tar(file: IO[bytes]) -> Iterator[Entry]:
    """Yield the entries of a tar file, from where the file is up to the end mark.

    The file may be any that can seek forward, such as an unpacked one of `gzip`. Raises SpecError
    for what is no tar file or has another kind of entry; it names the entry. Raises OSError.
    """
    number, given = 0, dict[bytes, bytes]()
    while (header := _header(file, number)) is not None:
        number += 1
        if header.type in _HEADERS:
            if given:
                raise _wrong(number, "a header upon a header (expected an entry after the first)")
            given = _extended(file, header, number)
            continue
        entry = _entry(file, header, given, number)
        given = {}
        begin = file.tell()
        yield entry
        file.seek(begin + _padded(entry.size_bytes))
    if given:
        raise _wrong(number, "a header without an entry (expected an entry after it)")


def _header(file: IO[bytes], number: int) -> tarfile.TarInfo | None:
    """Read the next header of one block; None at the end mark. Raises SpecError."""
    block = file.read(BLOCK_BYTES)
    if len(block) < BLOCK_BYTES:
        raise SpecError(f"the tar file ends after {number} entries (expected is its end mark)")
    if not any(block):
        return None
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        raise _wrong(
            number + 1, f"no header: {error} (expected is one of an uncompressed tar file)"
        ) from error


def _extended(file: IO[bytes], header: tarfile.TarInfo, number: int) -> dict[bytes, bytes]:
    """Read an extended header. Raises SpecError, for a long one before it is read."""
    if not 0 < header.size <= HEADER_BYTES_MAX:
        raise _wrong(number, f"a header of {header.size} bytes (expected 1 to {HEADER_BYTES_MAX})")
    content = file.read(_padded(header.size))
    if len(content) < header.size:
        raise _wrong(number, "the tar file ends within a header")
    content = content[: header.size]
    if header.type == _LONG_NAME:
        return {_PATH: content.rstrip(b"\0")}
    return _records(content, number)


def _records(content: bytes, number: int) -> dict[bytes, bytes]:
    """Parse the records `LENGTH KEYWORD=VALUE` of a POSIX header. Each keyword may occur once, so
    there are few of them. Raises SpecError."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(content):
        record = _RECORD.match(content, at)
        end = at + int(record["length"]) if record else 0
        if record is None or not record.end() < end <= len(content) or content[end - 1] != 0x0A:
            raise _wrong(number, "a header with a malformed record (expected LENGTH KEYWORD=VALUE)")
        keyword = record["keyword"]
        if keyword not in _KEYWORDS or keyword in found:
            allowed = b", ".join(_KEYWORDS).decode()
            name = shown(keyword.decode("utf-8", "surrogateescape"))
            raise _wrong(number, f"a header with {name} (expected {allowed}, each once)")
        found[keyword] = content[record.end() : end - 1]
        at = end
    return found


def _entry(
    file: IO[bytes], header: tarfile.TarInfo, given: dict[bytes, bytes], number: int
) -> Entry:
    """Return the entry of a header, with what an extended header says instead. Raises SpecError."""
    name = header.name
    if _PATH in given:
        name = given[_PATH].decode("utf-8", "surrogateescape")
    is_folder = header.type == tarfile.DIRTYPE
    if not (is_folder or header.type in _FILES):
        raise _wrong(
            number,
            f"{shown(name)} has type {header.type.decode('latin-1')!a}"
            " (expected a regular file or a folder)",
        )
    size_bytes = header.size
    if _SIZE in given:
        size_bytes = int(given[_SIZE]) if _NUMBER.fullmatch(given[_SIZE]) else -1
    if not 0 <= size_bytes <= (0 if is_folder else _SIZE_MAX):
        raise _wrong(number, f"{shown(name)} has a bad size (expected 0 or more)")
    return Entry(name=name, size_bytes=size_bytes, mode=header.mode, is_folder=is_folder, file=file)


def _padded(size_bytes: int) -> int:
    """Return the size with that of the padding to a whole block."""
    return -(-size_bytes // BLOCK_BYTES) * BLOCK_BYTES


def _wrong(number: int, problem: str) -> SpecError:
    return SpecError(f"entry {number} of the tar file: {problem}")
