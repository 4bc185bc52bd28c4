"""Logs of jobs as lines of fields, in any format: read a block at a time, strictly.

A format is a value (`swf.FORMAT`, `gwf.FORMAT`): its fields, the number of numeric ones, its
comment prefix, and an optional fast reader for blocks that hold nothing unusual.
"""

from __future__ import annotations

import gzip
import re
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from math import isfinite
from pathlib import Path
from typing import IO, NamedTuple, NoReturn, Protocol

from koala.errors import WorkloadError

BLOCK_BYTES = 1 << 18
LINE_BYTES_MAX = 1 << 20
"""Limit on a line, its end included: a file may be one line without an end."""
_TOO_LONG = f"is too long (expected at most {LINE_BYTES_MAX} bytes)"
GZIP = b"\x1f\x8b"
"""First bytes of a file that gzip has written."""
HEADER_BYTES_MAX = 1 << 20
"""Limit on the comments that are read before the first job; the rest is skipped."""
SHOWN_MAX = 60
"""Characters of a wrong value that an error message shows."""
GRID_FIELDS = 29
"""Fields of a job in the Grid Workload Format."""
NUMBER_AT, SUBMIT_AT, RUN_AT, ALLOCATED_AT, REQUESTED_AT, ESTIMATE_AT = 0, 1, 3, 4, 7, 8
"""Indices of the fields that a local queue needs; both formats share them."""
USER_AT, QUEUE_AT = 11, 14
WHOLE_AT = (NUMBER_AT, ALLOCATED_AT, REQUESTED_AT)
SECONDS_AT = (SUBMIT_AT, RUN_AT, ESTIMATE_AT)

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LONE_RETURN = re.compile(rb"\r(?!\n)")
WHOLE = re.compile(r"[+-]?[0-9]{1,300}")  # longer ones are no finite number


class Columns(NamedTuple):
    """Fields of consecutive jobs in a log; fractions of a second are cut."""

    numbers: list[int]
    submits: list[int]
    runs: list[int]
    allocated: list[int]
    requested: list[int]
    estimates: list[int]
    cut: int
    """Number of jobs that lost a fraction of a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """Format of a log."""

    name: str
    fields: tuple[str, ...]
    comment: str
    numbers: int
    """Number of leading fields that are numbers; the others are words."""
    quickly: Callable[[bytes], Columns | None] | None = None
    """Reads a block at once; None if something in it needs the careful reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The comments before the first job, those of the form `Key: value` by their keys."""

    entries: dict[str, str] = field(default_factory=dict)

    def whole(self, key: str) -> int | None:
        """Return the leading whole number of a value, if it is at least 1: logs write "32 (dual
        CPU)", and -1 for unknown. A number that goes on, such as 1e9 and 2.5, is none."""
        found = re.match(r"[0-9]{1,300}(?!\w|\.\d)", self.entries.get(key, ""))
        return int(found[0]) or None if found else None


class Log:
    """A file of jobs, gzipped or not. It may be read repeatedly."""

    def __init__(self, path: Path, form: Format) -> None:
        self.path = path
        self.format = form
        self.position = 0
        """Bytes of the file that have been read, for progress reports."""

    def header(self) -> Header:
        """Read the comments before the first job."""
        entries: dict[str, str] = {}
        for _, block in self._blocks():
            for line in block.decode("utf-8", "replace").splitlines():
                text = line.strip()
                if text and not text.startswith(self.format.comment):
                    break
                if found := re.match(rf"{self.format.comment}\s*(\w+):\s*(.*)", text):
                    entries.setdefault(found[1], found[2])
            break  # they are a block of their own
        return Header(entries=entries)

    def columns(self) -> Iterator[Columns]:
        """Yield the jobs in the order of the log, a block at a time. Raises WorkloadError at a line
        that is neither a job nor a comment, with its number and the error."""
        quickly = self.format.quickly
        for line, block in self._blocks():
            found = quickly(block) if quickly is not None else None
            yield found if found is not None else self._carefully(line, block)

    def lines(self) -> Iterator[list[str]]:
        """Yield all fields of all jobs, numeric ones as numbers."""
        for line, block in self._blocks():
            for _, fields in self._jobs(line, block):
                yield fields

    def owners(self) -> dict[int, tuple[str, int]]:
        """Read user and queue number of each job, by its number; 0 where the queue is no number."""
        found = {}
        for fields in self.lines():
            queue = fields[QUEUE_AT]
            priority = int(queue) if WHOLE.fullmatch(queue) else 0
            found[int(fields[NUMBER_AT])] = (fields[USER_AT], priority)
        return found

    # How --------------------------------------------------------------------------------------

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield whole lines, as many as fill a block, with the number of the first."""
        line = 1
        try:
            with self.path.open("rb") as raw:
                for block in _blocks(_opened(raw), self.format.comment.encode()):
                    if raw.seekable():
                        self.position = raw.tell()
                    yield line, block
                    line += block.count(b"\n")
        except _TooLongError as error:
            self._refuse(line + error.before, _TOO_LONG)
        except (OSError, EOFError, zlib.error) as error:
            raise WorkloadError(f"{self.path}: cannot be read: {error}") from error

    def _carefully(self, line: int, block: bytes) -> Columns:
        """Read line by line."""
        read = Columns([], [], [], [], [], [], 0)
        whole_columns = (read.numbers, read.allocated, read.requested)
        second_columns = (read.submits, read.runs, read.estimates)
        cut = 0
        for number, fields in self._jobs(line, block):
            for column, at in zip(whole_columns, WHOLE_AT, strict=True):
                if not WHOLE.fullmatch(fields[at]):
                    self._refuse_field(number, fields, at, "a whole number")
                column.append(int(fields[at]))
            seconds = [float(fields[at]) for at in SECONDS_AT]
            for other, second in zip(second_columns, seconds, strict=True):
                other.append(int(second))
            cut += not all(map(float.is_integer, seconds))
        return read._replace(cut=cut)

    def _jobs(self, line: int, block: bytes) -> Iterator[tuple[int, list[str]]]:
        """Yield the fields of each job with the number of its line."""
        form = self.format
        text = block.decode("utf-8", "replace")
        for number, written in enumerate(text.split("\n")[:-1], start=line):
            fields = written.split()
            if not fields or fields[0].startswith(form.comment):
                continue
            if len(fields) != len(form.fields):
                told = f"{len(fields)} fields; a job has {len(form.fields)}"
                self._refuse(number, f"{told}{_hint(form, written, len(fields))}")
            for at in range(form.numbers):
                if not (NUMBER.fullmatch(fields[at]) and isfinite(float(fields[at]))):
                    self._refuse_field(number, fields, at, "a number")
            yield number, fields

    def _refuse_field(self, line: int, fields: list[str], at: int, allowed: str) -> NoReturn:
        name, value = self.format.fields[at], fields[at]
        value = value if len(value) <= SHOWN_MAX else f"{value[:SHOWN_MAX]}..."
        self._refuse(line, f"field {at + 1} ({name}) is {value!r} (expected {allowed})")

    def _refuse(self, line: int, text: str) -> NoReturn:
        raise WorkloadError(f"{self.path}, line {line}: {text}")


def _hint(form: Format, line: str, fields: int) -> str:
    """Say what a line probably is that is no job."""
    if "," in line:
        return ", with blanks between them"
    if form.name == "swf" and (line.lstrip().startswith("#") or fields == GRID_FIELDS):
        return "; --format gwf reads the Grid Workload Format"
    return ""


def copy(source: IO[bytes], target: IO[bytes], *, name: str) -> None:
    """Copy a log that can be read only once, into a file. Raises WorkloadError at a line that is
    too long, because other input may have no end, and OSError."""
    line, size = 1, 0
    is_packed = None
    while block := source.read(BLOCK_BYTES):
        if is_packed is None:
            is_packed = block.startswith(GZIP)
        end = max(block.rfind(b"\n"), block.rfind(b"\r")) + 1
        size = len(block) - end if end else size + len(block)
        line += _ended(block[:end]).count(b"\n") if end else 0
        if size > LINE_BYTES_MAX and not is_packed:
            raise WorkloadError(f"{name}, line {line}: {_TOO_LONG}")
        target.write(block)


class Lines(Protocol):
    """A file of lines."""

    def read(self, size: int, /) -> bytes:
        """Read at most so many bytes."""

    def readline(self, size: int, /) -> bytes:
        """Read a line with its end, or so much of it; at the end of the file the rest."""


def _opened(raw: BufferedReader) -> Lines:
    """Open the file, gzip by its first bytes; its first lines decide the line ends."""
    file = gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == GZIP else raw
    begin = file.peek(BLOCK_BYTES)
    return _ReturnedLines(file) if b"\r" in begin and b"\n" not in begin else file


class _ReturnedLines:
    """A file with carriage returns as line ends, read as if they were line feeds."""

    def __init__(self, file: Lines) -> None:
        self._file = file
        self._ahead = b""

    def read(self, size: int, /) -> bytes:
        """See Lines."""
        found, self._ahead = self._ahead, b""
        return (found + self._file.read(size)).replace(b"\r", b"\n")

    def readline(self, size: int, /) -> bytes:
        """See Lines."""
        while b"\r" not in self._ahead and len(self._ahead) < size:
            more = self._file.read(BLOCK_BYTES)
            if not more:
                break
            self._ahead += more
        end = self._ahead.find(b"\r", 0, size)
        end = min(size, len(self._ahead)) if end < 0 else end + 1
        line, self._ahead = self._ahead[:end], self._ahead[end:]
        return line.replace(b"\r", b"\n")


def _ended(block: bytes) -> bytes:
    """Normalise the line ends of a block, also those that are a carriage return alone."""
    if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
        block = _LONE_RETURN.sub(b"\n", block)
    return block if block.endswith(b"\n") else block + b"\n"


class _TooLongError(Exception):
    """A line is too long; `before` it are so many that were not yielded yet."""

    def __init__(self, before: int) -> None:
        super().__init__(before)
        self.before = before


def _blocks(file: Lines, comment: bytes) -> Iterator[bytes]:
    """Yield whole lines; the comments at the beginning are a block of their own, so that they do
    not slow down the first jobs. A byte order mark is skipped. Raises _TooLongError."""
    comments: list[bytes] = []
    size = 0
    first = _with_end(file, b"").removeprefix(BOM_UTF8)
    while first and (not first.strip() or first.lstrip().startswith(comment)):
        comments.append(_ended(first))
        size += len(first)
        if size > HEADER_BYTES_MAX:
            first = b""
            break
        first = _with_end(file, b"", before=len(comments))
    if comments:
        yield b"".join(comments)
    while block := first + file.read(BLOCK_BYTES):
        first = b""
        yield _ended(_with_end(file, block))


def _with_end(file: Lines, block: bytes, *, before: int = 0) -> bytes:
    """Return the block with the rest of its last line, or with the next one if it has that; after
    `before` other lines. Raises _TooLongError."""
    block += file.readline(LINE_BYTES_MAX + 1)
    begin = block.rfind(b"\n", 0, -1) + 1
    if len(block) - begin > LINE_BYTES_MAX:
        raise _TooLongError(before + _ended(block[:begin]).count(b"\n") if begin else before)
    return block
