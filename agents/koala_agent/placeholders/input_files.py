"""Input files of claims: the paths that a program gets, and the files' arrival in time.

A program finds each file under its own name in the folder `inputs` of its claim's folder, as a
symbolic link:

- A fetched copy lies in the spool folder, under a path that is known in advance; the daemon arms
  only after it has arrived. It may arrive long before its claim. Until the attempt is over the
  daemon names the transfer as wanted; afterwards it is kept as long as a claim reads it.
- A replica of the site is read in place.
- A part of a replica is copied into the claim's folder before the batch job is
  submitted. So a program is never at the barrier without it, and no processor idles meanwhile.
"""

from __future__ import annotations

import asyncio
import errno
import math
import os
from collections.abc import Callable
from pathlib import Path

from koala.common.files.confined_folder import UnusableFileError
from koala.common.files.names import check_name, shown
from koala.common.protocol.messages import HeldFile, Hold
from koala.common.protocol.names import ClaimId, visible_name
from koala.errors import LocalManagerError, SpecError

BLOCK_BYTES = 8 * 1024 * 1024
CHUNK_FILE = "input"
INPUTS = "inputs"


class InputPaths:
    """Paths of inputs. `replica` finds a file of the site, `copy` returns the present or future
    path of a transfer's file, `folder` the claim's own; parts use no more disk space than
    `room_bytes`."""

    def __init__(
        self,
        *,
        replica: Callable[[str], Path],
        copy: Callable[[str], Path],
        folder: Callable[[ClaimId], Path],
        room_bytes: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self._room_bytes = room_bytes
        self._replica = replica
        self._copy = copy
        self._folder = folder

    def named(self, hold: Hold, name: str) -> str:
        """Return the path of an input by the name under which its program finds it. Raises
        LocalManagerError when it has no such input."""
        if name not in {visible_name(file.file) for file in hold.files}:
            raise LocalManagerError(f"{hold.claim} has no input {shown(name)}")
        return str(self._folder(hold.claim) / INPUTS / name)

    async def prepare(self, hold: Hold) -> None:
        """Link the inputs by their names, and copy the part of a replica that the program reads.
        Raises LocalManagerError."""
        if _is_part(hold):
            await self._prepare_part(hold)
        links = {file.file: self._target(hold, file) for file in hold.files}
        try:
            for name, target in links.items():
                check_name(name)
                path = self._folder(hold.claim) / INPUTS / visible_name(name)
                await asyncio.to_thread(_link, path, target)
        except (OSError, SpecError) as error:
            raise LocalManagerError(f"inputs of {hold.claim}: {error}") from error

    def _target(self, hold: Hold, file: HeldFile) -> Path:
        """Return the path of an input, which may come later. Raises LocalManagerError."""
        if file.transfer:
            return self._copy(file.transfer)
        return self._chunk(hold) if _is_part(hold) else self._find(hold, file)

    async def _prepare_part(self, hold: Hold) -> None:
        source, target = self._find(hold, hold.files[0]), self._chunk(hold)
        try:
            await asyncio.to_thread(
                self._copy_part,
                source,
                target,
                offset=hold.chunk_offset,
                size_bytes=hold.chunk_bytes,
            )
        except OSError as error:
            message = f"{hold.claim} reads a part of {hold.files[0].file!r}: {error}"
            raise LocalManagerError(message) from error

    def _copy_part(self, source: Path, target: Path, *, offset: int, size_bytes: int) -> None:
        """Copy a part by atomic rename, so that the target is complete or absent. Raises OSError,
        and then leaves nothing behind."""
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = target.with_suffix(".new")
        try:
            with source.open("rb") as reader, new.open("wb") as writer:
                left = size_bytes or max(0, os.fstat(reader.fileno()).st_size - offset)
                reader.seek(offset)
                while left > 0:
                    self._require_room(left)
                    block = reader.read(min(left, BLOCK_BYTES))
                    if not block:
                        message = f"the file ends {left} bytes before the part does"
                        raise OSError(message)
                    writer.write(block)
                    left -= len(block)
        except OSError:
            new.unlink(missing_ok=True)
            raise
        new.replace(target)

    def _require_room(self, size_bytes: int) -> None:
        room_bytes = self._room_bytes()
        if size_bytes > room_bytes:
            text = f"{size_bytes} bytes of it are missing, and there is room for {room_bytes:.0f}"
            raise OSError(errno.ENOSPC, text)

    def _chunk(self, hold: Hold) -> Path:
        return self._folder(hold.claim) / CHUNK_FILE

    def _find(self, hold: Hold, file: HeldFile) -> Path:
        try:
            return self._replica(file.file)
        except (SpecError, UnusableFileError) as error:
            message = f"{hold.claim} reads {file.file!r}: {error}"
            raise LocalManagerError(message) from error


def _link(path: Path, target: Path) -> None:
    """Make a symbolic link, also in place of an older one. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target.absolute())


def _is_part(hold: Hold) -> bool:
    return hold.chunk_offset > 0 or hold.chunk_bytes > 0
