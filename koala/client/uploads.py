"""Uploads of a client: a local file goes to the daemon's spool, and resumes there after a cut."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from koala.client.resumable_stream import RETRY_MAX_S, RETRY_MIN_S
from koala.common.wire.v1 import koala_pb2 as pb
from koala.errors import SpecError, UnreachableError

BLOCK_BYTES = 256 * 1024
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
        for found in sorted(folder.iterdir()) if os.access(folder, os.R_OK | os.X_OK) else ():
            name = f"{root.name}/{found.relative_to(path).as_posix()}"
            target = found.resolve()
            if found.is_symlink() and (not target.is_relative_to(root) or target in above):
                left_out.append(name)
            elif found.is_dir():
                walk(found, (*above, target))
            elif found.is_file():
                files.append((found, name))
            elif found.is_symlink():
                left_out.append(name)

    walk(path, (root,))
    return files, left_out


async def send(
    local: LocalFile,
    open_call: Callable[[AsyncIterator[pb.UploadUp]], Awaitable[Any]],
    progress: Progress,
) -> None:
    """Upload a file; try again after a cut, as long as bytes arrive within `PATIENCE_S`.

    `open_call` makes the call from its requests, and raises UnreachableError and KoalaErrors.
    """
    clock = asyncio.get_running_loop().time
    until, furthest, pause_s = clock() + PATIENCE_S, -1, RETRY_MIN_S

    def note(here: int) -> None:
        nonlocal until, furthest
        if here > furthest:
            furthest, until = here, clock() + PATIENCE_S
            progress(here)

    while True:
        try:
            await _send_once(local, open_call, note)
        except UnreachableError:
            if clock() + pause_s > until:
                raise
            await asyncio.sleep(pause_s)
            pause_s = min(RETRY_MAX_S, 2 * pause_s)
        else:
            return


async def _send_once(
    local: LocalFile,
    open_call: Callable[[AsyncIterator[pb.UploadUp]], Awaitable[Any]],
    note: Progress,
) -> None:
    offset: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def requests() -> AsyncGenerator[pb.UploadUp, None]:
        start = pb.UploadStart(checksum=local.checksum, size_bytes=local.size_bytes)
        yield pb.UploadUp(start=start)
        here = await offset
        with await asyncio.to_thread(local.path.open, "rb") as file:
            await asyncio.to_thread(file.seek, here)
            while here < local.size_bytes:
                size_bytes = min(BLOCK_BYTES, local.size_bytes - here)
                block = await asyncio.to_thread(file.read, size_bytes)
                if not block:
                    return  # it became shorter; the daemon misses the rest, and says so
                yield pb.UploadUp(data=block)
                here += len(block)
                note(here)

    is_done = False
    replies = await open_call(requests())  # gRPC closes the requests at the end of the call
    async with aclosing(replies):
        async for reply in replies:
            note(reply.offset)
            is_done = reply.is_done
            if not offset.done():
                offset.set_result(reply.offset)
    if not is_done:
        raise UnreachableError(f"{local.path}: the upload was cut")
