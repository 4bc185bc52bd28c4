"""Access-control documents as text: enrolments, users, audit log. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from koala.cli.render.documents import NOTHING, Document, moment
from koala.cli.render.table import columns, table


def enrolments_text(sites: Sequence[Document], *, width: int | None = None) -> str:
    """Format `koala site list`: one line a site."""
    rows = [
        [
            site["site"],
            site["state"],
            site["owner"] or "everybody",
            moment(site["joined_at"], None),
            moment(site["expires_at"] or site["join_expires_at"], None),
            site["by"] or NOTHING,
        ]
        for site in sites
    ]
    return table(columns("SITE", "STATE", "FOR", "JOINED", "GOOD UNTIL", "BY"), rows, width=width)


def users_text(users: Sequence[Document], *, width: int | None = None) -> str:
    """Format `koala user list`: one line a user."""
    rows = [
        [
            user["user"],
            user["role"],
            user["state"],
            moment(user["expires_at"], None),
            user["by"],
        ]
        for user in users
    ]
    return table(columns("USER", "ROLE", "STATE", "GOOD UNTIL", "BY"), rows, width=width)


def audit_text(lines: Sequence[Document], *, width: int | None = None) -> str:
    """Format `koala audit`: one line a call."""
    rows = [
        [
            line["at"],
            line["who"] or NOTHING,
            line["role"] or NOTHING,
            line["from"],
            line["verb"],
            line["object"] or NOTHING,
            line["outcome"],
        ]
        for line in lines
    ]
    heads = columns("AT", "WHO", "ROLE", "FROM", "VERB", "OBJECT", "OUTCOME")
    return table(heads, rows, width=width)
