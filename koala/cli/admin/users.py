"""Commands for access control: user, audit."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from koala.cli.admin.groups import limit_options, limits_of
from koala.cli.arguments import (
    OneOf,
    WholeNumber,
    daemon_options,
    examples,
    json_option,
    offered,
    option,
    read_instant,
)
from koala.cli.lazy_group import LazyGroup
from koala.cli.output import is_json, note, print_answer, print_json, print_table, screen
from koala.cli.requests import ask
from koala.errors import SpecError

if TYPE_CHECKING:
    from koala.client import AsyncClient
    from koala.views.records.access import User

HERE = "koala.cli.admin.users"
LINES_MAX = 100_000
REFUSED = "refused"
"""Begin of the outcome of a call that was refused."""

user = LazyGroup(
    "user",
    {
        "": {
            "add": f"{HERE}:add",
            "invite": f"{HERE}:invite",
            "set": f"{HERE}:set_user",
            "list": f"{HERE}:list_users",
            "revoke": f"{HERE}:revoke",
        }
    },
    help="Add, invite, change, list and revoke users.",
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
    "--role", type=OneOf(ROLES), default="user",
    help="Rights: an operator manages sites and all jobs, an administrator also users.",
)  # fmt: skip
@option(
    "--expires", default="0", metavar="TIME", help="Lifetime, such as 12h or 90d; 0: no expiry."
)
@daemon_options
def add(*, name: str, role: str, expires: str) -> None:
    """Add a user and print the user's credentials, only once.

    Save them as ~/.config/koala/credentials.toml with mode 0600. They replace the user's earlier
    credentials. For administrators.
    """
    from koala.cli.arguments import read_duration
    from koala.common.identity.credentials import Credentials, credentials_text

    expires_s = read_duration("--expires", expires)

    async def request(client: AsyncClient) -> tuple[User, str]:
        return await client.add_user(name, role=role, expires_s=expires_s), client.address

    made, dialled = ask(request)
    there = made.address or dialled
    if is_json():
        print_json({**made.document, "address": there})
        return
    assert made.token is not None
    assert made.ca is not None
    found = Credentials(address=there, user=name, token=made.token, authority=made.ca.encode())
    note(f"the credentials of {name}, {made.role}; they are not shown again")
    print(credentials_text(found), end="")


@examples(
    "koala user invite ann",
    "koala user invite oncall --role operator --ttl 2h",
)
@click.command
@name_argument
@option("--role", type=OneOf(ROLES), default="user", help="Rights, as in koala user add.")
@option("--ttl", default="24h", metavar="TIME", help="Lifetime of the invitation: 30m, 12h, 7d.")
@option(
    "--expires", default="0", metavar="TIME",
    help="Lifetime of the user's credentials, such as 90d; 0: no expiry.",
)  # fmt: skip
@daemon_options
def invite(*, name: str, role: str, ttl: str, expires: str) -> None:
    """Invite a user: print the command with which the user gets credentials, once.

    The invitation is good for nothing else, and expires. For administrators.
    """
    from koala.cli.arguments import read_duration
    from koala.common.identity.tls import Invitation

    ttl_s = read_duration("--ttl", ttl)
    if not ttl_s:
        raise SpecError(f"--ttl {ttl!r} (expected a time that is not 0, as in 12h)")
    expires_s = read_duration("--expires", expires)

    async def request(client: AsyncClient) -> tuple[User, str]:
        user = await client.add_user(name, role=role, expires_s=expires_s, invited_s=ttl_s)
        return user, client.address

    made, dialled = ask(request)
    there = made.address or dialled
    assert made.token is not None
    assert made.ca is not None
    text = Invitation(user=name, address=there, token=made.token, authority=made.ca.encode()).text()
    if is_json():
        print_json({**made.document, "address": there, "invitation": text})
        return
    note(f"for {name}, within {ttl}; it works once:")
    print(f"koala login <<'INVITATION'\n{text}\nINVITATION")


@examples("koala login", "koala login --out ann.toml")
@click.command
@option(
    "--out", metavar="FILE", help="File for the credentials.",
    unset="~/.config/koala/credentials.toml",
)  # fmt: skip
@json_option
def login(*, out: str | None) -> None:
    """Exchange an invitation for credentials, and store them.

    The invitation is read from standard input, as `koala user invite` prints it. An existing file
    is not overwritten.
    """
    from pathlib import Path

    from koala.common.identity.credentials import Credentials, own_file, write_credentials
    from koala.common.identity.tls import Invitation

    is_typed = sys.stdin.isatty()
    text = click.prompt("invitation", hide_input=True) if is_typed else sys.stdin.readline()
    invitation = Invitation.parse(text)
    path = own_file() if out is None else Path(out)
    if path.exists():
        raise SpecError(f"{path} exists (expected a new file: move it away, or use --out)")
    credentials = Credentials(
        address=invitation.address,
        user=invitation.user,
        token=invitation.token,
        authority=invitation.authority,
    )
    user = ask(lambda client: client.renew_token(), credentials=credentials)
    assert user.token is not None
    write_credentials(path, replace(credentials, token=user.token))
    if is_json():
        print_json({"user": user.user, "role": user.role, "credentials": str(path)})
        return
    print(f"{user.user}, {user.role}: credentials are in {path}")


@examples(
    "koala user set ann --role operator",
    "koala user set bob --expires 90d --processors 32",
)
@click.command("set")
@name_argument
@option("--role", type=OneOf(ROLES), help="New rights.", unset="unchanged")
@option(
    "--expires", metavar="TIME", help="New lifetime from now, such as 90d; 0: no expiry.",
    unset="unchanged",
)  # fmt: skip
@option(
    "--group", metavar="GROUP", help="Group of jobs that name none; one that the user is in.",
    unset="unchanged",
)  # fmt: skip
@limit_options
@daemon_options
def set_user(
    *,
    name: str,
    role: str | None,
    expires: str | None,
    group: str | None,
    **limits: str | None,
) -> None:
    """Change a user's rights, lifetime, group and limits. The token stays. For administrators."""
    from koala.cli.arguments import read_duration
    from koala.cli.render.documents import USERS
    from koala.cli.render.table import table

    expires_s = None if expires is None else read_duration("--expires", expires)
    changes = limits_of(limits)
    found = ask(
        lambda client: client.set_user(
            name, role=role or "", expires_s=expires_s, group=group, limits=changes
        )
    )
    print_answer(found, lambda: table(USERS, [found], screen()))


@click.command("list")
@daemon_options
def list_users() -> None:
    """List the added users."""
    from koala.cli.render.documents import USERS

    users = ask(lambda client: client.users())
    print_table("users", USERS, users)


@click.command
@name_argument
@daemon_options
def revoke(*, name: str) -> None:
    """Revoke a user's credentials. The user's jobs stay."""
    user = ask(lambda client: client.revoke_user(name))
    print_answer(user, lambda: f"{name}  {user.state}")


@click.command
@option("--last", type=WholeNumber(1, LINES_MAX), default=50, help="Only the newest N.")
@option("--user", default="", metavar="USER", help="Only calls of this user.")
@option("--since", metavar="INSTANT", help="Only calls since then: 12h, yesterday, or ISO 8601.")
@option("--verb", default="", metavar="CALL", help="Only these calls, such as Submit or AddSite.")
@option("--refused", is_flag=True, help="Only calls that were refused.")
@daemon_options
def audit(*, last: int, user: str, since: str | None, verb: str, refused: bool) -> None:
    """Show the audit log: calls that changed something or were refused. For administrators."""
    from koala.cli.render.documents import AUDIT

    since_at = read_instant("--since", since)
    is_filtered = bool(user or verb or refused or since_at is not None)
    newest = LINES_MAX if is_filtered else last
    lines = [
        line
        for line in ask(lambda client: client.audit(last=newest))
        if user in ("", line.who)
        and verb.lower() in ("", line.verb.lower())
        and (not refused or line.outcome.startswith(REFUSED))
        and (since_at is None or line.at.timestamp() >= since_at)
    ][-last:]
    print_table("lines", AUDIT, lines)
