"""The local transport: the agent runs where the commands of the batch system are."""

from __future__ import annotations

import asyncio
import os
import stat
from contextlib import suppress
from pathlib import Path

from koala.common.identity.private_files import write_private
from koala_agent.transport.interface import FileStatus
from koala_agent.transport.shell import Shell


class LocalTransport(Shell):
    """`Transport` on this machine."""

    async def put(self, path: str, content: bytes, *, is_durable: bool = True) -> None:
        await asyncio.to_thread(write_private, _located(path), content, is_durable=is_durable)

    async def get(self, path: str, size_max: int) -> bytes:
        return await asyncio.to_thread(_get, _located(path), size_max)

    async def stat(self, path: str) -> FileStatus | None:
        return await asyncio.to_thread(_stat, _located(path))

    async def list(self, path: str) -> tuple[str, ...]:
        return tuple(sorted(await asyncio.to_thread(os.listdir, _located(path))))

    async def make_folder(self, path: str) -> None:
        await asyncio.to_thread(_located(path).mkdir, mode=0o700, exist_ok=True)

    async def remove(self, path: str) -> None:
        await asyncio.to_thread(_located(path).unlink, missing_ok=True)

    async def remove_folder(self, path: str) -> None:
        await asyncio.to_thread(_remove_folder, _located(path))


def _located(path: str) -> Path:
    return Path.home() / path


def _get(path: Path, size_max: int) -> bytes:
    with path.open("rb") as file:
        return file.read(size_max)


def _stat(path: Path) -> FileStatus | None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return FileStatus(
        size_bytes=found.st_size,
        is_folder=stat.S_ISDIR(found.st_mode),
        is_file=stat.S_ISREG(found.st_mode),
        owner=found.st_uid,
        mode=stat.S_IMODE(found.st_mode),
    )


def _remove_folder(path: Path) -> None:
    with suppress(FileNotFoundError):
        path.rmdir()
