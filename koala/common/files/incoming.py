"""Spool folder of incoming copies: parts that survive a restart, and finished files.

    incoming/<name>.part     bytes so far
    incoming/<name>.json     the order they belong to; when finished, how long it took
    incoming/<name>          the finished copy

`<name>` is the transfer's id, escaped, without dots. Calls block; drivers make them in threads.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from koala.common.files.confined_folder import Descriptor
from koala.common.files.names import escape
from koala.common.files.parts import open_part
from koala.common.identity.private_files import sync
from koala.common.protocol.messages import FetchOrder
from koala.common.runtime.disk_formats import COPIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """Bytes of a copy that an earlier life of the agent left, and the time they took.

    With `took_s` the copy is finished.
    """

    have_bytes: int
    spent_s: float = 0.0
    took_s: float | None = None


class Incoming:
    """The spool folder; created when missing, for this user alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._make()

    def _make(self) -> None:
        """Create the folder. Repeated for each order, since somebody may have removed it."""
        # parents=True alone would ask the mask for their mode
        for made in (self._folder.parent, self._folder):
            made.mkdir(mode=0o700, parents=True, exist_ok=True)

    def path(self, transfer: str) -> Path:
        """Return the path of the finished copy."""
        return self._folder / _name(transfer)

    def part(self, transfer: str) -> Path:
        """Return the path of the bytes so far."""
        return self._folder / f"{_name(transfer)}.part"

    def remains(self, order: FetchOrder) -> Remains:
        """Return the remains of this order, and delete those of another one.

        Writes the record of the order, so that the next life knows it.
        """
        self._make()
        record = self._record(order.transfer)
        known = _read_record(record)
        if known.get("part") != _identity(order):
            self.remove(order.transfer)
            _write_record(record, {"part": _identity(order)})
            return Remains(have_bytes=0)
        took_s = known.get("took_s")
        if isinstance(took_s, int | float) and self.path(order.transfer).is_file():
            return Remains(have_bytes=order.size_bytes, took_s=float(took_s))
        try:
            part = self.part(order.transfer).stat()
        except FileNotFoundError:
            return Remains(have_bytes=0)
        # Both instants are of the file system's clock, so that the difference is a duration.
        spent_s = max(0.0, part.st_mtime - record.stat().st_mtime)
        return Remains(have_bytes=part.st_size, spent_s=spent_s)

    def open(self, transfer: str, size_bytes: int) -> Descriptor:
        """Open the part for writing after its first bytes; what is behind them is deleted."""
        part, found_bytes = open_part(self.part(transfer))
        if found_bytes > size_bytes:
            part.truncate(size_bytes)
        return part

    def keep(self, order: FetchOrder, took_s: float) -> None:
        """Rename the part, whose bytes are durable and checked, to the finished copy."""
        _write_record(self._record(order.transfer), {"part": _identity(order), "took_s": took_s})
        self.part(order.transfer).rename(self.path(order.transfer))
        sync(self._folder)

    def remove(self, transfer: str) -> None:
        """Delete all files of a transfer; none is no error."""
        record = self._record(transfer)
        for path in (self.part(transfer), self.path(transfer), record, _fresh(record)):
            with suppress(FileNotFoundError):
                path.unlink()

    def discard_part(self, transfer: str) -> None:
        """Delete the bytes so far; the record of the order stays."""
        with suppress(FileNotFoundError):
            self.part(transfer).unlink()

    def retain(self, transfers: frozenset[str]) -> None:
        """Delete the files of all transfers but these."""
        self._make()
        kept = {_name(transfer) for transfer in transfers}
        for path in sorted(self._folder.iterdir()):
            if path.name.removesuffix(".part").removesuffix(".json") not in kept:
                with suppress(FileNotFoundError):
                    path.unlink()

    def _record(self, transfer: str) -> Path:
        return self._folder / f"{_name(transfer)}.json"


def _name(transfer: str) -> str:
    return escape(transfer).replace(".", "%2E")


def _identity(order: FetchOrder) -> list[str | int]:
    """Return the fields that two orders must share to reuse bytes: all but the source."""
    return [order.transfer, order.file, order.offset, order.size_bytes, order.checksum]


def _read_record(path: Path) -> dict[str, object]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # half written in a crash: as if missing
        return {}
    if not isinstance(record, dict) or record.get("format") != COPIES.number:
        return {}  # the copy starts again
    return record


def _write_record(path: Path, record: dict[str, object]) -> None:
    fresh = _fresh(path)
    fresh.write_text(json.dumps({"format": COPIES.number, **record}), encoding="utf-8")
    fresh.rename(path)


def _fresh(record: Path) -> Path:
    """Return the path of the record while it is written; a crash or a full disk may leave it."""
    return record.with_suffix(".json.part")
