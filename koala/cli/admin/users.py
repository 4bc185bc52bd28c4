"""Commands for access control: user, audit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from koala.cli.arguments import Address, Json
from koala.cli.connection import ask, say, show_json, width

if TYPE_CHECKING:
    from koala.client import Client

UserArgument = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]
ROLES = "user, operator or administrator"


def user_commands(_words: Sequence[str] = ()) -> typer.Typer:
    """Build the group `koala user`: add, list, revoke."""
    group = typer.Typer(
        help="Add and revoke users (add, list, revoke).",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command("add")(add)
    group.command("list")(list_users)
    group.command("revoke")(revoke)
    return group


def add(
    name: UserArgument,
    role: Annotated[str, typer.Option("--role", metavar="ROLE", help=f"One of {ROLES}.")] = "user",
    expires: Annotated[
        str,
        typer.Option("--expires", metavar="TIME", help="Lifetime: 12h, 90d; 0: no expiry."),
    ] = "0",
    json: Json = False,
    address: Address = None,
) -> None:
    """Add a user and print the user's credentials, only once.

    Save them as ~/.config/koala/credentials.toml with mode 0600. They replace the user's earlier
    credentials. For administrators.
    """
    from koala.cli.arguments import read_duration
    from koala.identity.credentials import Credentials, credentials_text

    expires_s = read_duration("--expires", expires)

    async def request(client: Client) -> dict[str, Any]:
        made = await client.add_user(name, role=role, expires_s=expires_s)
        return {**made, "address": client.address}

    made = ask(address, request)
    if json:
        show_json(made)
        return
    found = Credentials(
        address=made["address"], user=name, token=made["token"], authority=made["ca"].encode()
    )
    say(f"koala user: the credentials of {name}, {made['role']}; they are not shown again")
    print(credentials_text(found), end="")


def list_users(json: Json = False, address: Address = None) -> None:
    """List the added users."""
    from koala.cli.render.access import users_text

    users = ask(address, lambda client: client.users())
    if json:
        show_json(users)
    else:
        print(users_text(users, width=width()))


def revoke(name: UserArgument, json: Json = False, address: Address = None) -> None:
    """Revoke a user's credentials. The user's jobs stay."""
    picture = ask(address, lambda client: client.revoke_user(name))
    if json:
        show_json(picture)
    else:
        print(f"{name}  {picture['state']}")


def audit(
    last: Annotated[
        int, typer.Option("--last", metavar="N", min=1, max=100_000, help="Only the newest N.")
    ] = 50,
    json: Json = False,
    address: Address = None,
) -> None:
    """Show the audit log: calls that changed something or were refused. For administrators."""
    from koala.cli.render.access import audit_text

    lines = ask(address, lambda client: client.audit(last=last))
    if json:
        show_json(lines)
    else:
        print(audit_text(lines, width=width()))
