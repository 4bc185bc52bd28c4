"""Encoding of the journal's rows and their hash chain, without the file.

A row has an event as JSON, the policies' answers while it was handled, and a chain value over the
row and all rows before it. A *position* names a committed row by number and chain value. Its holder
can tell the original journal from one that lost or replaced rows. Nothing here reads or writes
files; untrusted data raises JournalError.
"""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from koala.common.runtime.sqlite_store import reading
from koala.core.model.events import EVENTS, KINDS, Event, JobSubmitted, ParametersChanged
from koala.core.model.job_spec import JobSpec
from koala.core.model.values import Instant
from koala.core.purge import PurgedJob
from koala.core.snapshot import UnreadableSnapshotError
from koala.daemon.storage.spec_codec import SUBMITTED_ROW, SpecReader, row_of_submission
from koala.errors import ConfigError, DamagedError, JournalError

_CHAIN_BYTES = 16

Row: TypeAlias = tuple[int, float, str, str, str, bytes]
"""seq, at, kind, body, answers, chain: as stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One event of the journal, its time, and the policies' answers while it was handled."""

    seq: int
    at: Instant
    event: Event
    answers: list[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A fact for people. `number` grows by one with each notice, also across restarts."""

    number: int
    at: Instant
    job: str = ""
    site: str = ""
    phase: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The whole state as plain data and the descriptions beside it, with its digest.

    `jobs` counts all job ids given so far; `settings` are those in force, as the JSON of their
    event.
    """

    plain: Any
    specs: Sequence[JobSpec] = ()
    jobs: int
    settings: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Contents of one transaction.

    `digest` and `snapshot` are of the state after its last event, without the jobs of `purged`.
    """

    records: Sequence[Record]
    notices: Sequence[Notice] = ()
    digest: str | None = None
    purged: Sequence[PurgedJob] = ()
    snapshot: Snapshot | None = None


@dataclass(frozen=True, slots=True)
class JournalPosition:
    """A committed row: its number, and the chain value after it. Number 0 is before all rows."""

    seq: int = 0
    chain: bytes = b""


RESTORE = "Put a backup back (koala restore BACKUP STATE_DIR)"
"""Advice for a journal that no start can use, whatever loss is accepted."""
ADVICE = f"{RESTORE}, or go on without what is lost (koala daemon CONFIG --accept-loss)"


def damaged_error(source: Path | str, what: str) -> DamagedError:
    """Create the error of a file without its end, or with events that can be dropped."""
    return DamagedError(f"{source}: damaged: {what}", ADVICE)


def unusable_error(source: Path | str, what: str) -> DamagedError:
    """Create the error of a database that has to be replaced."""
    return DamagedError(f"{source}: damaged: {what}", RESTORE)


def trusted(path: Path, what: str) -> AbstractContextManager[None]:
    """Turn errors of reads that no loss of events explains into a JournalError."""
    return reading(path, what, RESTORE, *UNREADABLE, UnreadableSnapshotError, zlib.error)


# --- events as text -------------------------------------------------------------------------------

UNREADABLE = (msgspec.DecodeError, RecursionError)
"""Errors of a decoder, for invalid and for too deeply nested input."""
_ENCODER = msgspec.json.Encoder()
_DECODERS: dict[str, Callable[[str], Any]] = {
    **{name: msgspec.json.Decoder(cls).decode for name, cls in EVENTS.items()},
    KINDS[JobSubmitted]: msgspec.json.Decoder(SUBMITTED_ROW).decode,
}
_ANSWERS = msgspec.json.Decoder(list[Any])
_SUBMITTED = KINDS[JobSubmitted]
_INFINITY = "inf"  # not in JSON; only parameters may be infinite


def encode_event(event: Event) -> str:
    """Encode the event as JSON."""
    if isinstance(event, JobSubmitted):
        return _ENCODER.encode(row_of_submission(event)).decode()
    if isinstance(event, ParametersChanged):
        plain: dict[str, Any] = msgspec.to_builtins(event)
        parameters = plain["parameters"]
        for name, value in parameters.items():
            if value == math.inf:
                parameters[name] = _INFINITY
        return _ENCODER.encode(plain).decode()
    return _ENCODER.encode(event).decode()


def decode_event(kind: str, body: str, specs: SpecReader | None = None) -> Event:
    """Decode the event of a row; alike descriptions in sequence are shared by `specs`.

    Raises JournalError.
    """
    decode = _DECODERS.get(kind)
    if decode is None:
        raise JournalError(
            f"unknown kind of event {kind!r} (expected one of {', '.join(_DECODERS)})"
        )
    try:
        if kind != KINDS[ParametersChanged]:
            decoded = decode(body)
            if kind == _SUBMITTED:
                return (specs or SpecReader()).submission(decoded)
            event: Event = decoded
            return event
        plain = msgspec.json.decode(body, type=dict[str, Any])
        for name, value in plain["parameters"].items():
            if value == _INFINITY:
                plain["parameters"][name] = math.inf
        return msgspec.convert(plain, ParametersChanged)
    except (*UNREADABLE, ConfigError, KeyError, AttributeError) as error:
        raise JournalError(f"a {kind} that cannot be read: {error}") from error


# --- the chain ------------------------------------------------------------------------------------


def rows_of(
    records: Iterable[Record], position: JournalPosition
) -> tuple[list[Row], JournalPosition]:
    """Encode the records that follow a position; return their rows and the new position."""
    rows: list[Row] = []
    seq, chain = position.seq, position.chain
    for record in records:
        seq += 1
        assert record.seq == seq, f"event {record.seq} after {seq - 1}"
        answers = _ENCODER.encode(record.answers).decode() if record.answers else ""
        kind = KINDS[type(record.event)]
        body = encode_event(record.event)
        chain = _chained(chain, seq, record.at, kind, body, answers)
        rows.append((seq, record.at, kind, body, answers, chain))
    return rows, JournalPosition(seq, chain)


def read_rows(
    rows: Iterable[Row], position: JournalPosition, *, source: str
) -> Iterator[tuple[Record, JournalPosition]]:
    """Decode and verify the rows that follow a position; yield each record with its position.

    `source` names their file in errors. Raises JournalError.
    """
    specs = SpecReader()
    seq, chain = position.seq, position.chain
    for stored_seq, at, kind, body, answers, stored in rows:
        seq += 1
        if stored_seq != seq:
            raise damaged_error(source, f"event {seq} is missing")
        try:
            chain = _chained(chain, seq, at, kind, body, answers)
        except (UnicodeError, AttributeError, TypeError) as error:
            raise damaged_error(source, f"event {seq} cannot be read") from error
        if chain != stored:
            raise damaged_error(source, f"event {seq} does not match its checksum")
        try:
            event = decode_event(kind, body, specs)
            recorded = _ANSWERS.decode(answers) if answers else []
        except UNREADABLE as error:
            raise JournalError(f"{source}: event {seq} cannot be read: {error}") from error
        yield Record(seq=seq, at=at, event=event, answers=recorded), JournalPosition(seq, chain)


def broken_rows(rows: Iterable[Row], position: JournalPosition) -> Iterator[tuple[int, str]]:
    """Yield number and problem of each damaged row after a position.

    Each row is checked against the stored chain value of its predecessor.
    """
    seq, chain = position.seq, position.chain
    for stored_seq, at, kind, body, answers, stored in rows:
        if stored_seq != seq + 1:
            yield stored_seq, f"event {seq + 1} is missing"
        elif _chained(chain, stored_seq, at, kind, body, answers) != stored:
            yield stored_seq, f"event {stored_seq} does not match its checksum"
        seq, chain = stored_seq, stored


def _chained(before: bytes, seq: int, at: float, kind: str, body: str, answers: str) -> bytes:
    text = f"{seq}\x1f{at!r}\x1f{kind}\x1f{body}\x1f{answers}"
    link = before + text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(link, digest_size=_CHAIN_BYTES).digest()


# --- the position as text -------------------------------------------------------------------------


def position_text(position: JournalPosition) -> bytes:
    """Encode a position as a line of fixed length."""
    return f"koala-mark {position.seq:020d} {position.chain.hex():0>32}\n".encode()


def read_position(text: bytes, *, source: str) -> JournalPosition | None:
    """Decode a position; None for an empty text. Raises JournalError."""
    if not text:
        return None
    words = text.decode("ascii", "replace").split()
    try:
        name, seq, chain = words
        if name != "koala-mark":
            raise ValueError(name)
        return JournalPosition(int(seq), bytes.fromhex(chain))
    except ValueError as error:
        raise damaged_error(source, f"{text[:80]!r}") from error
