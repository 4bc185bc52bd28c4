"""Files over ssh: a client of the SFTP protocol, version 3, as OpenSSH's server speaks it.

One `sftp-server` serves all calls of a connection, however many there are, so that a look at a
file costs a round trip and no process at the host. Requests are numbered and may overlap.
Names are bytes without NUL; nothing is quoted, and no shell sees them.
"""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import stat
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import NoReturn

from koala.errors import LocalManagerError
from koala_agent.transport.interface import FileStatus
from koala_agent.transport.shell import end

VERSION = 3
BLOCK_BYTES = 32_768
"""Content of one request: servers accept at least this much."""
AT_ONCE = 16
"""Blocks that are under way at a time."""
PACKET_BYTES_MAX = 256 * 1024 + 1024
EXTENSIONS = ("posix-rename@openssh.com", "fsync@openssh.com")
"""Extensions that `put` needs: replacement of a file, and durability."""


class _Kind(IntEnum):
    INIT = 1
    VERSION = 2
    OPEN = 3
    CLOSE = 4
    READ = 5
    WRITE = 6
    LSTAT = 7
    OPENDIR = 11
    READDIR = 12
    REMOVE = 13
    MKDIR = 14
    RMDIR = 15
    STATUS = 101
    HANDLE = 102
    DATA = 103
    NAME = 104
    ATTRS = 105
    EXTENDED = 200


_OK, _END = 0, 1
_ERRORS = {2: errno.ENOENT, 3: errno.EACCES, 8: errno.EOPNOTSUPP}
_READ_FLAG, _WRITE_FLAG, _CREATE_FLAG, _EXCLUSIVE_FLAG = 1, 2, 8, 32
_HAS_SIZE, _HAS_OWNER, _HAS_MODE, _HAS_TIMES, _HAS_MORE = 1, 2, 4, 8, 1 << 31
_PRIVATE_FILE = struct.pack(">II", _HAS_MODE, 0o600)
_PRIVATE_FOLDER = struct.pack(">II", _HAS_MODE, 0o700)


class _LostError(LocalManagerError):
    """The connection ended; what was asked may or may not have been done."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"sftp: {reason}", transient=True)
        self.reason = reason


class NoSFTPError(_LostError):
    """The host does not speak the protocol."""

    def __init__(self) -> None:
        super().__init__("the host offers no SFTP subsystem, and no sftp-server is where they are")


def _text(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


@dataclass(slots=True)
class _Fields:
    """Reader of the fields of a packet. Raises _LostError when the packet is too short for one."""

    content: bytes
    at: int = 0

    def number(self, size_bytes: int = 4) -> int:
        return int.from_bytes(self._next(size_bytes), "big")

    def text(self) -> bytes:
        return self._next(self.number())

    def status(self) -> FileStatus:
        """Read the attributes of a file."""
        given = self.number()
        size_bytes = self.number(8) if given & _HAS_SIZE else 0
        owner = -1
        if given & _HAS_OWNER:
            owner = self.number()
            self.number()
        mode = self.number() if given & _HAS_MODE else 0
        if given & _HAS_TIMES:
            self._next(8)
        for _ in range(self.number() if given & _HAS_MORE else 0):
            self.text()
            self.text()
        return FileStatus(
            size_bytes=size_bytes,
            is_folder=stat.S_ISDIR(mode),
            is_file=stat.S_ISREG(mode),
            owner=owner,
            mode=stat.S_IMODE(mode),
        )

    def _next(self, size_bytes: int) -> bytes:
        part = self.content[self.at : self.at + size_bytes]
        if len(part) < size_bytes:
            raise _LostError("a packet is too short")
        self.at += size_bytes
        return part


Reply = tuple[int, _Fields]


class SFTPClient:
    """Client of one `sftp-server`, which ends with it. Build it with `open_sftp`.

    All calls raise OSError as the functions of `os` do, and LocalManagerError when the connection
    is lost or silent for `limit_s`.
    """

    def __init__(self, process: asyncio.subprocess.Process, limit_s: float) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._limit_s = limit_s
        self._number = 0
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._reason = ""

    @property
    def is_open(self) -> bool:
        """True until the connection is lost."""
        return not self._reason

    async def begin(self) -> None:
        """Agree on the version. Raises LocalManagerError."""
        self._stdin.write(struct.pack(">IBI", 5, _Kind.INIT, VERSION))
        try:
            async with asyncio.timeout(self._limit_s):
                await self._stdout.readuntil(b"\0")  # text of start-up files comes before it
                kind, fields = await self._packet(begun=b"\0")
                found = fields.number()
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError) as error:
            raise NoSFTPError from error
        except asyncio.LimitOverrunError as error:
            raise _LostError("more text of start-up files than of files comes first") from error
        extensions = set()
        while fields.at < len(fields.content):
            extensions.add(fields.text().decode(errors="replace"))
            fields.text()
        if kind != _Kind.VERSION or found != VERSION or not extensions.issuperset(EXTENSIONS):
            message = f"sftp: version {found} (expected OpenSSH's, with {', '.join(EXTENSIONS)})"
            raise LocalManagerError(message)

    async def receive(self) -> None:
        """Hand out replies until the connection is lost or cancelled."""
        reason = "the connection was closed"
        try:
            while True:
                kind, fields = await self._packet()
                waiting = self._waiting.pop(fields.number(), None)
                if waiting is not None and not waiting.done():
                    waiting.set_result((kind, fields))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except _LostError as error:
            reason = error.reason
        finally:
            self._lose(reason)
            await end(self._process)

    # Calls ---------------------------------------------------------------------------------------

    async def put(self, path: bytes, content: bytes, *, is_durable: bool = True) -> None:
        """Write a file, and replace the one that is there in one step."""
        folder, name = os.path.split(path)
        new = os.path.join(folder, b".%s.%s" % (name[:200], secrets.token_hex(4).encode()))  # noqa: PTH118 - bytes of another host
        flags = struct.pack(">I", _WRITE_FLAG | _CREATE_FLAG | _EXCLUSIVE_FLAG)
        handle = await self._handle(_Kind.OPEN, _text(new) + flags + _PRIVATE_FILE, new)
        try:
            try:
                await self._write_all(handle, content, new)
                if is_durable:
                    fsync = _text(EXTENSIONS[1].encode()) + _text(handle)
                    await self._done(_Kind.EXTENDED, fsync, new, is_write=True)
            finally:
                await self._done(_Kind.CLOSE, _text(handle), new, is_write=True)
            names = _text(new) + _text(path)
            await self._done(_Kind.EXTENDED, _text(EXTENSIONS[0].encode()) + names, path)
        except OSError:
            with suppress(OSError):
                await self._done(_Kind.REMOVE, _text(new), new)
            raise

    async def get(self, path: bytes, size_max: int) -> bytes:
        """Read a file, at most so many bytes."""
        flags = struct.pack(">II", _READ_FLAG, 0)
        handle = await self._handle(_Kind.OPEN, _text(path) + flags, path)
        found = bytearray()
        try:
            while len(found) < size_max:
                most = min(BLOCK_BYTES, size_max - len(found))
                where = _text(handle) + struct.pack(">QI", len(found), most)
                kind, fields = await self._ask(_Kind.READ, where)
                if kind != _Kind.DATA:
                    _check(kind, fields, path, is_end_well=True)
                    break
                found += fields.text()
        finally:
            await self._done(_Kind.CLOSE, _text(handle), path)
        return bytes(found)

    async def stat(self, path: bytes) -> FileStatus | None:
        """Look at a path without following a link; None when nothing is there."""
        kind, fields = await self._ask(_Kind.LSTAT, _text(path))
        if kind == _Kind.ATTRS:
            return fields.status()
        with suppress(FileNotFoundError):
            _check(kind, fields, path)
        return None

    async def list(self, path: bytes) -> tuple[bytes, ...]:
        """Return the names in a folder, sorted."""
        handle = await self._handle(_Kind.OPENDIR, _text(path), path)
        names: list[bytes] = []
        try:
            while True:
                kind, fields = await self._ask(_Kind.READDIR, _text(handle))
                if kind != _Kind.NAME:
                    _check(kind, fields, path, is_end_well=True)
                    break
                for _ in range(fields.number()):
                    names.append(fields.text())
                    fields.text()
                    fields.status()
        finally:
            await self._done(_Kind.CLOSE, _text(handle), path)
        return tuple(sorted(set(names) - {b".", b".."}))

    async def make_folder(self, path: bytes) -> None:
        """Make a folder for its owner alone; one that exists is left as it is."""
        kind, fields = await self._ask(_Kind.MKDIR, _text(path) + _PRIVATE_FOLDER)
        try:
            _check(kind, fields, path)
        except OSError:  # the protocol has no word for "exists"
            found = await self.stat(path)
            if found is None or not found.is_folder:
                raise

    async def remove(self, path: bytes) -> None:
        """Remove a file; one that is not there is no error."""
        with suppress(FileNotFoundError):
            await self._done(_Kind.REMOVE, _text(path), path)

    async def remove_folder(self, path: bytes) -> None:
        """Remove an empty folder; one that is not there is no error."""
        with suppress(FileNotFoundError):
            await self._done(_Kind.RMDIR, _text(path), path)

    # Requests ------------------------------------------------------------------------------------

    async def _write_all(self, handle: bytes, content: bytes, path: bytes) -> None:
        slots = asyncio.Semaphore(AT_ONCE)

        async def write(offset: int) -> None:
            async with slots:
                block = _text(content[offset : offset + BLOCK_BYTES])
                where = _text(handle) + struct.pack(">Q", offset) + block
                await self._done(_Kind.WRITE, where, path, is_write=True)

        try:
            async with asyncio.TaskGroup() as group:
                for offset in range(0, len(content), BLOCK_BYTES):
                    group.create_task(write(offset))
        except ExceptionGroup as group:
            raise _first(group) from group

    async def _handle(self, kind: _Kind, content: bytes, path: bytes) -> bytes:
        answered, fields = await self._ask(kind, content)
        if answered != _Kind.HANDLE:
            _check(answered, fields, path)
            raise _LostError("an answer without a handle")
        return fields.text()

    async def _done(
        self, kind: _Kind, content: bytes, path: bytes, *, is_write: bool = False
    ) -> None:
        answered, fields = await self._ask(kind, content)
        _check(answered, fields, path, is_write=is_write)

    async def _ask(self, kind: _Kind, content: bytes) -> Reply:
        if self._reason:
            raise _LostError(self._reason)
        self._number = number = (self._number + 1) % 2**32
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._stdin.write(struct.pack(">IBI", 5 + len(content), kind, number) + content)
        try:
            async with asyncio.timeout(self._limit_s):
                with suppress(ConnectionError):
                    await self._stdin.drain()
                return await future
        except TimeoutError as error:
            self._lose(f"no answer in {self._limit_s:g} s")
            raise _LostError(self._reason) from error
        finally:
            self._waiting.pop(number, None)

    async def _packet(self, begun: bytes = b"") -> Reply:
        size = begun + await self._stdout.readexactly(4 - len(begun))
        size_bytes = int.from_bytes(size, "big")
        if not 0 < size_bytes <= PACKET_BYTES_MAX:
            raise _LostError(f"a packet of {size_bytes} bytes")
        content = await self._stdout.readexactly(size_bytes)
        return content[0], _Fields(content, 1)

    def _lose(self, reason: str) -> None:
        self._reason = self._reason or reason
        self._stdin.close()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(_LostError(self._reason))


async def open_sftp(argv: Sequence[str], *, limit_s: float) -> SFTPClient:
    """Start ssh with an SFTP server; the caller runs `receive`. Raises LocalManagerError, and
    NoSFTPError where none answers."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError as error:
        raise LocalManagerError(f"{argv[0]} cannot be run: {error}") from error
    client = SFTPClient(process, limit_s)
    try:
        await client.begin()
    except LocalManagerError:
        await end(process)
        raise
    return client


def _check(
    kind: int, fields: _Fields, path: bytes, *, is_write: bool = False, is_end_well: bool = False
) -> None:
    """Check a status. The protocol has one word for all errors of writing: nearly always the disk
    or the quota is full."""
    if kind != _Kind.STATUS:
        raise _LostError(f"an answer of kind {kind}")
    code = fields.number()
    if code == _OK or (is_end_well and code == _END):
        return
    _raise(_ERRORS.get(code, errno.ENOSPC if is_write else errno.EIO), path)


def _raise(number: int, path: bytes) -> NoReturn:
    words = os.strerror(number)
    if number == errno.ENOSPC:
        words = "the host refused to write: its disk, or your quota there, is full"
    raise OSError(number, words, os.fsdecode(path))


def _first(group: ExceptionGroup[Exception]) -> Exception:
    """Return the first failure of several writes that ran at a time."""
    return group.exceptions[0]
