"""Store of finished runs: a folder of JSON lines, by the digest of the code that made them.

Each process appends to a file of its own, so any number of campaigns can share a store, also on a
network file system. Stores of several machines are merged by copying their files together. A line
that is damaged or cut off counts as missing, and its run is made again.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from koala.common.runtime.clock import unix_now
from koala.errors import ConfigError, KoalaError
from koala.lab.sim.campaign.records import FinishedRun, as_plain, from_plain

KEPT_S = 90 * 86_400.0
"""Time after its last change for which results of another version are kept in the user's cache."""
_HEAD = b'{"key": "'
_KEY_CHARACTERS = 64


class Store:
    """Results of one version of the code, in a folder of the store. Raises ConfigError if it cannot
    be used."""

    def __init__(self, folder: Path, code: str) -> None:
        self.folder = folder / code[:32]
        self._places: dict[str, tuple[Path, int]] = {}
        self._file: IO[bytes] | None = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for path in sorted(self.folder.glob("*.jsonl")):
                self._places.update((key, (path, at)) for key, at in _index(path))
        except OSError as error:
            raise ConfigError(f"--store {folder}: cannot be used: {error.strerror}") from error

    def __len__(self) -> int:
        return len(self._places)

    def get(self, key: str) -> FinishedRun | None:
        """Return a stored run; None if it is missing or damaged."""
        place = self._places.get(key)
        if place is None:
            return None
        path, at = place
        try:
            with path.open("rb") as file:
                file.seek(at)
                return _read(file.readline(), key)
        except OSError:  # another process has cleared the store
            return None

    def put(self, key: str, made: FinishedRun) -> None:
        """Append a run. Raises KoalaError if the store cannot be written."""
        body = json.dumps({**as_plain(made.outcome), "cpu_s": made.cpu_s}, allow_nan=False)
        line = f'{{"key": "{key}", "crc": {zlib.crc32(body.encode())}, "run": {body}}}\n'
        try:
            if self._file is None:
                path = self.folder / f"{secrets.token_hex(8)}.jsonl"
                self._file = path.open("xb", buffering=0)
            self._file.write(line.encode())
        except OSError as error:
            text = f"{self.folder}: cannot be written: {error.strerror}"
            raise KoalaError(f"{text}; --no-store does without") from error

    def close(self) -> None:
        """Close the file of this process."""
        if self._file is not None:
            self._file.close()
            self._file = None


def default_folder() -> Path | None:
    """Return the store of this user, below the cache folder; None for an account without home."""
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        cache = Path(base) if base else Path.home() / ".cache"
    except RuntimeError:
        return None
    return cache / "koala" / "runs"


def open_default(code: str) -> Store | None:
    """Open the user's own store, and remove what no campaign has touched for months; None if there
    can be none."""
    folder = default_folder()
    if folder is None:
        return None
    try:
        found = Store(folder, code)
    except ConfigError:  # read-only home: results are not kept
        return None
    with suppress(OSError):
        os.utime(found.folder)
        for other in folder.iterdir():
            if other.is_dir() and unix_now() - other.stat().st_mtime > KEPT_S:
                shutil.rmtree(other, ignore_errors=True)
    return found


def _index(path: Path) -> Iterator[tuple[str, int]]:
    at = 0
    with path.open("rb") as file:
        for line in file:
            key = line[len(_HEAD) : len(_HEAD) + _KEY_CHARACTERS]
            if line.startswith(_HEAD) and line.endswith(b"}\n"):
                yield key.decode("ascii", "replace"), at
            at += len(line)


def _read(line: bytes, key: str) -> FinishedRun | None:
    try:
        found: dict[str, Any] = json.loads(line)
        body = line.partition(b'"run": ')[2].removesuffix(b"}\n")
        if found["key"] != key or found["crc"] != zlib.crc32(body):
            return None
        run = found["run"]
        return FinishedRun(outcome=from_plain(run), cpu_s=float(run["cpu_s"]), is_stored=True)
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
