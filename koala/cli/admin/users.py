"""Commands for access control: user, audit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
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
    certificate: Annotated[
        Path | None,
        typer.Option(
            "--certificate",
            metavar="FILE",
            help="Write a key and certificate to this file instead of making a token.",
        ),
    ] = None,
    json: Json = False,
    address: Address = None,
) -> None:
    """Add a user and print the user's credentials, only once.

    Save them as ~/.config/koala/credentials.toml with mode 0600. They replace the user's earlier
    credentials. For administrators.
    """
    from koala.cli.arguments import read_duration
    from koala.errors import SpecError

    expires_s = read_duration("--expires", expires)
    if certificate is not None and certificate.exists():
        name_of = str(certificate)
        raise SpecError(f"--certificate {name_of!r} exists: allowed is the name of a new file")

    async def request(client: Client) -> dict[str, Any]:
        if certificate is None:
            made = await client.add_user(name, role=role, expires_s=expires_s)
        else:
            made = await _certified(client, name, role, expires_s, certificate)
        return {**made, "address": client.address}

    made = ask(address, request)
    if json:
        show_json(made)
        return
    from koala.identity.credentials import Credentials, credentials_text

    found = Credentials(
        address=made["address"],
        user=name,
        token=made.get("token", ""),
        authority=made["ca"].encode(),
    )
    say(f"koala user: the credentials of {name}, {made['role']}; they are not shown again")
    shown = "" if certificate is None else str(certificate.resolve())
    print(credentials_text(found, certificate=shown), end="")


async def _certified(
    client: Client, name: str, role: str, expires_s: float, path: Path
) -> dict[str, Any]:
    """Add a user with a certificate.

    The key is made here and written to disk before the daemon is called. Only the signing request
    leaves this machine.
    """
    from koala.errors import ConfigError, SpecError
    from koala.identity.keys import make_request
    from koala.identity.private_files import write_private
    from koala.identity.tls import Identity

    key, signing_request = make_request(name)
    try:
        write_private(path, key)
    except OSError as error:
        text = f"--certificate {str(path)!r} cannot be written: {error.strerror}"
        raise SpecError(f"{text}: allowed is the name of a new file") from error
    try:
        made = await client.add_user(name, role=role, expires_s=expires_s, request=signing_request)
    except BaseException:
        path.unlink(missing_ok=True)  # noqa: ASYNC240 - nothing else runs here
        raise
    identity = Identity(
        key=key, certificate=made["certificate"].encode(), authority=made["ca"].encode()
    )
    try:
        identity.write(path)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}: the daemon knows {name} now, but there is"
            f" no certificate; remove the file, and add {name} again"
        ) from error
    return made


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
