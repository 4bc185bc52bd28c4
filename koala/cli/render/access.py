"""Access-control documents as text: enrolments, users, audit log. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from koala.cli.render.documents import moment
from koala.cli.render.table import Document, column, table


def enrolments_text(sites: Sequence[Document], *, width: int | None = None) -> str:
    """Format `koala site list`: one line a site."""
    heads = (
        column("SITE", "site"),
        column("STATE", "state"),
        column("OWNER", lambda site: site["owner"] or "-", rank=1),
        column("JOINED", lambda site: moment(site["joined_at"]), rank=3),
        column("VALID UNTIL", lambda site: moment(site["expires_at"] or site["join_expires_at"])),
        column("BY", "by", rank=2),
    )
    return table(heads, sites, width=width)


def users_text(users: Sequence[Document], *, width: int | None = None) -> str:
    """Format `koala user list`: one line a user."""
    heads = (
        column("USER", "user"),
        column("ROLE", "role"),
        column("STATE", "state"),
        column("VALID UNTIL", lambda user: moment(user["expires_at"]), rank=1),
        column("BY", "by", rank=2),
    )
    return table(heads, users, width=width)


def audit_text(lines: Sequence[Document], *, width: int | None = None) -> str:
    """Format `koala audit`: one line a call."""
    heads = (
        column("AT", "at"),
        column("WHO", "who"),
        column("ROLE", "role", rank=2),
        column("FROM", "from", rank=1),
        column("VERB", "verb"),
        column("OBJECT", "object"),
        column("OUTCOME", "outcome"),
    )
    return table(heads, lines, width=width)
