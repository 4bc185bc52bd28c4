"""Contents that clients uploaded: kept in the spool until a site or a job has no more use for them.

    uploads/<user>/<key>         complete and checked
    uploads/<user>/<key>.part    bytes so far, from which an upload resumes

The key is a checksum of user and content, so a user finds only what that user uploaded. The relay
serves complete uploads to agents, for transfers whose ids begin with the key. All calls block.
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from koala.common.files.archives import check_archive
from koala.common.files.names import escape
from koala.common.identity.private_files import private_folder
from koala.common.runtime.clock import unix_now
from koala.errors import ExhaustedError, SpecError

UPLOADS = "uploads"
CHECKSUM = re.compile(r"[0-9a-f]{64}")
_STAGED = re.compile(rf"(?P<checksum>{CHECKSUM.pattern}):(?P<size>[0-9]{{1,12}})")
RETRY_S = 60.0
CHECKED_MAX = 1_000
"""Archives that are known to be checked: the same one comes with each of many jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Content of a file that a user uploads; `checksum` is its sha256 in hexadecimal."""

    user: str
    checksum: str
    size_bytes: int

    @property
    def key(self) -> str:
        """Name of the content in the spool."""
        return hashlib.sha256(f"{self.user}\0{self.checksum}".encode()).hexdigest()


def content_of(staged: str, owner: str) -> Content | None:
    """Return the content that `checksum:size` names; None for an empty text. Raises SpecError."""
    if not staged:
        return None
    match = _STAGED.fullmatch(staged)
    if match is None:
        raise SpecError(f"staged = {staged[:80]!r} (expected CHECKSUM:SIZE)")
    return Content(user=owner, checksum=match["checksum"], size_bytes=int(match["size"]))


def transfer_of(key: str, name: str) -> str:
    """Name the transfer that brings an uploaded content to a site under a logical name."""
    return f"{key}/0/t{zlib.crc32(name.encode()) % 10**9}"


class Uploads:
    """Uploads in a folder of the spool.

    All of one user have at most `bytes_max`, and leave `free_bytes_min` of the disk free.
    """

    def __init__(self, spool: Path, *, bytes_max: float, free_bytes_min: int = 0) -> None:
        self._folder = spool / UPLOADS
        self._bytes_max = bytes_max
        self._free_bytes_min = free_bytes_min
        self._problems: dict[Content, str] = {}

    def find(self, content: Content) -> Path | None:
        """Return the path of a complete upload, and renew its age."""
        path = self._path(content)
        try:
            os.utime(path)
            return path if path.stat().st_size == content.size_bytes else None
        except FileNotFoundError:
            return None

    def problem_of_archive(self, content: Content) -> str | None:
        """Return why agents would refuse a complete upload as an archive of staged files, empty if
        they take it; None without such an upload."""
        path = self.find(content)
        if path is None:
            return None
        if content not in self._problems:  # a name has one content for ever
            try:
                check_archive(path)
                self._problems[content] = ""
            except SpecError as error:
                self._problems[content] = str(error)
            while len(self._problems) > CHECKED_MAX:
                del self._problems[next(iter(self._problems))]
        return self._problems[content]

    def begin(self, content: Content) -> Path:
        """Check that a content may be uploaded; return the path of its bytes so far. Raises
        SpecError, ExhaustedError."""
        if not CHECKSUM.fullmatch(content.checksum):
            raise SpecError(f"checksum = {content.checksum[:80]!r} (expected a sha256 in hex)")
        part = self._path(content).with_suffix(".part")
        folder = part.parent
        for made in (self._folder, folder):
            private_folder(made)
        used = sum(path.stat().st_size for path in folder.iterdir() if path != part)
        if used + content.size_bytes > self._bytes_max:
            raise ExhaustedError(
                f"{content.size_bytes} bytes more than the {used} that wait in the daemon's"
                f" spool (expected at most {self._bytes_max:.0f} in all:"
                " limits.uploads_mb_per_user)",
                retry_after_s=RETRY_S,
            )
        here = part.stat().st_size if part.exists() else 0
        self.require_room(max(0, content.size_bytes - here))
        return part

    def finish(self, content: Content, part: Path) -> None:
        """Keep a whole content, which is durable and checked."""
        part.rename(self._path(content))

    def sweep(self, older_s: float, *, kept: Collection[str]) -> None:
        """Delete the uploads that were not used for so long, but those of the kept keys."""
        before = unix_now() - older_s
        for path in self._folder.glob("*/*"):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < before and path.name not in kept:
                    path.unlink()

    def require_room(self, size_bytes: int) -> None:
        """Check that the disk has room for so many bytes. Raises ExhaustedError."""
        status = os.statvfs(self._folder)
        room_bytes = status.f_bavail * status.f_frsize - self._free_bytes_min
        if size_bytes > room_bytes:
            raise ExhaustedError(
                f"{size_bytes} bytes are to come: the daemon's spool has room for"
                f" {max(0, room_bytes)}",
                retry_after_s=RETRY_S,
            )

    def _path(self, content: Content) -> Path:
        return self._folder / escape(content.user) / content.key


def served_content(spool: Path, transfer: str) -> Path | None:
    """Return the uploaded content that a transfer brings to a site; None for any other transfer."""
    key = transfer.partition("/")[0]
    if not CHECKSUM.fullmatch(key):
        return None
    return next((spool / UPLOADS).glob(f"*/{key}"), None)
