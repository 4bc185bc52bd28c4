"""Enrolments of sites, users, the audit log."""

from __future__ import annotations

from datetime import datetime

import msgspec

from koala.views.records.base import Moment, Record


class Enrolment(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A site that was added."""

    site: str
    """Its name."""
    owner: str | None
    """Its owner; null: all users."""
    state: str
    """awaited, enrolled, expired, token expired or revoked."""
    by: str
    """Operator who added it."""
    added_at: Moment
    """When it was added."""
    joined_at: Moment | None
    """When it joined; null: it has not."""
    expires_at: Moment | None
    """Expiry of its certificate."""
    join_expires_at: Moment | None
    """Expiry of its join token."""
    revoked_at: Moment | None
    """When it was revoked; null: it was not."""
    certificate: str | None
    """Number of its certificate."""
    token: str | None = None
    """Join token, in the result of `add_site` only."""

    def __repr__(self) -> str:  # without the token
        return f"Enrolment(site={self.site!r}, state={self.state!r})"


class Enrolments(Record, frozen=True, kw_only=True):
    """All sites that were ever added."""

    sites: tuple[Enrolment, ...] = ()
    """The sites, in order of name."""


class Limits(Record, frozen=True, kw_only=True):
    """Limits of a user or a group; null: none."""

    processors: int | None = None
    """Processors of placed jobs."""
    gpus: int | None = None
    """GPUs of placed jobs."""
    jobs: int | None = None
    """Placed jobs."""
    hold_s: float | None = None
    """Processor-seconds that claims may hold before their barrier in 24 hours."""
    shares: float = 1.0
    """Weight in fair share."""


class User(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A user that was added."""

    user: str
    """Its name."""
    role: str
    """user, operator or administrator."""
    state: str
    """good, invited, expired or revoked."""
    shows: str | None
    """Proof that it shows to the daemon: `token`, or null."""
    by: str
    """Administrator who added it."""
    added_at: Moment
    """When it was added."""
    expires_at: Moment | None
    """When its credentials expire; null: never."""
    revoked_at: Moment | None
    """When it was revoked; null: it was not."""
    used_at: Moment | None = None
    """Day of its last call, as of at most a day ago; null: it has made none."""
    group: str = ""
    """Group of jobs that name none; empty: none."""
    limits: Limits | None = None
    """Its limits; null: none."""
    token: str | None = None
    """Token, in the result of `add_user` only."""
    ca: str | None = None
    """Certificate of the daemon's authority, in the result of `add_user` only."""
    address: str | None = None
    """Address of the daemon as its configuration gives it, likewise."""

    def __repr__(self) -> str:  # without the token
        return f"User(user={self.user!r}, role={self.role!r}, state={self.state!r})"


class Users(Record, frozen=True, kw_only=True):
    """All users that were ever added."""

    users: tuple[User, ...] = ()
    """The users, in order of name."""


class Group(Record, frozen=True, kw_only=True):
    """A group of users, whose jobs count for it."""

    group: str
    """Its name."""
    members: tuple[str, ...] = ()
    """Its members, in order of name."""
    limits: Limits | None = None
    """Its limits; null: none."""
    jobs: int = 0
    """Jobs of it that are placed."""
    processors: int = 0
    """Processors of these jobs."""
    gpus: int = 0
    """GPUs of these jobs."""
    held_s: float = 0.0
    """Processor-seconds that claims of it have held, or may hold, in the last 24 hours."""
    by: str = ""
    """Administrator who added it."""
    added_at: Moment
    """When it was added."""


class Groups(Record, frozen=True, kw_only=True):
    """Groups of users."""

    groups: tuple[Group, ...] = ()
    """The groups, in order of name."""


class WaitingNotification(Record, frozen=True, kw_only=True):
    """A notification that could not be delivered yet, or at all."""

    channel: str
    """mail or webhook."""
    target: str
    """Its receiver."""
    since: Moment
    """When it was to be delivered."""
    next_at: Moment | None
    """When it is tried again; null: it was given up."""
    tries: int
    """Number of tries."""
    trouble: str
    """Reason of the last failure."""


class Notifications(Record, frozen=True, kw_only=True):
    """Receivers and events of a user's notifications."""

    mail: str = ""
    """Address; empty: none."""
    webhook: str = ""
    """URL; empty: none."""
    on: tuple[str, ...] = ()
    """Events: start, end, failure, setback, expiry."""
    key: str = ""
    """Key that signs the user's webhooks."""
    waiting: tuple[WaitingNotification, ...] = ()
    """The newest that are not delivered."""


class AuditLine(Record, frozen=True, kw_only=True):
    """A call that changed something, or that was refused."""

    time: str = msgspec.field(default="", name="at")
    """When it was made (ISO 8601)."""
    who: str = ""
    """The caller."""
    role: str = ""
    """Its role."""
    source: str = msgspec.field(default="", name="from")
    """Its address."""
    verb: str = ""
    """The call."""
    object: str = ""
    """Object of the call."""
    outcome: str = ""
    """Outcome of the call."""

    @property
    def at(self) -> datetime:
        """When it was made."""
        return datetime.fromisoformat(self.time)


class AuditLines(Record, frozen=True, kw_only=True):
    """The newest lines of the audit log."""

    audit: tuple[AuditLine, ...] = ()
    """The lines, oldest first."""
