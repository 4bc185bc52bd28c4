"""Replicas of a site: every regular file below one folder, named by its relative path.

Checksums are expensive, so they are cached in a file beside the folder. The key is size, time of
change and inode: a file with the same three counts as unchanged. Calls block, except `read`;
drivers make them in threads.
"""

from __future__ import annotations

import errno
import json
import secrets
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from koala.common.files.confined_folder import Descriptor, FileStamp, Folder, UnusableFileError
from koala.common.files.names import check_name, shown
from koala.common.files.parts import PartReader
from koala.common.protocol.messages import FileFound
from koala.common.runtime.threads import in_thread
from koala.errors import SpecError

COPYING = ".koala-"
"""Beginning of the names of copies that are not complete; they are not listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One scan of the store: names with their stamps, and the files without a known checksum."""

    files: dict[str, FileStamp]
    unread: tuple[str, ...]


class FileStore:
    """Replica store in `folder`; the file `memory` keeps checksums over restarts."""

    def __init__(self, folder: Path, memory: Path) -> None:
        self._folder = Folder(folder)
        self._memory = memory
        self._known: dict[str, tuple[FileStamp, str]] = _recall(memory)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for half in folder.glob(f"{COPYING}*"):  # of an agent that was killed
            with suppress(OSError):
                half.unlink()

    def open(self, name: str) -> Descriptor:
        """Open a replica for reading. Raises SpecError, UnusableFileError."""
        return self._folder.open(name)

    def find(self, name: str) -> Path:
        """Return the path of a replica. Raises as `open` does."""
        return self._folder.find(name)

    def list(self) -> Listing:
        """Scan the store. Unread files come in order of size, so that most are known soon."""
        files = {
            name: stamp
            for name, stamp in self._folder.listing()
            if not name.rpartition("/")[2].startswith(COPYING)
        }
        unread = [name for name, stamp in files.items() if self.found(name, stamp) is None]
        unread.sort(key=lambda name: (files[name].size_bytes, name))
        return Listing(files=files, unread=tuple(unread))

    def found(self, name: str, stamp: FileStamp) -> FileFound | None:
        """Return a file of a listing, if its checksum is known."""
        known = self._known.get(name)
        if known is None or known[0] != stamp:
            return None
        return FileFound(file=name, size_bytes=stamp.size_bytes, checksum=known[1])

    def adopt(self, path: Path, name: str) -> None:
        """Move a checked copy into the store, replacing what has the name. Raises SpecError for a
        file of the site itself, OSError."""
        _check_added(name)
        try:
            self._folder.take(path, name)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            beside = self._folder.path / f"{COPYING}{secrets.token_hex(8)}"
            try:
                shutil.copyfile(path, beside)
                self._folder.take(beside, name)
            finally:
                beside.unlink(missing_ok=True)

    def take(self, path: Path, name: str) -> None:
        """Take a file of this machine, as a hard link, or as a copy where that is impossible.
        Raises SpecError for a file of the site itself, or a path that is no regular file, OSError.
        """
        _check_added(name)
        if not path.is_absolute() or not path.is_file():
            raise SpecError(
                f"{shown(str(path))} is not usable (expected the absolute path of a regular file)"
            )
        beside = self._folder.path / f"{COPYING}{secrets.token_hex(8)}"
        try:
            try:
                beside.hardlink_to(path.resolve())
            except OSError:
                shutil.copyfile(path, beside)
            self._folder.take(beside, name)
        finally:
            beside.unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        """Delete a file that a user has added; none is no error. Raises SpecError for a file of the
        site itself, OSError."""
        _check_added(name)
        self._folder.remove(name)

    async def read(self, name: str) -> FileFound | None:
        """Compute and cache the checksum of a file.

        None when the file is gone, cannot be read, or changes meanwhile: the next scan finds it as
        it then is.
        """
        try:
            descriptor = await in_thread(self.open, name)
        except UnusableFileError:
            return None
        try:
            reader = await in_thread(PartReader, descriptor, name)
            checksum = await reader.whole_checksum()
        except (UnusableFileError, OSError):
            return None
        finally:
            descriptor.close()
        self._known[name] = (reader.stamp, checksum)
        return self.found(name, reader.stamp)

    def remember(self, listing: Listing) -> None:
        """Write the known checksums to disk, without those of files that are gone."""
        self._known = {n: known for n, known in self._known.items() if n in listing.files}
        rows = {
            name: [stamp.size_bytes, stamp.changed_ns, stamp.inode, checksum]
            for name, (stamp, checksum) in self._known.items()
        }
        fresh = self._memory.with_name(f"{self._memory.name}.part")
        fresh.write_text(json.dumps(rows), encoding="utf-8")
        fresh.rename(self._memory)


def _check_added(name: str) -> None:
    """Check that a name is one of a user's files. Raises SpecError."""
    if len(check_name(name)) < 2 or not name.startswith("~"):
        raise SpecError(
            f"file {shown(name)} is the site's own (expected a name that begins with ~USER/)"
        )


def _recall(memory: Path) -> dict[str, tuple[FileStamp, str]]:
    """Load the cached checksums; unreadable ones are computed again."""
    known: dict[str, tuple[FileStamp, str]] = {}
    with suppress(OSError, ValueError, TypeError, AttributeError):
        for name, row in json.loads(memory.read_text(encoding="utf-8")).items():
            size_bytes, changed_ns, inode, checksum = row
            stamp = FileStamp(
                size_bytes=int(size_bytes), changed_ns=int(changed_ns), inode=int(inode)
            )
            known[str(name)] = (stamp, str(checksum))
    return known
