"""Who may dial and who may call: sites and users, and what they show.

A site has at most one good certificate, and during its renewal two: the old one is good until the
new one was used for the first time, so that a crash between the two costs nothing; from then on the
old one is refused, and whoever still shows it is told of (a copy of a key shows itself that way).
Secrets are kept as SHA-256: they are 256 random bits, which no dictionary has and no slow hash is
needed for. The file is written whole at each change; there are few.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from koala.core.values import SiteName, UserName
from koala.daemon.access import Caller, Role
from koala.daemon.clock import wall_s
from koala.errors import ConfigError, SpecError, UnauthenticatedError, UnknownNameError
from koala.wire.private import read_private, write_private
from koala.wire.tls import Kind

FILE = "enrolments.json"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@-]{0,63}")
JOIN_S = 86_400.0
JOIN_S_MAX = 30 * 86_400.0
TOKEN = "koala"


class SiteRecord(msgspec.Struct, kw_only=True):
    """A site: its join token while it waits, its certificate afterwards."""

    name: str
    owner: str = ""
    by: str
    added_at: float
    join_hash: str = ""
    join_expires_at: float = 0.0
    serial: str = ""
    next_serial: str = ""
    expires_at: float = 0.0
    joined_at: float = 0.0
    issued_at: float = 0.0
    revoked_at: float = 0.0

    @property
    def is_awaited(self) -> bool:
        """Whether a join token of it is still good."""
        return bool(self.join_hash) and self.join_expires_at > wall_s()

    @property
    def state(self) -> str:
        """A word for people."""
        if self.serial:
            return "enrolled" if self.expires_at > wall_s() else "expired"
        if self.is_awaited:
            return "awaited"
        return "revoked" if self.revoked_at else "token expired"


class UserRecord(msgspec.Struct, kw_only=True):
    """A user: one token or one certificate."""

    name: str
    role: Role
    by: str
    added_at: float
    token_id: str = ""
    token_hash: str = ""
    serial: str = ""
    expires_at: float | None = None
    revoked_at: float = 0.0

    @property
    def state(self) -> str:
        """A word for people."""
        if self.revoked_at:
            return "revoked"
        is_over = self.expires_at is not None and self.expires_at <= wall_s()
        return "expired" if is_over else "good"


class Owners(Mapping[SiteName, UserName | None]):
    """The sites that may register, with their owners: those that the configuration lists, and
    those that are enrolled. What the configuration says of a site wins."""

    def __init__(
        self, listed: Mapping[SiteName, UserName | None], enrolled: Mapping[str, SiteRecord]
    ) -> None:
        self._listed = listed
        self._enrolled = enrolled

    def __getitem__(self, site: SiteName) -> UserName | None:
        if site in self._listed:
            return self._listed[site]
        owner = self._enrolled[site].owner
        return UserName(owner) if owner else None

    def __iter__(self) -> Iterator[SiteName]:
        yield from self._listed
        yield from (SiteName(name) for name in self._enrolled if name not in self._listed)

    def __len__(self) -> int:
        return len({*self._listed, *self._enrolled})


class _File(msgspec.Struct, kw_only=True):
    """The whole file."""

    format: int = 1
    sites: dict[str, SiteRecord] = {}
    users: dict[str, UserRecord] = {}


class Enrolments:
    """Sites and users. Every change is durable when it returns."""

    def __init__(self, folder: Path) -> None:
        """Raises ConfigError."""
        self._path = folder / FILE
        try:
            self._file = msgspec.json.decode(read_private(self._path), type=_File)
        except FileNotFoundError:
            self._file = _File()
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigError(f"{self._path}: cannot be read: {error}") from error
        if self._file.format != 1:
            found = self._file.format
            raise ConfigError(f"{self._path} has format {found}: this version knows 1")
        self._by_token = {u.token_id: u.name for u in self._file.users.values() if u.token_id}

    # --- sites ------------------------------------------------------------------------------------

    @property
    def sites(self) -> dict[str, SiteRecord]:
        """By name."""
        return self._file.sites

    def add_site(self, name: str, *, owner: str, by: str, ttl_s: float = 0.0) -> str:
        """A new join token's secret; an earlier one of the site is good no more, but its
        certificate is, until the site has joined anew. Raises SpecError."""
        _check_name(NAME, "site", name)
        if owner:
            _check_name(USER, "owner", owner)
        if not 0 <= ttl_s <= JOIN_S_MAX:
            raise SpecError(f"ttl = {ttl_s:g} s: allowed are 0 to {JOIN_S_MAX:g} (0: a day)")
        secret = secrets.token_urlsafe(32)
        record = self.sites.get(name) or SiteRecord(name=name, by=by, added_at=wall_s())
        record.owner, record.by = owner, by
        record.join_hash, record.join_expires_at = _hash(secret), wall_s() + (ttl_s or JOIN_S)
        self.sites[name] = record
        self._save()
        return secret

    def check_join(self, name: str, secret: str) -> SiteRecord:
        """The site that waits for this secret. Raises UnauthenticatedError, which does not tell a
        wrong secret from a site that is not awaited."""
        record = self.sites.get(name)
        known = record.join_hash if record is not None else ""
        is_right = hmac.compare_digest(known.encode(), _hash(secret).encode())
        if record is None or not known or not is_right:
            raise UnauthenticatedError(
                f"the join token of site {name[:64]!r} is not good: it was used before, replaced or"
                " revoked, or is of another daemon; an operator makes a new one: koala site add"
            )
        if not record.is_awaited:
            late_s = wall_s() - record.join_expires_at
            raise UnauthenticatedError(
                f"the join token of site {name[:64]!r} expired {late_s:.0f} s ago; an operator"
                " makes a new one: koala site add"
            )
        return record

    def take_join(self, name: str, serial: str, expires_at: float) -> None:
        """The site has joined: its token is used up, an older certificate of it is good no more."""
        record = self.sites[name]
        record.join_hash, record.join_expires_at = "", 0.0
        record.serial, record.next_serial, record.expires_at = serial, "", expires_at
        record.joined_at = record.issued_at = wall_s()
        record.revoked_at = 0.0
        self._save()

    def enrol(self, name: str, *, serial: str, expires_at: float) -> None:
        """A site that has its certificate without a token: its account is the daemon's."""
        if name not in self.sites:
            self.sites[name] = SiteRecord(name=name, by="", added_at=wall_s())
        self.take_join(name, serial, expires_at)

    def take_renewal(self, name: str, serial: str, expires_at: float) -> None:
        """A second certificate, which replaces the first when it is first used."""
        record = self.sites[name]
        record.next_serial, record.expires_at = serial, expires_at
        record.issued_at = wall_s()
        self._save()

    def check_site(self, name: str, serial: str) -> SiteRecord:
        """The site, if this is a good certificate of it. Raises UnauthenticatedError."""
        record = self.sites.get(name)
        if record is None:
            raise UnauthenticatedError(f"site {name[:64]!r} is not enrolled here")
        if serial == record.next_serial and serial:
            record.serial, record.next_serial = serial, ""
            self._save()
        if serial != record.serial:
            what = "was revoked" if record.revoked_at else "was replaced by a newer one"
            raise UnauthenticatedError(
                f"the certificate {serial[:12]} of site {name} {what}: if no operator did that,"
                " somebody has a copy of its key; koala site add enrols it anew"
            )
        return record

    def revoke_site(self, name: str) -> SiteRecord:
        """From now on no certificate and no join token of it is good. Raises UnknownNameError."""
        record = self.sites.get(name)
        if record is None:
            raise UnknownNameError(f"no site {name[:64]!r} was ever added")
        record.serial = record.next_serial = record.join_hash = ""
        record.join_expires_at, record.revoked_at = 0.0, wall_s()
        self._save()
        return record

    # --- users ------------------------------------------------------------------------------------

    @property
    def users(self) -> dict[str, UserRecord]:
        """By name."""
        return self._file.users

    def add_user(self, name: str, role: Role, *, by: str, expires_s: float = 0.0) -> str:
        """A new token; what the user had before is good no more. Raises SpecError."""
        record = self._new_user(name, role, by)
        identity, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        record.token_id, record.token_hash = identity, _hash(secret)
        record.expires_at = wall_s() + expires_s if expires_s else None
        self._put_user(record)
        return f"{TOKEN}_{identity}_{secret}"

    def add_user_certificate(
        self, name: str, role: Role, *, by: str, serial: str, expires_at: float
    ) -> None:
        """The same with a certificate that was signed. Raises SpecError."""
        record = self._new_user(name, role, by)
        record.serial, record.expires_at = serial, expires_at
        self._put_user(record)

    def user_of_token(self, token: str) -> Caller:
        """Whose token it is. Raises UnauthenticatedError, which never shows it."""
        identity = token.split("_", 2)[1] if token.count("_") >= 2 else ""
        name = self._by_token.get(identity, "")
        record = self.users.get(name)
        known = record.token_hash if record is not None else ""
        secret = token.split("_", 2)[-1]
        is_right = hmac.compare_digest(known.encode(), _hash(secret).encode())
        if record is None or not known or not is_right:
            raise UnauthenticatedError(
                "the token is not good: it was replaced or revoked, or is of another daemon; an"
                " administrator makes a new one: koala user add"
            )
        return self._caller(record, "token")

    def user_of_certificate(self, name: str, serial: str) -> Caller:
        """The user, if this is the good certificate. Raises UnauthenticatedError."""
        record = self.users.get(name)
        if record is None or not record.serial or record.serial != serial:
            raise UnauthenticatedError(
                f"the certificate of user {name[:64]!r} was replaced or revoked; an administrator"
                " makes a new one: koala user add"
            )
        return self._caller(record, "certificate")

    def revoke_user(self, name: str) -> UserRecord:
        """From now on nothing of this user is good. Raises UnknownNameError, SpecError."""
        record = self.users.get(name)
        if record is None:
            raise UnknownNameError(f"no user {name[:64]!r} was ever added")
        others = [
            user
            for user in self.users.values()
            if user.role is Role.ADMINISTRATOR and user.state == "good" and user.name != name
        ]
        if record.role is Role.ADMINISTRATOR and record.state == "good" and not others:
            raise SpecError(f"{name} is the last administrator: add another one first")
        self._by_token.pop(record.token_id, None)
        record.token_id = record.token_hash = record.serial = ""
        record.revoked_at = wall_s()
        self._save()
        return record

    # --- parts ------------------------------------------------------------------------------------

    def _new_user(self, name: str, role: Role, by: str) -> UserRecord:
        _check_name(USER, "user", name)
        return UserRecord(name=name, role=role, by=by, added_at=wall_s())

    def _put_user(self, record: UserRecord) -> None:
        if (before := self.users.get(record.name)) is not None:
            self._by_token.pop(before.token_id, None)
        self.users[record.name] = record
        if record.token_id:
            self._by_token[record.token_id] = record.name
        self._save()

    def _caller(self, record: UserRecord, kind: str) -> Caller:
        if record.expires_at is not None and record.expires_at <= wall_s():
            late_s = wall_s() - record.expires_at
            raise UnauthenticatedError(
                f"the {kind} of {record.name} expired {late_s:.0f} s ago; an administrator makes a"
                " new one: koala user add"
            )
        return Caller(name=record.name, role=record.role, kind=Kind.USER)

    def _save(self) -> None:
        write_private(self._path, msgspec.json.format(msgspec.json.encode(self._file), indent=1))


def site_picture(record: SiteRecord) -> dict[str, Any]:
    """What may be shown of a site's enrolment."""
    return {
        "site": record.name,
        "owner": record.owner or None,
        "state": record.state,
        "by": record.by,
        "added_at": record.added_at,
        "joined_at": record.joined_at or None,
        "expires_at": record.expires_at if record.serial else None,
        "join_expires_at": record.join_expires_at if record.is_awaited else None,
        "revoked_at": record.revoked_at or None,
        "certificate": record.serial or None,
    }


def user_picture(record: UserRecord) -> dict[str, Any]:
    """What may be shown of a user."""
    kind = "token" if record.token_id else "certificate" if record.serial else None
    return {
        "user": record.name,
        "role": record.role.value,
        "state": record.state,
        "shows": kind,
        "by": record.by,
        "added_at": record.added_at,
        "expires_at": record.expires_at,
        "revoked_at": record.revoked_at or None,
    }


def _check_name(pattern: re.Pattern[str], what: str, name: str) -> None:
    if not pattern.fullmatch(name):
        allowed = "letters, digits and ._- (users also @), 1 to 64 characters"
        raise SpecError(f"{what} {name[:80]!r}: allowed are {allowed}")


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
