"""File sync server: the agent's end of file transfers from and to machines without a shared folder.

The file sync of each starter, and of each of its helpers, sends requests: the size of a file here
(`size`), more of its content (`put`), a check that it is complete (`done`), and the input files
(`get`, `sum`). Received content is written into the claim's folder, from which logs are read and
outputs collected as usual. Limits:

- Only names that the claim's own job gave are written.
- Nothing is written outside the claim's folder, or in our own subfolder, which holds partial
  outputs.
- Nothing is written where the agent's records need the space: the client is told to come `again`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import errno
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from koala.common.files.confined_folder import Descriptor, Folder, UnusableFileError, is_passing
from koala.common.files.parts import PartReader
from koala.common.protocol.messages import Hold, Program
from koala.common.protocol.names import ClaimId
from koala.common.runtime.threads import in_thread
from koala.errors import LocalManagerError
from koala_agent.claims.states import BOUND, Claim, Stopping
from koala_agent.lrm.local_manager import OUTPUT_FILE
from koala_agent.placeholders.result_files import is_matched, log_paths, output_paths
from koala_agent.starter.program import STATE_FOLDER

BLOCK_BYTES = 128 * 1024
PUT_MAX_BYTES = 256 * 1024
SPEC_BYTES_MAX = 16 * 2**20
"""Size of a specification: the names of its staged files are most of it."""
STAGED_KEPT = 8
"""Claims whose names are kept: a starter asks for its staged files one after the other."""

Message = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSyncServer:
    """Server for file syncs. `claim` finds a claim as it is stored, `folder` its folder, and
    `input_named` a file that its program reads; `room_bytes` is the disk space that files may
    use."""

    claim: Callable[[ClaimId], Claim | None]
    folder: Callable[[ClaimId], Path]
    input_named: Callable[[Hold, str], str] = lambda _hold, _name: ""
    room_bytes: Callable[[], float] = lambda: math.inf
    _staged: dict[ClaimId, frozenset[str]] = field(default_factory=dict, init=False)

    def is_bound(self, claim: ClaimId, nonce: str) -> bool:
        """Check that the claim is bound to this starter and not over."""
        known = self.claim(claim)
        if known is None or not isinstance(known.state, (*BOUND, Stopping)):
            return False
        return known.state.nonce == nonce

    async def answer(self, claim: ClaimId, nonce: str, request: Message) -> Message:
        """Answer one request. Raises ValueError for an invalid one."""
        known = self.claim(claim)
        if known is None or not self.is_bound(claim, nonce):
            return _failure("this claim is over, or has another starter")
        try:
            match request.get("kind"):
                case "get":
                    return await asyncio.to_thread(self._input, known, request)
                case "sum":
                    return await self._sum_input(known, request)
                case "size" | "put":
                    return await asyncio.to_thread(self._file, known, request)
                case "done":
                    return await self._complete(known, request)
                case kind:
                    raise ValueError(f"a question of kind {str(kind)[:40]!r}")
        except _NotOursError as error:
            return _failure(str(error))
        except FileNotFoundError:
            return {"ok": False, "wait": True}  # a copy that is still on its way to the site
        except OSError as error:
            return {**_failure(error.strerror or str(error)), "again": is_passing(error)}

    def _input(self, claim: Claim, request: Message) -> Message:
        with Path(self._input_path(claim, request)).open("rb") as file:
            file.seek(_whole(request, "offset"))
            return {"ok": True, "data": base64.b64encode(file.read(BLOCK_BYTES)).decode()}

    async def _sum_input(self, claim: Claim, request: Message) -> Message:
        opened = await in_thread(self._open_input, claim, request)
        return {"ok": True, "checksum": await _checksum(opened)}

    def _open_input(self, claim: Claim, request: Message) -> int:
        return os.open(self._input_path(claim, request), os.O_RDONLY | os.O_CLOEXEC)

    def _input_path(self, claim: Claim, request: Message) -> str:
        try:
            if "staged" in request:
                name = str(request["name"])
                if name not in self.staged(claim):
                    raise _NotOursError(f"{name[:200]!r} is not a staged file of this job")
                return str(self.folder(claim.id) / name)
            return self.input_named(claim.hold, str(request["name"]))
        except LocalManagerError as error:
            raise _NotOursError(str(error)) from error

    def staged(self, claim: Claim) -> frozenset[str]:
        """Return the names of the files that were staged with a claim's program."""
        kept = self._staged.get(claim.id)
        if kept is not None:
            return kept
        spec = Folder(self.folder(claim.id)).open(f"{STATE_FOLDER}/spec.json")
        try:
            listed = json.loads(spec.read(SPEC_BYTES_MAX, 0)).get("staged", ())
        finally:
            spec.close()
        names = frozenset(str(name) for name, _mode in listed)
        self._staged[claim.id] = names
        while len(self._staged) > STAGED_KEPT:
            self._staged.pop(next(iter(self._staged)), None)  # another thread may do the same
        return names

    def _file(self, claim: Claim, request: Message) -> Message:
        path, _whole_path = self._paths(claim, request)
        if request["kind"] == "size":
            return {"ok": True, "size": path.stat().st_size if path.exists() else 0}
        if self.room_bytes() < PUT_MAX_BYTES:
            raise OSError(errno.ENOSPC, "the agent's disk is nearly full")
        return {"ok": True, "size": _append(path, request)}

    async def _complete(self, claim: Claim, request: Message) -> Message:
        """Verify that a file is complete and durable, and move it to its final path."""
        path, whole = self._paths(claim, request)
        checksum = await _checksum(await in_thread(_open_or_make, path))
        if checksum != request.get("checksum"):
            return _failure(f"{whole.name} has another checksum here")
        await in_thread(_rename, path, whole)
        return {"ok": True}

    def _paths(self, claim: Claim, request: Message) -> tuple[Path, Path]:
        """Return the path of a named file during its transfer, and the final one."""
        name = str(request.get("name"))
        logs, outputs = _names(claim.hold.program)
        if name not in logs | outputs and not is_matched(claim.hold.program, name):
            raise _NotOursError(f"{name[:200]!r} is not a file of this job")
        folder = self.folder(claim.id)
        half = f"{hashlib.sha256(name.encode()).hexdigest()}.part"  # no output can have this name
        return folder / (name if name in logs else f"{STATE_FOLDER}/{half}"), folder / name


class _NotOursError(Exception):
    """The requested file does not belong to the claim; the message says why."""


def _names(program: Program) -> tuple[frozenset[str], frozenset[str]]:
    """Return the logs and outputs that a job may write, as paths in its folder."""
    logs = [OUTPUT_FILE, *log_paths(program).values()]
    return _inside(logs), _inside(output_paths(program).values())


def _inside(names: Iterable[str]) -> frozenset[str]:
    paths = map(PurePosixPath, names)
    return frozenset(str(path) for path in paths if _is_inside(path))


def _is_inside(path: PurePosixPath) -> bool:
    is_ours = path.parts[:1] == (STATE_FOLDER,)
    return not path.is_absolute() and ".." not in path.parts and not is_ours


def _append(path: Path, request: Message) -> int:
    """Append new content; return the size of the file afterwards."""
    offset, data = _whole(request, "offset"), request.get("data")
    if not isinstance(data, str) or len(data) > PUT_MAX_BYTES:
        raise ValueError(f"bad data (expected a string of at most {PUT_MAX_BYTES} characters)")
    try:
        block = base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise ValueError(f"data: {error}") from error
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if offset in (0, size):  # offset 0 overwrites a wrong beginning
            os.ftruncate(descriptor, offset)
            os.pwrite(descriptor, block, offset)
            return offset + len(block)
        return size
    finally:
        os.close(descriptor)


def _open_or_make(path: Path) -> int:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _rename(path: Path, whole: Path) -> None:
    whole.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.replace(whole)


async def _checksum(number: int) -> str:
    """Sync an open file to disk, return its checksum, and close it. Works in steps, because a huge
    file must not occupy all threads."""
    descriptor = Descriptor(number)
    try:
        reader = await in_thread(PartReader, descriptor, "", may_grow=True)
        checksum = await reader.whole_checksum()
        await in_thread(descriptor.sync)
        return checksum
    except UnusableFileError:  # it became shorter
        return ""
    finally:
        descriptor.close()


def _whole(request: Message, key: str) -> int:
    value = request.get(key)
    if type(value) is not int or not 0 <= value < 2**53:
        raise ValueError(f"{key} = {str(value)[:40]} (expected a whole number)")
    return value


def _failure(error: str) -> Message:
    return {"ok": False, "error": error}
