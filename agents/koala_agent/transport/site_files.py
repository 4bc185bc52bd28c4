"""Files of a site, by calls that are made here (`local`) or by a Python at the host (`ssh`)."""

from __future__ import annotations

import asyncio
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from koala.errors import LocalManagerError
from koala_agent.transport import file_calls
from koala_agent.transport.interface import FileStatus
from koala_agent.transport.shell import end
from koala_agent.transport.ssh_words import encoded

LINE_BYTES_MAX = 2**27
_SERVE = """\
for p in '{python}' python3 /usr/libexec/platform-python; do
command -v "$p" >/dev/null && exec "$p" -I -S -c 'import sys
exec(compile(sys.stdin.buffer.read({size}), "koala-files", "exec"))'; done"""


class SiteFilesByCalls(ABC):
    """`SiteFiles`, whose calls are made by `_call`."""

    @abstractmethod
    async def _call(self, name: str, path: bytes, *arguments: object) -> Any:  # noqa: ANN401
        """Make one of the calls of `file_calls`."""

    async def put(self, path: str, content: bytes, *, is_durable: bool = True) -> None:
        await self._call("put", os.fsencode(path), content, is_durable)

    async def get(self, path: str, size_max: int) -> bytes:
        content: bytes = await self._call("get", os.fsencode(path), size_max)
        return content

    async def stat(self, path: str) -> FileStatus | None:
        status = await self._call("status", os.fsencode(path))
        if status is None:
            return None
        size_bytes, is_folder, is_file, owner, mode = status
        return FileStatus(
            size_bytes=size_bytes, is_folder=is_folder, is_file=is_file, owner=owner, mode=mode
        )

    async def list(self, path: str) -> tuple[str, ...]:
        return tuple(map(os.fsdecode, await self._call("names", os.fsencode(path))))

    async def make_folder(self, path: str) -> None:
        await self._call("make_folder", os.fsencode(path))

    async def remove(self, path: str) -> None:
        await self._call("remove", os.fsencode(path))

    async def remove_folder(self, path: str) -> None:
        await self._call("remove_folder", os.fsencode(path))


class _LostError(LocalManagerError):
    """The connection ended; what was asked may or may not have been done."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"files over ssh: {reason}", transient=True)


class FileCaller:
    """Client of one process at the host, which makes calls for all sites of a connection, and ends
    with it. Build it with `open_files`.

    Calls may overlap. They raise OSError as the functions of `os` do, and LocalManagerError when
    the connection is lost or silent for `limit_s`.
    """

    def __init__(self, process: asyncio.subprocess.Process, limit_s: float) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._limit_s = limit_s
        self._number = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._reason = ""

    @property
    def is_open(self) -> bool:
        """True until the connection is lost."""
        return not self._reason

    async def begin(self) -> None:
        """Send the calls, and wait until they are served; text of start-up files comes before.
        Raises LocalManagerError."""
        self._stdin.write(source())
        try:
            async with asyncio.timeout(self._limit_s):
                while (line := await self._stdout.readline()) and line != file_calls.READY:
                    pass
        except (TimeoutError, ValueError) as error:
            raise _LostError("no answer of the host's Python") from error
        if not line:
            raise _LostError("the host has no Python (expected python3, 3.6 or newer)")

    async def receive(self) -> None:
        """Hand out answers until the connection is lost or cancelled."""
        reason = "the connection was closed"
        try:
            while line := await self._stdout.readline():
                number, *answer = json.loads(line)
                waiting = self._waiting.pop(number, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
        except (ConnectionError, ValueError) as error:
            reason = str(error)
        finally:
            self._lose(reason)
            await end(self._process)

    async def call(self, name: str, path: bytes, *arguments: object) -> Any:  # noqa: ANN401
        """Make a call at the host."""
        if self._reason:
            raise _LostError(self._reason)
        self._number = number = self._number + 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        request = [number, name, *map(file_calls.lined, (path, *arguments))]
        self._stdin.write(json.dumps(request).encode() + b"\n")
        try:
            async with asyncio.timeout(self._limit_s):
                with suppress(ConnectionError):
                    await self._stdin.drain()
                status, words, result = await future
        except TimeoutError as error:
            self._lose(f"no answer in {self._limit_s:g} s")
            raise _LostError(self._reason) from error
        finally:
            self._waiting.pop(number, None)
        if status:
            raise OSError(status, words, os.fsdecode(path))
        return file_calls.plain(result)

    def _lose(self, reason: str) -> None:
        self._reason = self._reason or reason
        self._stdin.close()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(_LostError(self._reason))


async def open_files(argv: Sequence[str], *, python: str, limit_s: float) -> FileCaller:
    """Start a Python at the end of this ssh command; the caller runs `receive`. Raises
    LocalManagerError."""
    line = encoded(_SERVE.format(python=python or "python3", size=len(source())))
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            line,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=LINE_BYTES_MAX,
        )
    except OSError as error:
        raise LocalManagerError(f"{argv[0]} cannot be run: {error}") from error
    client = FileCaller(process, limit_s)
    try:
        await client.begin()
    except LocalManagerError:
        await end(process)
        raise
    return client


def source() -> bytes:
    """Return the program that serves the calls at the host."""
    return Path(file_calls.__file__).read_bytes()
