"""Logs of programs, read for the daemon during and after the run: `koala logs`.

A request names a claim, a stream and a process. Files are only opened inside the claim's work
folder: the program that writes there is not trusted, and a link in its place would disclose the
agent's own files. A read returns at most `CHUNK_MAX_BYTES`; the next request continues at the next
offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from koala.common.files.confined_folder import Descriptor, Folder, UnusableFileError, is_passing
from koala.common.protocol.messages import LogChunk, LogRequest
from koala.errors import SpecError

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
    for name in _names(request, source):
        try:
            log = Folder(source.folder, is_followed=False).open(name)
        except (SpecError, UnusableFileError) as error:
            if is_passing(error):
                return _error(request, f"{request.stream} of {request.claim}: {error}")
            continue
        try:
            return _read(log, request, is_ended=source.is_ended)
        except OSError as error:
            why = error.strerror or error
            return _error(request, f"{request.stream} of {request.claim}: {why}")
        finally:
            log.close()
    if source.is_ended:
        why = f"process {request.process} of {request.claim} wrote no {request.stream}"
        return _error(request, why)
    return LogChunk(request=request.request, offset=request.offset)


def _read(log: Descriptor, request: LogRequest, *, is_ended: bool) -> LogChunk:
    size_max = min(request.size_max or CHUNK_MAX_BYTES, CHUNK_MAX_BYTES)
    data = log.read(size_max, request.offset)
    is_all = request.offset + len(data) >= log.stamp().size_bytes
    return LogChunk(
        request=request.request,
        offset=request.offset,
        data=data,
        is_over=is_ended and is_all,
    )


def _error(request: LogRequest, error: str) -> LogChunk:
    return LogChunk(request=request.request, offset=request.offset, is_over=True, error=error)


def _names(request: LogRequest, source: LogSource) -> Iterator[str]:
    """Yield the names that the log may have in the folder."""
    if request.stream == "starter":
        yield source.starter_log
        return
    yield f"{request.stream}.{request.process}"
    for stream, name in source.named:
        if stream == request.stream:
            below = name.removeprefix(f"{source.folder}/")
            yield f"{below}.{request.process}"
            yield below
