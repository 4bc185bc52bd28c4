"""Uploads of a client: a local file goes to the daemon's spool, and resumes there after a cut."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from koala.client.connection import Connection
from koala.client.resumable_stream import RETRY_MAX_S, RETRY_MIN_S
from koala.common.wire.v1.files_pb2 import PutStart
from koala.errors import SpecError, UnreachableError

READ_BYTES = 8 * 1024 * 1024
PATIENCE_S = 60.0
"""Time for which a cut upload is tried again, from the last byte that arrived."""

Progress: TypeAlias = Callable[[int], None]
"""Receives the number of bytes that are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFile:
    """File of this machine with its content: the sha256 in hexadecimal, and its size in bytes."""

    path: Path
    checksum: str
    size_bytes: int

    @classmethod
    async def read(cls, path: Path) -> LocalFile:
        """Read a file and compute its checksum. Raises SpecError, OSError."""
        if not await asyncio.to_thread(path.is_file):
            raise SpecError(f"{path} is missing, or not a regular file (expected a regular file)")
        return await asyncio.to_thread(cls._read, path)

    @classmethod
    def _read(cls, path: Path) -> LocalFile:
        digest, size_bytes = hashlib.sha256(), 0
        with path.open("rb") as file:
            while block := file.read(READ_BYTES):
                digest.update(block)
                size_bytes += len(block)
        return cls(path=path, checksum=digest.hexdigest(), size_bytes=size_bytes)


def files_below(path: Path) -> tuple[list[tuple[Path, str]], list[str]]:
    """Return a file, or all regular files below a folder, with the names that they get, and the
    links that were left out. A link to a file or a folder below the same folder counts as one; a
    link that leads out, nowhere or into a circle is left out. Raises SpecError for a path that is
    neither."""
    if not path.is_dir():
        if not path.is_file():
            raise SpecError(f"{path} does not exist, or is special (expected a file or a folder)")
        return [(path, path.name)], []
    root = path.resolve()
    files: list[tuple[Path, str]] = []
    left_out: list[str] = []

    def walk(folder: Path, above: tuple[Path, ...]) -> None:
        for entry in sorted(folder.iterdir()) if os.access(folder, os.R_OK | os.X_OK) else ():
            name = f"{root.name}/{entry.relative_to(path).as_posix()}"
            target = entry.resolve()
            if entry.is_symlink() and (not target.is_relative_to(root) or target in above):
                left_out.append(name)
            elif entry.is_dir():
                walk(entry, (*above, target))
            elif entry.is_file():
                files.append((entry, name))
            elif entry.is_symlink():
                left_out.append(name)

    walk(path, (root,))
    return files, left_out


async def send(daemon: Connection, local: LocalFile, progress: Progress) -> None:
    """Upload a file to the daemon's spool, from where a site or a job takes it; go on after a cut,
    as long as bytes arrive within `PATIENCE_S`.

    Raises ExhaustedError when the daemon has no room, RejectedError and UnusableFileError when the
    file changes meanwhile.
    """
    # Late, for commands to start fast.
    from koala.common.files.confined_folder import Descriptor  # noqa: PLC0415
    from koala.common.files.exchange import CutError, frames, put  # noqa: PLC0415
    from koala.common.files.parts import PartReader  # noqa: PLC0415
    from koala.common.files.retries import GivenUpError, Retries, RetryLimits  # noqa: PLC0415

    clock = asyncio.get_running_loop().time
    limits = RetryLimits(progress_s=PATIENCE_S, pause_s=RETRY_MIN_S, pause_s_max=RETRY_MAX_S)
    retries = Retries(limits, clock())

    def note(here: int) -> None:
        if retries.note_offset(here, clock()):
            progress(here)

    start = PutStart(name=local.checksum, size_bytes=local.size_bytes)
    while True:
        descriptor = Descriptor(await asyncio.to_thread(os.open, local.path, os.O_RDONLY))
        try:
            part = PartReader(
                descriptor,
                str(local.path),
                size_bytes=local.size_bytes,
                checksum=local.checksum,
            )
            async with daemon.open_call("Upload") as call:
                await put(call, start, partial(frames, part), note=note)
            return
        except (UnreachableError, CutError) as error:
            try:
                pause_s = retries.pause_after_cut(str(error), clock())
            except GivenUpError:
                raise UnreachableError(str(error)) from error
            await asyncio.sleep(pause_s)
        finally:
            descriptor.close()
