"""Store of the credentials of sites and users: check tokens and certificates, add, renew, revoke.

- A site has at most one valid certificate, and two during its renewal. The old one is valid until
  the new one is first used, so a crash in between costs nothing. From then on the old one is
  refused and its use logged, which reveals a copied key.
- Secrets are stored as SHA-256: they are 256 random bits, so a slow hash is not needed.
- The file is replaced atomically at each change; changes are few.
- A change takes effect once it is written. One that cannot be written is refused and changes
  nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from koala.common.identity.keys import SKEW_S
from koala.common.identity.private_files import read_private, write_private
from koala.common.runtime.clock import unix_now
from koala.common.runtime.disk_formats import ENROLMENTS
from koala.common.runtime.disk_space import NO_ROOM
from koala.common.runtime.structured_log import get_logger
from koala.core.model.allowances import (
    NO_LIMITS,
    Allowance,
    Payer,
    group_payer,
    user_payer,
)
from koala.core.model.job_spec import Notify
from koala.core.model.values import SiteName, UserName
from koala.daemon.auth.access_rules import Caller, CallerKind, Role
from koala.daemon.auth.groups import GroupRecord, group_of, with_limits
from koala.errors import (
    ConfigError,
    ExhaustedError,
    KoalaError,
    RejectedError,
    SpecError,
    UnauthenticatedError,
    UnknownNameError,
)
from koala.views.records.access import Enrolment, Limits, User
from koala.views.records.base import Moment, moment_of

FILE = "enrolments.json"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@-]{0,63}")
USE_S = 86_400.0
JOIN_S = 86_400.0
JOIN_S_MAX = 30 * 86_400.0
TOKEN = "koala"
WRITE_AGAIN_S = 10.0

log = get_logger()


class SiteRecord(msgspec.Struct, kw_only=True):
    """Site with its join token while it is awaited, and its certificate afterwards."""

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
        """True while a join token of the site is valid."""
        return bool(self.join_hash) and self.join_expires_at > unix_now()

    @property
    def can_register(self) -> bool:
        """True when the site can register, now or once it has joined."""
        return self.state in ("enrolled", "awaited")

    @property
    def state(self) -> str:
        """State of the enrolment, for documents."""
        if self.serial and self.is_awaited and self.expires_at <= unix_now():
            return "awaited"
        if self.serial:
            return "enrolled" if self.expires_at > unix_now() else "expired"
        if self.is_awaited:
            return "awaited"
        return "revoked" if self.revoked_at else "token expired"

    @property
    def clock_trouble(self) -> str:
        """Reason why the newest certificate is not valid by this machine's clock; empty if it is.

        No connection by it succeeds, and the agent cannot tell why.
        """
        now, begins_at = unix_now(), self.issued_at - SKEW_S
        if not self.serial or begins_at <= now < self.expires_at:
            return ""
        limit = f"from {_utc(begins_at)}" if now < begins_at else f"until {_utc(self.expires_at)}"
        return f"its certificate is valid {limit}, and the daemon's clock says {_utc(now)}"


class UserRecord(msgspec.Struct, kw_only=True):
    """User with a token."""

    name: str
    role: Role
    by: str
    added_at: float
    token_id: str
    token_hash: str
    expires_at: float | None = None
    revoked_at: float = 0.0
    is_invitation: bool = False  # its token is good for a new one, and for nothing else
    lifetime_s: float = 0.0  # of the token for which an invitation is exchanged; 0: no expiry
    used_at: float = 0.0  # the last use, as of at most a day ago; 0: never
    group: str = ""  # of jobs that name none
    limits: Allowance = NO_LIMITS
    notify: Notify | None = None

    @property
    def is_good_administrator(self) -> bool:
        """True for an administrator with valid credentials."""
        return self.role is Role.ADMINISTRATOR and self.state == "good"

    @property
    def state(self) -> str:
        """State of the token, for documents."""
        if self.revoked_at:
            return "revoked"
        if self.expires_at is not None and self.expires_at <= unix_now():
            return "expired"
        return "invited" if self.is_invitation else "good"


class RegistrableSites(Mapping[SiteName, UserName | None]):
    """Sites that may register, with their owners: configured, enrolled and awaited ones.

    The configuration of a site wins.
    """

    def __init__(
        self, listed: Mapping[SiteName, UserName | None], enrolled: Mapping[str, SiteRecord]
    ) -> None:
        self._listed = listed
        self._enrolled = enrolled

    def __getitem__(self, site: SiteName) -> UserName | None:
        if site in self._listed:
            return self._listed[site]
        record = self._enrolled[site]
        if not record.can_register:
            raise KeyError(site)
        return UserName(record.owner) if record.owner else None

    def __iter__(self) -> Iterator[SiteName]:
        yield from self._listed
        for name, record in self._enrolled.items():
            if name not in self._listed and record.can_register:
                yield SiteName(name)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _File(msgspec.Struct, kw_only=True):
    """Content of the file."""

    format: int = ENROLMENTS.number
    sites: dict[str, SiteRecord] = {}
    users: dict[str, UserRecord] = {}
    groups: dict[str, GroupRecord] = {}


class CredentialStore:
    """Sites and users, with hashes of their tokens and serial numbers of their certificates.

    - Every change is durable when it returns; `changed` is called after each.
    - A change raises ExhaustedError on a full disk, and RejectedError when it cannot be written for
      another reason.
    - Revocations and renewals are written by `write_with_ballast`, which may use the ballast of a
      full disk. Additions are not: they can wait until there is room.
    """

    def __init__(
        self,
        folder: Path,
        write_with_ballast: Callable[[Callable[[], None]], None] = lambda write: write(),
        *,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """Read the file. Raises ConfigError."""
        self._changed = changed
        self._path = folder / FILE
        self._write_surely = write_with_ballast
        try:
            self._file = msgspec.json.decode(read_private(self._path), type=_File)
        except FileNotFoundError:
            self._file = _File()
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            message = f"{self._path}: cannot be read: {error}. {ENROLMENTS.remedy}"
            raise ConfigError(message) from error
        if reason := ENROLMENTS.refusal(self._file.format):
            raise ConfigError(f"{self._path}: {reason}")
        self._by_token = {u.token_id: u.name for u in self._file.users.values() if u.token_id}

    # --- sites ------------------------------------------------------------------------------------

    @property
    def sites(self) -> dict[str, SiteRecord]:
        """Sites by name."""
        return self._file.sites

    def add_site(self, name: str, *, owner: str, by: str, ttl_s: float = 0.0) -> str:
        """Create a join token and return its secret. Raises SpecError.

        It replaces an earlier token of the site. The site's certificate stays valid until the site
        joins again.
        """
        _check_name(NAME, "site", name)
        if owner:
            _check_name(USER, "owner", owner)
        if not 0 <= ttl_s <= JOIN_S_MAX:
            raise SpecError(f"ttl = {ttl_s:g} s (expected 0 to {JOIN_S_MAX:g}; 0 means a day)")
        secret = secrets.token_urlsafe(32)
        record = self.sites.get(name) or SiteRecord(name=name, by=by, added_at=unix_now())
        self._put_site(
            replace(
                record,
                owner=owner,
                by=by,
                join_hash=_hash(secret),
                join_expires_at=unix_now() + (ttl_s or JOIN_S),
            ),
            can_wait=True,
        )
        return secret

    def check_join(self, name: str, secret: str) -> SiteRecord:
        """Check the secret of a join token and return its site.

        Raises UnauthenticatedError, which does not distinguish a wrong secret from a site that is
        not awaited.
        """
        record = self.sites.get(name)
        known = record.join_hash if record is not None else ""
        is_right = hmac.compare_digest(known.encode(), _hash(secret).encode())
        if record is None or not known or not is_right:
            raise UnauthenticatedError(
                f"the join token of site {name[:64]!r} is not valid: it was used before, replaced"
                " or revoked, or is of another daemon; an operator makes a new one: koala site add"
            )
        if not record.is_awaited:
            late_s = unix_now() - record.join_expires_at
            raise UnauthenticatedError(
                f"the join token of site {name[:64]!r} expired {late_s:.0f} s ago; an operator"
                " makes a new one: koala site add"
            )
        return record

    def enrol(self, name: str, *, serial: str, expires_at: float) -> None:
        """Enrol a site: its join token is used up, and the certificate replaces an older one."""
        now = unix_now()
        self._put_site(
            replace(
                self.sites.get(name) or SiteRecord(name=name, by="", added_at=now),
                join_hash="",
                join_expires_at=0.0,
                serial=serial,
                next_serial="",
                expires_at=expires_at,
                joined_at=now,
                issued_at=now,
                revoked_at=0.0,
            )
        )

    def add_renewal(self, name: str, serial: str, expires_at: float) -> None:
        """Add a second certificate, which replaces the first when it is first used."""
        self._put_site(
            replace(
                self.sites[name], next_serial=serial, expires_at=expires_at, issued_at=unix_now()
            )
        )

    def check_site(self, name: str, serial: str) -> SiteRecord:
        """Check a site's certificate and return the site. Raises UnauthenticatedError."""
        record = self.sites.get(name)
        if record is None:
            raise UnauthenticatedError(f"site {name[:64]!r} is not enrolled here")
        if serial == record.next_serial and serial:
            return self._promoted(record)
        if serial != record.serial:
            what = "was revoked" if record.revoked_at else "was replaced by a newer one"
            raise UnauthenticatedError(
                f"the certificate {serial[:12]} of site {name} {what}: if no operator did that,"
                " somebody has a copy of its key; koala site add enrols it again"
            )
        return record

    def revoke_site(self, name: str) -> SiteRecord:
        """Revoke a site's certificates and join token. Raises UnknownNameError."""
        record = self.sites.get(name)
        if record is None:
            raise UnknownNameError(f"no site {name[:64]!r} was ever added")
        revoked = replace(
            record,
            serial="",
            next_serial="",
            join_hash="",
            join_expires_at=0.0,
            revoked_at=unix_now(),
        )
        self._put_site(revoked)
        return revoked

    # --- users ------------------------------------------------------------------------------------

    @property
    def users(self) -> dict[str, UserRecord]:
        """Users by name."""
        return self._file.users

    def add_user(
        self, name: str, role: Role, *, by: str, expires_s: float = 0.0, invited_s: float = 0.0
    ) -> str:
        """Create a user's token, which replaces an earlier one; group and limits stay.

        With `invited_s` the token is an invitation, to be exchanged in this time (`renew_token`).
        Raises SpecError.
        """
        _check_name(USER, "user", name)
        record = self.users.get(name) or UserRecord(
            name=name, role=role, by=by, added_at=unix_now(), token_id="", token_hash=""
        )
        lasts_s = invited_s or expires_s
        changed = replace(
            record,
            role=role,
            by=by,
            added_at=unix_now(),
            expires_at=unix_now() + lasts_s if lasts_s else None,
            revoked_at=0.0,
            is_invitation=bool(invited_s),
            lifetime_s=expires_s if invited_s else 0.0,
        )
        return self._give_token(changed)

    def renew_token(self, name: str) -> str:
        """Exchange a user's token, or an invitation, for a new token. One that is not an invitation
        keeps its expiry."""
        record = self._user(name)
        if record.is_invitation:
            expires_at = unix_now() + record.lifetime_s if record.lifetime_s else None
            record = replace(record, is_invitation=False, expires_at=expires_at)
        return self._give_token(record)

    def _give_token(self, record: UserRecord) -> str:
        """Store a user with a new token, and return it."""
        identity, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        self._put_user(replace(record, token_id=identity, token_hash=_hash(secret)), can_wait=True)
        return f"{TOKEN}_{identity}_{secret}"

    def user_of_token(self, token: str) -> Caller:
        """Authenticate a user by token. Raises UnauthenticatedError, which never shows it."""
        identity = token.split("_", 2)[1] if token.count("_") >= 2 else ""
        name = self._by_token.get(identity, "")
        record = self.users.get(name)
        known = record.token_hash if record is not None else ""
        secret = token.split("_", 2)[-1]
        is_right = hmac.compare_digest(known.encode(), _hash(secret).encode())
        if record is None or not known or not is_right:
            raise UnauthenticatedError(
                "the token is not valid: it was replaced or revoked, or is of another daemon; an"
                " administrator makes a new one: koala user add"
            )
        if record.expires_at is not None and record.expires_at <= unix_now():
            late_s = unix_now() - record.expires_at
            raise UnauthenticatedError(
                f"the token of {name} expired {late_s:.0f} s ago; an administrator makes a new"
                " one: koala user add"
            )
        self._note_use(record)
        return Caller(
            name=name,
            role=record.role,
            kind=CallerKind.USER,
            expires_at=record.expires_at,
            is_invited=record.is_invitation,
        )

    def _note_use(self, record: UserRecord) -> None:
        """Note that a user called, once a day: each note is a write."""
        if unix_now() - record.used_at < USE_S:
            return
        used = replace(record, used_at=unix_now())
        try:
            self._write(replace(self._file, users=self.users | {record.name: used}), can_wait=True)
        except KoalaError as error:  # what the user wants goes on all the same
            log.debug("user.use_not_noted", user=record.name, reason=str(error))
        self.users[record.name] = used

    def revoke_user(self, name: str) -> UserRecord:
        """Revoke a user's credentials. Raises UnknownNameError, SpecError."""
        revoked = replace(self._user(name), token_id="", token_hash="", revoked_at=unix_now())
        self._put_user(revoked)
        return revoked

    def set_user(
        self,
        name: str,
        *,
        role: Role | None = None,
        expires_s: float | None = None,
        group: str | None = None,
        limits: Mapping[str, str],
    ) -> UserRecord:
        """Change a user, whose token stays; None changes nothing, `expires_s` of 0 ends the expiry.

        Raises UnknownNameError, SpecError, RejectedError.
        """
        record = self._user(name)
        changed = replace(record, limits=with_limits(record.limits, limits))
        if role is not None:
            changed = replace(changed, role=role)
        if expires_s is not None:
            expires_at = unix_now() + expires_s if expires_s else None
            changed = replace(changed, expires_at=expires_at)
        if group is not None:
            changed = replace(changed, group=group_of(self.groups, name, group, ""))
        self._put_user(changed)
        return changed

    def set_notify(self, name: str, notify: Notify | None) -> None:
        """Change how a user is told of jobs and of the end of the credentials. Raises
        UnknownNameError, RejectedError."""
        self._put_user(replace(self._user(name), notify=notify), can_wait=True)

    # --- groups -----------------------------------------------------------------------------------

    @property
    def groups(self) -> dict[str, GroupRecord]:
        """Groups by name."""
        return self._file.groups

    def set_group(
        self,
        name: str,
        *,
        by: str,
        add: Sequence[str] = (),
        remove: Sequence[str] = (),
        limits: Mapping[str, str],
    ) -> GroupRecord:
        """Add or change a group; it is the default of new members that have none.

        Raises SpecError, UnknownNameError.
        """
        _check_name(NAME, "group", name)
        new = GroupRecord(name=name, by=by, added_at=unix_now())
        record = self.groups.get(name, new)
        for member in add:
            self._user(member)
        strangers = sorted(set(remove) - set(record.members))
        if strangers:
            known = ", ".join(record.members) or "none"
            raise UnknownNameError(f"{name} has no member {strangers[0][:64]!r} (it has {known})")
        members = (set(record.members) | set(add)) - set(remove)
        changed = replace(
            record, members=tuple(sorted(members)), limits=with_limits(record.limits, limits)
        )
        users = {
            member: replace(user, group=name)
            for member in add
            if not (user := self.users[member]).group or user.group not in self.groups
        }
        self._put_groups(self.groups | {name: changed}, users)
        return changed

    def remove_group(self, name: str) -> GroupRecord:
        """Remove a group: its members and their jobs stay. Raises UnknownNameError."""
        record = self.groups.get(name)
        if record is None:
            raise UnknownNameError(f"no group {name[:64]!r} was ever added")
        left = {key: group for key, group in self.groups.items() if key != name}
        users = {
            key: replace(user, group="") for key, user in self.users.items() if user.group == name
        }
        self._put_groups(left, users)
        return record

    def group_of_job(self, user: str, wanted: str) -> str:
        """Return the group that a job of this user counts for. Raises RejectedError."""
        record = self.users.get(user)
        return group_of(self.groups, user, wanted, "" if record is None else record.group)

    def allowances(self) -> tuple[tuple[Payer, Allowance], ...]:
        """Return the limits of all users and groups that have any."""
        every = [(user_payer(user.name), user.limits) for user in self.users.values()]
        every += [(group_payer(group.name), group.limits) for group in self.groups.values()]
        return tuple(sorted((payer, limits) for payer, limits in every if limits != NO_LIMITS))

    @property
    def has_administrator(self) -> bool:
        """True when any administrator has valid credentials."""
        return any(user.is_good_administrator for user in self.users.values())

    # --- parts ------------------------------------------------------------------------------------

    def _promoted(self, record: SiteRecord) -> SiteRecord:
        """Make a site's second certificate its only one.

        If that cannot be written, both stay valid: the daemon's full disk must not lock out a site.
        """
        promoted = replace(record, serial=record.next_serial, next_serial="")
        try:
            self._put_site(promoted)
        except RejectedError as error:
            log.warning("site.old_certificate_stays", site=record.name, reason=str(error))
            return record
        return promoted

    def _user(self, name: str) -> UserRecord:
        """Return a user. Raises UnknownNameError."""
        record = self.users.get(name)
        if record is None:
            raise UnknownNameError(f"no user {name[:64]!r} was ever added")
        return record

    def _put_groups(self, groups: dict[str, GroupRecord], users: dict[str, UserRecord]) -> None:
        """Store all groups, with the users that changed with them."""
        content = _File(sites=self.sites, users=self.users | users, groups=groups)
        self._write(content, can_wait=True)
        self._file = content
        self._changed()

    def _put_site(self, record: SiteRecord, *, can_wait: bool = False) -> None:
        sites = self.sites | {record.name: record}
        self._write(replace(self._file, sites=sites), can_wait=can_wait)
        self.sites[record.name] = record
        self._changed()

    def _put_user(self, record: UserRecord, *, can_wait: bool = False) -> None:
        """Store a user's record. Raises SpecError when no administrator would be left."""
        before, users = self.users.get(record.name), self.users | {record.name: record}
        was_good = before is not None and before.is_good_administrator
        if was_good and not any(user.is_good_administrator for user in users.values()):
            raise SpecError(f"{record.name} is the last administrator: add another one first")
        self._write(replace(self._file, users=users), can_wait=can_wait)
        if before is not None:
            self._by_token.pop(before.token_id, None)
        self.users[record.name] = record
        if record.token_id:
            self._by_token[record.token_id] = record.name
        self._changed()

    def _write(self, file: _File, *, can_wait: bool) -> None:
        content = msgspec.json.format(msgspec.json.encode(file), indent=1)

        def write() -> None:
            write_private(self._path, content)

        try:
            if can_wait:
                write()
            else:
                self._write_surely(write)
        except OSError as error:
            reason = f"{self._path} cannot be written ({error.strerror}): nothing was changed"
            if error.errno in NO_ROOM:
                raise ExhaustedError(reason, retry_after_s=WRITE_AGAIN_S) from error
            raise RejectedError(reason) from error


def enrolment_of(record: SiteRecord) -> Enrolment:
    """Describe a site's enrolment without secrets."""
    return Enrolment(
        site=record.name,
        owner=record.owner or None,
        state=record.state,
        by=record.by,
        added_at=Moment.of(record.added_at),
        joined_at=moment_of(record.joined_at or None),
        expires_at=moment_of(record.expires_at if record.serial else None),
        join_expires_at=moment_of(record.join_expires_at if record.is_awaited else None),
        revoked_at=moment_of(record.revoked_at or None),
        certificate=record.serial or None,
    )


def user_of(record: UserRecord) -> User:
    """Describe a user without secrets."""
    return User(
        user=record.name,
        role=record.role.value,
        state=record.state,
        shows="token" if record.token_id else None,
        by=record.by,
        added_at=Moment.of(record.added_at),
        expires_at=moment_of(record.expires_at),
        revoked_at=moment_of(record.revoked_at or None),
        used_at=moment_of(record.used_at or None),
        group=record.group,
        limits=limits_of(record.limits),
    )


def limits_of(allowance: Allowance) -> Limits | None:
    """Describe the limits of a user or group; None for none."""
    return None if allowance == NO_LIMITS else Limits(**asdict(allowance))


def _check_name(pattern: re.Pattern[str], what: str, name: str) -> None:
    if not pattern.fullmatch(name):
        allowed = "letters, digits and ._- (users also @), 1 to 64 characters"
        raise SpecError(f"{what} {name[:80]!r} (expected {allowed})")


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _utc(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
