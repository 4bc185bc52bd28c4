"""Back up a daemon's state directory while it runs, and restore it.

A backup is a folder, or a tar file of one, with:

- the journal's database as of one commit, and its commit position;
- every other file of the state directory that a start does not create (keys and users among them: a
  backup is as secret as the directory);
- a list of the spool's files;
- `backup.json`, which describes the backup and has the SHA-256 of every other file.

A backup counts as made only after it was read back from its first to its last event. A restore
first verifies the backup against all of this.

A restored state lacks later events, and sites may know of them. So the file `restored` makes the
daemon's next start recover as after a loss (`--accept-loss`).
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import os
import shutil
import sqlite3
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TypeAlias, cast

import msgspec

from koala.common.files.names import shown
from koala.common.files.tar_reader import read_tar
from koala.common.identity.private_files import sync
from koala.common.runtime.disk_formats import BACKUP
from koala.common.runtime.disk_space import BALLAST
from koala.core.model.values import Instant
from koala.core.purge import purge_ended_jobs
from koala.daemon.auth.audit import record_local_operation
from koala.daemon.storage.archive import check_jobs
from koala.daemon.storage.folder import FILE, LOCK, POSITION_FILE, RESTORED
from koala.daemon.storage.journal import SCHEMA, missing_position_error
from koala.daemon.storage.journal_reader import JournalReader, connect, open_journal, replay
from koala.daemon.storage.records import JournalPosition, position_text
from koala.errors import ConfigError, DamagedError, JournalError, SpecError

MANIFEST = "backup.json"
SPOOL = "spool"
_HIDDEN = ".koala-part-"
ENDPOINT = "endpoint"
TAR = (".tar", ".tar.gz", ".tgz")
_MADE_AGAIN = {
    FILE,
    f"{FILE}-wal",
    f"{FILE}-shm",
    POSITION_FILE,
    LOCK,
    ENDPOINT,
    BALLAST,
    RESTORED,
    SPOOL,
}
_NO_TAR = (SpecError, FileNotFoundError, EOFError, gzip.BadGzipFile, zlib.error)
_GZIP = b"\x1f\x8b"
_READ_BYTES = 1 << 20
OVER_KEPT = 1_000  # ended jobs in memory while a backup is read back
NAMED_MAX = 10  # damaged files in an error


Progress: TypeAlias = Callable[[float], None]
"""Takes the share that is done."""
PROGRESS_EVENTS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """Contents of a backup: events up to number `events`, the last of them at `last_at`."""

    path: Path
    events: int
    last_at: Instant
    files: int
    spooled: int
    has_spool: bool

    def document(self) -> dict[str, object]:
        """Return the backup as `--json` prints it."""
        document = asdict(self)
        return {"backup": str(document.pop("path")), **document}


class _Version(msgspec.Struct):
    version: int = msgspec.field(name="koala-backup")


class _Manifest(_Version):
    """Contents of `backup.json`.

    `chain` is hexadecimal, `spool` has names with sizes, `sha256` the checksum of each other file
    by name.
    """

    events: int
    chain: str
    last_at: Instant
    files: list[str]
    has_spool: bool
    spool: list[tuple[str, int]]
    sha256: dict[str, str]


def back_up(
    state_dir: Path, target: Path, *, with_spool: bool, progress: Progress | None = None
) -> Backup:
    """Make a backup; `target` must not exist. `progress` gets the share of the journal that was
    verified. Raises ConfigError, JournalError."""
    if not (state_dir / FILE).is_file():
        raise ConfigError(f"{state_dir}: no state directory of a daemon: {FILE} is missing")
    if target.resolve().is_relative_to(state_dir.resolve()):
        raise ConfigError(f"{target} is in the state directory (expected a path outside of it)")
    if os.path.lexists(target):
        raise ConfigError(f"{target} exists already (expected a new path)")
    try:
        with _private(), _scratch(target.parent) as scratch:
            folder = scratch / "koala-backup"
            folder.mkdir(mode=0o700)
            backup = _fill(state_dir, folder, target, progress, with_spool=with_spool)
            _close(folder)
            if target.name.endswith(TAR):
                packed = scratch / "packed"
                _pack(folder, packed, is_compressed=not target.name.endswith(".tar"))
                sync(packed)
                packed.rename(target)
            else:
                folder.rename(target)
            sync(target.parent)
    except OSError as error:
        raise JournalError(f"{error.filename or target}: {error.strerror or error}") from error
    record_local_operation(state_dir, verb="Backup", subject=str(target))
    return backup


def restore(backup: Path, state_dir: Path, *, progress: Progress | None = None) -> Backup:
    """Restore a backup; nothing may be at `state_dir`. `progress` gets the share of the journal
    that was verified. Raises ConfigError, JournalError."""
    try:
        if not _is_free(state_dir):
            raise ConfigError(
                f"{state_dir} is not empty (expected an empty directory, or none); move the"
                " damaged one aside"
            )
        with _private(), _scratch(state_dir.parent) as scratch:
            folder = backup if backup.is_dir() else _unpacked(backup, scratch)
            try:
                restored = _read(folder, backup, progress)
            except DamagedError as error:
                raise JournalError(f"{error.what}. Take another backup") from error
            part = scratch / "state"
            part.mkdir()
            _copy_tree(folder, part)
            (part / MANIFEST).unlink()
            (part / RESTORED).write_text(
                json.dumps({"backup": str(backup), "events": restored.events}) + "\n"
            )
            _close(part)
            with suppress(FileNotFoundError):
                state_dir.rmdir()
            part.rename(state_dir)
            sync(state_dir.parent)
    except OSError as error:
        raise JournalError(f"{error.filename or state_dir}: {error.strerror or error}") from error
    record_local_operation(state_dir, verb="Restore", subject=str(backup))
    return restored


def is_packed(path: Path) -> bool:
    """Return True if the path is a backup in one file, and not the file of a journal."""
    with suppress(OSError, *_NO_TAR):
        return path.is_file() and (path.name.endswith(TAR) or _is_tar(path))
    return False


@contextmanager
def open_packed(backup: Path) -> Iterator[JournalReader]:
    """Open the journal of a backup in one file; nothing else is unpacked.

    Raises ConfigError, JournalError.
    """
    with TemporaryDirectory(prefix="koala-") as scratch:
        folder = _unpacked(backup, Path(scratch), only=(FILE, POSITION_FILE))
        yield open_journal(folder, source=backup / FILE)


def _is_free(path: Path) -> bool:
    """Return True if the path is an empty directory or does not exist."""
    if path.is_dir():
        return not any(path.iterdir())
    return not os.path.lexists(path)


# --- making ---------------------------------------------------------------------------------------


def _fill(
    state_dir: Path, folder: Path, target: Path, progress: Progress | None, *, with_spool: bool
) -> Backup:
    _require_end(state_dir)
    position = _copy_database(state_dir / FILE, folder / FILE)
    (folder / POSITION_FILE).write_bytes(position_text(position))
    files = list(_copy_others(state_dir, folder))
    spooled = sorted(_spooled(state_dir / SPOOL))
    if with_spool:
        _copy_tree(state_dir / SPOOL / "jobs", folder / SPOOL / "jobs")
    reader = open_journal(folder, source=state_dir / FILE)
    _read_back(reader, progress)  # an unreadable backup must not count as made
    manifest = {
        "koala-backup": BACKUP.number,
        "events": position.seq,
        "chain": position.chain.hex(),
        "last_at": reader.last_at,
        "files": sorted(files),
        "has_spool": with_spool,
        "spool": spooled,
        "sha256": dict(_sums(folder)),
    }
    text = json.dumps(manifest, indent=1)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")
    return Backup(
        path=target,
        events=position.seq,
        last_at=reader.last_at,
        files=len(files),
        spooled=len(spooled),
        has_spool=with_spool,
    )


def _require_end(state_dir: Path) -> None:
    """Reject a journal whose end is lost, or whose commit position is: a backup would hide that.

    Raises JournalError.
    """
    reader = open_journal(state_dir)
    if reader.committed is None and reader.events:
        raise missing_position_error(reader.path, state_dir / POSITION_FILE, reader.events)


def _read_back(reader: JournalReader, progress: Progress | None) -> None:
    """Replay the journal from its first to its last event and read all archived jobs, as a start
    would.

    Memory is bounded: ended jobs are purged on the way. Raises JournalError.
    """
    with closing(connect(reader.path)) as connection:
        SCHEMA.check(connection, reader.source)
        check_jobs(connection, reader.source)
    for number, step in enumerate(replay(reader), 1):
        purge_ended_jobs(step.scheduler, step.record.at, keep=OVER_KEPT, keep_s=0.0)
        if progress is not None and number % PROGRESS_EVENTS == 0:
            progress(number / max(number, reader.events))


def _copy_database(source: Path, target: Path) -> JournalPosition:
    """Copy the database as of one commit into one file; return its last event."""
    target.touch(mode=0o600)
    with closing(connect(source)) as reader, closing(sqlite3.connect(target)) as writer:
        SCHEMA.number(reader, source)
        try:
            # In one step, concurrent with the daemon's commits. With several steps each commit
            # between them restarts the copy, so beside a busy daemon it would never end.
            reader.backup(writer, pages=-1)
            # The daemon's position may name an event before or after this commit.
            row = writer.execute("SELECT seq, chain FROM event ORDER BY seq DESC LIMIT 1")
            last = row.fetchone()
            writer.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error as error:
            raise JournalError(f"{source}: cannot be copied: {error}") from error
    return JournalPosition() if last is None else JournalPosition(int(last[0]), bytes(last[1]))


def _copy_others(state_dir: Path, folder: Path) -> Iterator[str]:
    for path in sorted(state_dir.iterdir()):
        if path.name in _MADE_AGAIN or path.name.endswith(".new"):
            continue
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            continue
        if path.is_dir():
            _copy_tree(path, folder / path.name)
            below = sorted((folder / path.name).rglob("*"))
            yield from (str(file.relative_to(folder)) for file in below if file.is_file())
        else:
            shutil.copyfile(path, folder / path.name)
            yield path.name


def _copy_tree(source: Path, target: Path) -> None:
    """Copy folders and files, but no links. Files that the daemon removes meanwhile are skipped."""
    for path in _below(source):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            shutil.copyfile(path, copy, follow_symlinks=False)


def _below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder without links; a folder removed meanwhile has none."""
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in sorted(names)):
            if path.is_file() and not path.is_symlink():
                yield path


def _spooled(spool: Path) -> Iterator[tuple[str, int]]:
    for path in _below(spool / "jobs"):
        with suppress(FileNotFoundError):
            yield str(path.relative_to(spool)), path.stat().st_size


def _sums(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield name and checksum of every file but the manifest."""
    for path in sorted(_below(folder)):
        name = str(path.relative_to(folder))
        if name != MANIFEST:
            with path.open("rb") as file:
                yield name, hashlib.file_digest(file, "sha256").hexdigest()


def _pack(folder: Path, packed: Path, *, is_compressed: bool) -> None:
    packed.touch(mode=0o600)
    mode = "w:gz" if is_compressed else "w"
    with tarfile.open(packed, mode) as archive:  # type: ignore[call-overload]  # a mode by name
        archive.add(folder, arcname=folder.name)


# --- putting back ---------------------------------------------------------------------------------


def _unpacked(backup: Path, scratch: Path, only: Sequence[str] = ()) -> Path:
    """Unpack a tar file, or `only` these files; return its folder. Raises ConfigError."""
    target = scratch / "backup"
    target.mkdir()
    try:
        with _opened(backup) as file:
            _extract(file, target, only)
            while file.read(_READ_BYTES):
                pass  # what follows the end mark: the checksum of gzip comes last
    except _NO_TAR as error:
        raise ConfigError(f"{backup}: no backup, or a damaged one: {error}") from error
    inside = list(target.iterdir())
    if len(inside) != 1 or not (inside[0] / FILE).is_file():
        raise ConfigError(f"{backup} is not a backup (expected a folder with a {FILE})")
    return inside[0]


@contextmanager
def _opened(backup: Path) -> Iterator[IO[bytes]]:
    """Open a file as it is, or unpacked by gzip if its first bytes say so. Raises OSError."""
    with backup.open("rb") as file:
        if file.peek(len(_GZIP)).startswith(_GZIP):
            with gzip.open(file) as unpacked:
                yield cast(IO[bytes], unpacked)
        else:
            yield file


def _is_tar(path: Path) -> bool:
    """Return True if a tar file begins with an entry. Raises as `read_tar` and `gzip` do."""
    with _opened(path) as file:
        return next(read_tar(file), None) is not None


def _extract(file: IO[bytes], target: Path, only: Sequence[str]) -> None:
    """Extract everything, or only the files with these names; nothing outside the target.

    Raises SpecError, OSError.
    """
    for entry in read_tar(file):
        parts = [part for part in entry.name.split("/") if part not in ("", ".")]
        if not parts or entry.name.startswith("/") or ".." in parts or "\0" in entry.name:
            raise SpecError(f"{shown(entry.name)} is not a file below its folder")
        if only and parts[-1] not in only:
            continue
        if entry.is_folder:
            target.joinpath(*parts).mkdir(parents=True, exist_ok=True)
        else:
            entry.write(target.joinpath(*parts), 0o600)


def _read(folder: Path, backup: Path, progress: Progress | None) -> Backup:
    """Read and verify a backup to its last event. Raises ConfigError, JournalError."""
    try:
        text = (folder / MANIFEST).read_bytes()
        version = msgspec.json.decode(text, type=_Version).version
        if reason := BACKUP.refusal(version):
            raise ConfigError(f"{backup}: {reason}")
        manifest = msgspec.json.decode(text, type=_Manifest)
        chain = bytes.fromhex(manifest.chain)
    except (OSError, ValueError, msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f"{backup}: no backup: {MANIFEST} cannot be read: {error}") from error
    _check_files(folder, backup, manifest.sha256)
    events = manifest.events
    reader = open_journal(folder, source=backup / FILE)
    if reader.committed != JournalPosition(events, chain) or reader.events != events:
        raise JournalError(f"{backup}: damaged: {MANIFEST} and {POSITION_FILE} name other events")
    _read_back(reader, progress)
    missing = [name for name in manifest.files if not (folder / name).is_file()]
    if missing:
        raise JournalError(f"{backup}: damaged: {', '.join(missing)} is missing")
    return Backup(
        path=backup,
        events=events,
        last_at=reader.last_at,
        files=len(manifest.files),
        spooled=len(manifest.spool),
        has_spool=manifest.has_spool,
    )


def _check_files(folder: Path, backup: Path, expected: dict[str, str]) -> None:
    """Check that each file is unchanged and that there is no other. Raises JournalError."""
    sums = dict(_sums(folder))
    for names, what in (
        (expected.keys() - sums.keys(), "is missing"),
        (sums.keys() - expected.keys(), "is not of this backup"),
        (
            {name for name in expected if expected[name] != sums.get(name)},
            "does not match its checksum",
        ),
    ):
        if names:
            named = ", ".join(sorted(names)[:NAMED_MAX])
            raise JournalError(f"{backup}: damaged: {named} {what}. Take another backup")


def _close(folder: Path) -> None:
    """Make everything durable and private to this user, whatever modes the originals had."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():  # chmod follows links, out of the folder
            path.chmod(0o700 if path.is_dir() else 0o600)
            sync(path)


@contextmanager
def _scratch(parent: Path) -> Iterator[Path]:
    """Create a hidden scratch folder on the target's disk, and remove those of killed commands
    first.

    Raises OSError, and ConfigError where there is no folder for the target.
    """
    if not parent.is_dir():
        raise ConfigError(f"{parent}: there is nothing (expected a folder that exists)")
    for path in sorted(parent.glob(f"{_HIDDEN}*")):
        with suppress(OSError), _held(path):
            shutil.rmtree(path)
    with TemporaryDirectory(prefix=_HIDDEN, dir=parent) as scratch, _held(Path(scratch)):
        yield Path(scratch)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Lock a folder, at most until this process ends. Raises OSError if it is locked."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _private() -> Iterator[None]:
    """Create files for this user alone within the block."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
