"""Commands for access control: user, audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from koala.cli.arguments import (
    Whole,
    Words,
    daemon_options,
    examples,
    offered,
    option,
    read_instant,
)
from koala.cli.lazy_group import LazyGroup
from koala.cli.output import note, print_answer, print_json, print_list, terminal_width
from koala.cli.requests import ask

if TYPE_CHECKING:
    from koala.client import AsyncClient
    from koala.views.records.access import User

HERE = "koala.cli.admin.users"
LINES_MAX = 100_000
REFUSED = "refused"
"""Begin of the outcome of a call that was refused."""

user = LazyGroup(
    "user",
    {"": {"add": f"{HERE}:add", "list": f"{HERE}:list_users", "revoke": f"{HERE}:revoke"}},
    help="Add, list and revoke users.",
    no_args_is_help=True,
)
ROLES = ("user", "operator", "administrator")
name_argument = click.argument("name", help="The user's name.", **offered(names_of="user"))


@examples(
    "koala user add ann",
    "koala user add oncall --role operator",
)
@click.command
@name_argument
@option(
    "--role", type=Words(ROLES), default="user",
    help="Rights: an operator manages sites and all jobs, an administrator also users.",
)  # fmt: skip
@option(
    "--expires", default="0", metavar="TIME", help="Lifetime, such as 12h or 90d; 0: no expiry."
)
@daemon_options
def add(*, name: str, role: str, expires: str, json: bool, address: str | None) -> None:
    """Add a user and print the user's credentials, only once.

    Save them as ~/.config/koala/credentials.toml with mode 0600. They replace the user's earlier
    credentials. For administrators.
    """
    from koala.cli.arguments import read_duration
    from koala.common.identity.credentials import Credentials, credentials_text

    expires_s = read_duration("--expires", expires)

    async def request(client: AsyncClient) -> tuple[User, str]:
        return await client.add_user(name, role=role, expires_s=expires_s), client.address

    made, dialled = ask(address, request)
    there = made.address or dialled
    if json:
        print_json({**made.document, "address": there})
        return
    assert made.token is not None
    assert made.ca is not None
    found = Credentials(address=there, user=name, token=made.token, authority=made.ca.encode())
    note(f"the credentials of {name}, {made.role}; they are not shown again")
    print(credentials_text(found), end="")


@click.command("list")
@daemon_options
def list_users(*, json: bool, address: str | None) -> None:
    """List the added users."""
    from koala.cli.render.documents import users_text

    users = ask(address, lambda client: client.users())
    print_list("users", users, lambda: users_text(users, width=terminal_width()), as_json=json)


@click.command
@name_argument
@daemon_options
def revoke(*, name: str, json: bool, address: str | None) -> None:
    """Revoke a user's credentials. The user's jobs stay."""
    user = ask(address, lambda client: client.revoke_user(name))
    print_answer(user, lambda: f"{name}  {user.state}", as_json=json)


@click.command
@option("--last", type=Whole(1, LINES_MAX), default=50, help="Only the newest N.")
@option("--user", default="", metavar="USER", help="Only calls of this user.")
@option("--since", metavar="INSTANT", help="Only calls since then: 12h, yesterday, or ISO 8601.")
@option("--verb", default="", metavar="CALL", help="Only these calls, such as Submit or AddSite.")
@option("--refused", is_flag=True, help="Only calls that were refused.")
@daemon_options
def audit(
    *,
    last: int,
    user: str,
    since: str | None,
    verb: str,
    refused: bool,
    json: bool,
    address: str | None,
) -> None:
    """Show the audit log: calls that changed something or were refused. For administrators."""
    from koala.cli.render.documents import audit_text

    since_at = read_instant("--since", since)
    is_filtered = bool(user or verb or refused or since_at is not None)
    newest = LINES_MAX if is_filtered else last
    lines = [
        line
        for line in ask(address, lambda client: client.audit(last=newest))
        if user in ("", line.who)
        and verb.lower() in ("", line.verb.lower())
        and (not refused or line.outcome.startswith(REFUSED))
        and (since_at is None or line.at.timestamp() >= since_at)
    ][-last:]
    print_list("lines", lines, lambda: audit_text(lines, width=terminal_width()), as_json=json)
