"""Records of access control as text: enrolments, users, audit log. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from koala.cli.render.documents import moment
from koala.cli.render.table import column, table
from koala.views.records.access import AuditLine, Enrolment, User


def enrolments_text(sites: Sequence[Enrolment], *, width: int | None = None) -> str:
    """Format `koala site list`: one line a site."""
    heads = (
        column("SITE", "site"),
        column("STATE", "state"),
        column("OWNER", lambda site: site.owner or "-", rank=1),
        column("JOINED", lambda site: moment(site.joined_at), rank=3),
        column("VALID UNTIL", lambda site: moment(site.expires_at or site.join_expires_at)),
        column("BY", "by", rank=2),
    )
    return table(heads, sites, width=width)


def users_text(users: Sequence[User], *, width: int | None = None) -> str:
    """Format `koala user list`: one line a user."""
    heads = (
        column("USER", "user"),
        column("ROLE", "role"),
        column("STATE", "state"),
        column("VALID UNTIL", lambda user: moment(user.expires_at), rank=1),
        column("BY", "by", rank=2),
    )
    return table(heads, users, width=width)


def audit_text(lines: Sequence[AuditLine], *, width: int | None = None) -> str:
    """Format `koala audit`: one line a call."""
    heads = (
        column("AT", "time"),
        column("WHO", "who"),
        column("ROLE", "role", rank=2),
        column("FROM", "source", rank=1),
        column("VERB", "verb"),
        column("OBJECT", "object"),
        column("OUTCOME", "outcome"),
    )
    return table(heads, lines, width=width)
