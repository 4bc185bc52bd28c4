"""Logs of programs, read for the daemon during and after the run: `koala logs`.

A request names a claim, a stream and a process. Files are only opened inside the claim's work
folder, component by component and without following links. The program that writes there is not
trusted: a link in its place would disclose the agent's own files. A read returns at most
`CHUNK_MAX_BYTES`; the next request continues at the next offset.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from koala.common.protocol.messages import LogChunk, LogRequest

CHUNK_MAX_BYTES = 256 * 1024

STREAMS = ("stdout", "stderr", "starter")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSource:
    """Files of a claim's output. `named` are the files that the job gave for a stream, tried after
    `stdout.N`; `is_ended` when no process is left to write."""

    folder: Path
    starter_log: str
    named: tuple[tuple[str, str], ...] = ()
    is_ended: bool = False


def read_log(request: LogRequest, source: LogSource) -> LogChunk:
    """Read once; errors are part of the answer, for the person who asked."""
    if request.stream not in STREAMS:
        allowed = ", ".join(STREAMS)
        return _error(request, f"no stream {request.stream[:40]!r} (expected one of {allowed})")
    size_max = min(request.size_max or CHUNK_MAX_BYTES, CHUNK_MAX_BYTES)
    try:
        for name in _names(request, source):
            with _opened(source.folder, name) as descriptor:
                if descriptor is not None:
                    data = os.pread(descriptor, size_max, request.offset)
                    size_bytes = os.fstat(descriptor).st_size
                    is_all = request.offset + len(data) >= size_bytes
                    return LogChunk(
                        request=request.request,
                        offset=request.offset,
                        data=data,
                        is_over=source.is_ended and is_all,
                    )
    except OSError as error:
        return _error(request, f"{request.stream} of {request.claim}: {error.strerror or error}")
    if source.is_ended:
        why = f"process {request.process} of {request.claim} wrote no {request.stream}"
        return _error(request, why)
    return LogChunk(request=request.request, offset=request.offset)


def _error(request: LogRequest, error: str) -> LogChunk:
    return LogChunk(request=request.request, offset=request.offset, is_over=True, error=error)


def _names(request: LogRequest, source: LogSource) -> Iterator[str]:
    if request.stream == "starter":
        yield source.starter_log
        return
    yield f"{request.stream}.{request.process}"
    for stream, name in source.named:
        if stream == request.stream and name:
            yield f"{name}.{request.process}"
            yield name


@contextmanager
def _opened(folder: Path, name: str) -> Iterator[int | None]:
    """Open a regular file below the folder; None when there is none. Raises OSError."""
    descriptor = _open(folder, PurePosixPath(name))
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _open(folder: Path, name: PurePosixPath) -> int | None:
    if name.is_absolute():
        if not name.is_relative_to(folder):
            return None
        name = name.relative_to(folder)
    parts = name.parts
    if not parts or ".." in parts:
        return None
    try:
        folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        for part in parts[:-1]:
            folder_fd = _step(folder_fd, part, os.O_DIRECTORY)
        # O_NONBLOCK: opening a FIFO would wait for its writer.
        opened = _step(folder_fd, parts[-1], os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        return None
    return opened


def _step(folder_fd: int, part: str, flags: int) -> int:
    """Open `part` in the folder `folder_fd`, which is closed; a symbolic link is an error."""
    try:
        wanted = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags
        return os.open(part, wanted, dir_fd=folder_fd)
    finally:
        os.close(folder_fd)
