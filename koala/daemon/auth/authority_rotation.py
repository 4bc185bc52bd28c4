"""Rotation of the certificate authority, without a moment at which a site is not trusted.

    whole ──> spread ──────────────> moved ─────────────> whole
              both are trusted,      both are trusted,    the new one alone
              the old one signs      the new one signs

- Certificates and credentials that are issued while both are trusted carry both authorities.
- The new one may sign once all sites and users know it. The old one may go once no certificates
  that it signed are in use. Sites get there by their renewals, users by new credentials.
- Each step replaces one file atomically (`STATE/authority/rotation.json`, with both keys).
- The daemon is stopped meanwhile: it and its sites read keys at their starts. Jobs run on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from koala.daemon.auth.audit import note
from koala.daemon.auth.authority import (
    ADMINISTRATOR_FILE,
    AUTHORITY_FILE,
    FOLDER,
    ROTATION_FILE,
    Rotation,
    Stage,
    make_authority,
    read_rotation,
)
from koala.daemon.auth.enrolments import Enrolments, SiteRecord, UserRecord
from koala.daemon.clock import wall_s
from koala.daemon.state_folder import acquire_lock
from koala.errors import ConfigError, RejectedError
from koala.identity.credentials import read_credentials
from koala.identity.private_files import read_private, write_private


class RotationStatus(StrEnum):
    """Stage of a rotation; WHOLE when none is under way."""

    WHOLE = "whole"
    SPREAD = "spread"
    MOVED = "moved"


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationProgress:
    """Progress of a rotation, with the sites and users that the next step would lock out."""

    standing: RotationStatus
    since: float | None
    sites: tuple[str, ...]
    users: tuple[str, ...]

    @property
    def is_ready(self) -> bool:
        """True when the next step would lock out no site and no user."""
        return not self.sites and not self.users

    def document(self) -> dict[str, Any]:
        """Render for `--json`."""
        return {
            "standing": self.standing.value,
            "since": self.since,
            "sites": list(self.sites),
            "users": list(self.users),
        }


def progress(state_dir: Path) -> RotationProgress:
    """Return the progress of the rotation; a daemon may run meanwhile. Raises ConfigError."""
    folder = state_dir / FOLDER
    if not (folder / AUTHORITY_FILE).is_file():
        raise ConfigError(f"{state_dir}: no state directory of a daemon with an authority")
    rotation = read_rotation(folder)
    if rotation is None:
        return RotationProgress(standing=RotationStatus.WHOLE, since=None, sites=(), users=())
    enrolments = Enrolments(folder)
    own = _own_user(folder)
    sites = [site.name for site in enrolments.sites.values() if _is_behind(site, rotation)]
    users = [
        user.name
        for user in enrolments.users.values()
        if user.name != own and _has_old(user, rotation)
    ]
    return RotationProgress(
        standing=RotationStatus(rotation.stage.value),
        since=rotation.since,
        sites=tuple(sorted(sites)),
        users=tuple(sorted(users)),
    )


def rotate(state_dir: Path, *, force: bool = False) -> RotationProgress:
    """Take one step and return the new progress.

    Raises JournalError while a daemon runs, ConfigError, and RejectedError when a site or user
    would be locked out, unless by `force`.
    """
    before = progress(state_dir)
    lock = acquire_lock(state_dir)
    try:
        if not before.is_ready and not force:
            raise RejectedError("; ".join(_shut_out(before)))
        _step(state_dir / FOLDER)
    finally:
        os.close(lock)
    after = progress(state_dir)
    note(state_dir, verb="RotateAuthority", subject=after.standing.value)
    return after


def _step(folder: Path) -> None:
    rotation = read_rotation(folder)
    path = folder / ROTATION_FILE
    if rotation is None:
        old = read_private(folder / AUTHORITY_FILE).decode()
        begun = Rotation(stage=Stage.SPREAD, since=wall_s(), old=old, new=make_authority().decode())
        write_private(path, msgspec.json.encode(begun))
    elif rotation.stage is Stage.SPREAD:
        moved = msgspec.structs.replace(rotation, stage=Stage.MOVED, since=wall_s())
        write_private(path, msgspec.json.encode(moved))
    else:
        write_private(folder / AUTHORITY_FILE, rotation.new.encode())
        path.unlink()


def _is_behind(site: SiteRecord, rotation: Rotation) -> bool:
    """True when a site has no certificate of this stage yet.

    A renewed certificate counts once it was used. A join token names the authority that signed
    when it was made.
    """
    if site.state == "awaited":
        return rotation.stage is Stage.SPREAD
    is_old = site.issued_at < rotation.since or bool(site.next_serial)
    return site.state == "enrolled" and is_old


def _has_old(user: UserRecord, rotation: Rotation) -> bool:
    """True when a user's credentials depend on the old authority.

    While it spreads: they trust the old one alone. Afterwards: the old one has signed them, which
    a token is not.
    """
    if user.state != "good" or user.added_at >= rotation.since:
        return False
    return rotation.stage is Stage.SPREAD or bool(user.serial)


def _own_user(folder: Path) -> str:
    """User whose credentials the daemon rewrites by itself."""
    path = folder / ADMINISTRATOR_FILE
    return read_credentials(path).user if path.exists() else ""


def _shut_out(found: RotationProgress) -> Iterator[str]:
    is_spread = found.standing is RotationStatus.SPREAD
    what = "have not heard of the new authority" if is_spread else "show what the old one signed"
    if found.sites:
        yield (
            f"sites that {what} yet: {', '.join(found.sites)} (they renew in the last third of"
            " certificate_days; koala site add and koala-agent join do it at once)"
        )
    if found.users:
        yield f"users whose credentials {what}: {', '.join(found.users)} (koala user add)"
