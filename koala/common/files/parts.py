"""Parts of files: written as they come, and read from any offset with their checksum. Calls block,
except `whole_checksum`; drivers make them in threads."""

from __future__ import annotations

import hashlib
import os
from functools import partial
from pathlib import Path

from koala.common.files.confined_folder import Descriptor, UnusableFileError
from koala.common.files.names import shown
from koala.common.runtime.threads import in_steps

BLOCK_BYTES = 1024 * 1024
_STEP_BLOCKS = 16


def open_part(path: Path) -> tuple[Descriptor, int]:
    """Open the bytes so far of a file that is being received; return how many they are. Raises
    OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    part = Descriptor(os.open(path, flags, 0o600))
    return part, part.stamp().size_bytes


class PartReader:
    """Reader of a part of an open file, below `head`, with the sha256 of all that it has read.

    Without `size_bytes` the part is the rest of the file. Raises UnusableFileError when the file is
    too short, or is changed while it is read: then no checksum would mean anything. One that
    `may_grow` may be written to behind the part. One whose `checksum` is known is not summed again.
    """

    def __init__(
        self,
        descriptor: Descriptor,
        name: str,
        *,
        offset: int = 0,
        size_bytes: int | None = None,
        head: bytes = b"",
        may_grow: bool = False,
        checksum: str = "",
    ) -> None:
        self.stamp = descriptor.stamp()
        rest_bytes = max(0, self.stamp.size_bytes - offset)
        if size_bytes is not None and rest_bytes < size_bytes:
            raise UnusableFileError(
                f"file {shown(name)} has {self.stamp.size_bytes} bytes; the part that was ordered"
                f" ends at {offset + size_bytes}"
            )
        self.size_bytes = len(head) + (rest_bytes if size_bytes is None else size_bytes)
        self.read_bytes = 0
        self._descriptor = descriptor
        self._name = name
        self._head = head
        self._start = offset - len(head)
        self._may_grow = may_grow
        self._digest = hashlib.sha256()
        self._checksum = checksum

    def skip(self, size_bytes: int) -> bool:
        """Read some of the first bytes for the checksum only; False when all of them are read.
        Raises UnusableFileError."""
        if self._checksum:
            self.read_bytes = max(size_bytes, self.read_bytes)
        for _ in range(_STEP_BLOCKS):
            if self.read_bytes >= size_bytes:
                return False
            self.read(min(BLOCK_BYTES, size_bytes - self.read_bytes))
        return True

    def read(self, size_bytes: int) -> bytes:
        """Read up to `size_bytes` more; empty at the end. Raises UnusableFileError."""
        size_bytes = min(size_bytes, self.size_bytes - self.read_bytes)
        block = self._head[self.read_bytes : self.read_bytes + size_bytes]
        if size_bytes and not block:
            block = self._descriptor.read(size_bytes, self._start + self.read_bytes)
            if not block:
                message = f"file {shown(self._name)} became shorter while it was read"
                raise UnusableFileError(message)
        if not self._checksum:
            self._digest.update(block)
        self.read_bytes += len(block)
        return block

    def checksum(self) -> str:
        """Return the sha256 in hexadecimal, of all that was read. Raises UnusableFileError."""
        if not self._may_grow and self._descriptor.stamp() != self.stamp:
            raise UnusableFileError(f"file {shown(self._name)} was changed while it was read")
        return self._checksum or self._digest.hexdigest()

    async def whole_checksum(self) -> str:
        """Read the rest in threads, and return the checksum. Raises UnusableFileError, OSError."""
        await in_steps(partial(self.skip, self.size_bytes))
        return self.checksum()

    def close(self) -> None:
        """Close the file once no thread reads it."""
        self._descriptor.close()
