"""Commands about the grid: sites, site, drain, resume, files, metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from koala.cli.connection import ask, is_coloured, say, show_json, width
from koala.cli.inputs import Address, Json

SiteArgument = Annotated[str, typer.Argument(metavar="SITE", help="The site's name.")]


def sites_commands(_words: Sequence[str] = ()) -> typer.Typer:
    """`koala sites`, which lists, and `koala sites lost`."""
    group = typer.Typer(
        help="List the sites, or give one up (lost).",
        invoke_without_command=True,
        rich_markup_mode=None,
    )
    group.callback()(_list)
    group.command("lost")(lost)
    return group


def _list(context: typer.Context, json: Json = False, address: Address = None) -> None:
    """List the sites: state, processors, idle ones, errors in a row."""
    if context.invoked_subcommand is not None:
        return
    from koala.cli.render import sites_text

    sites = ask(address, lambda client: client.sites())
    if json:
        show_json(sites)
    else:
        print(sites_text(sites, width=width(), coloured=is_coloured()))


def lost(site: SiteArgument, json: Json = False, address: Address = None) -> None:
    """Vouch that nothing of ours lives there.

    Jobs that waited for the site may then start elsewhere. If programs do live there still, they
    run twice.
    """
    _change(site, "lost", json, address)


def site_commands(_words: Sequence[str] = ()) -> typer.Typer:
    """`koala site`: which sites may register."""
    group = typer.Typer(
        help="Let sites join and see them off (add, list, revoke).",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command("add")(add)
    group.command("list")(enrolled)
    group.command("revoke")(revoke)
    return group


def add(
    site: SiteArgument,
    owner: Annotated[
        str, typer.Option("--owner", metavar="USER", help="Only jobs of this user see the site.")
    ] = "",
    ttl: Annotated[
        str,
        typer.Option("--ttl", metavar="TIME", help="How long the token is good: 30m, 12h, 7d."),
    ] = "24h",
    json: Json = False,
    address: Address = None,
) -> None:
    """Let a site join: print the command to run there.

    The command has a join token, which is good once, and not for long. For a site that has joined
    before the command makes a new certificate, and ends the old one. For operators.
    """
    from koala.cli.inputs import read_duration

    ttl_s = read_duration("--ttl", ttl)
    enrolment = ask(address, lambda client: client.add_site(site, owner=owner, ttl_s=ttl_s))
    if json:
        show_json(enrolment)
        return
    say(f"koala site: on the login node of {site}, within {ttl}, where its CONFIG.toml is:")
    print(f"koala-agent join CONFIG.toml <<'TOKEN'\n{enrolment['token']}\nTOKEN")


def enrolled(json: Json = False, address: Address = None) -> None:
    """List the sites that were added, and how they stand with their certificates."""
    from koala.cli.render_access import enrolments_text

    sites = ask(address, lambda client: client.enrolments())
    if json:
        show_json(sites)
    else:
        print(enrolments_text(sites, width=width()))


def revoke(site: SiteArgument, json: Json = False, address: Address = None) -> None:
    """See a site off: its link ends now, and no certificate of it is good any more.

    Its jobs run on until their leases end; `koala site add` lets it join anew. For operators.
    """
    enrolment = ask(address, lambda client: client.revoke_site(site))
    if json:
        show_json(enrolment)
    else:
        print(f"{site}  {enrolment['state']}")


def drain(site: SiteArgument, json: Json = False, address: Address = None) -> None:
    """Give a site no new claims; what runs there runs on."""
    _change(site, "drain", json, address)


def resume(site: SiteArgument, json: Json = False, address: Address = None) -> None:
    """Use a site again, and forget its errors."""
    _change(site, "resume", json, address)


def files(
    what: Annotated[
        str, typer.Argument(metavar="[list]", help="Only `list`, which is also the default.")
    ] = "list",
    json: Json = False,
    address: Address = None,
) -> None:
    """List logical files and where copies are."""
    from koala.cli.render import files_text
    from koala.errors import SpecError

    if what != "list":
        raise SpecError(f"{what!r}: allowed is `koala files` or `koala files list`")
    entries = ask(address, lambda client: client.files())
    if json:
        show_json(entries)
    else:
        print(files_text(entries, width=width()))


def metrics(json: Json = False, address: Address = None) -> None:
    """Show what the daemon counts."""
    from koala.cli.render import metrics_text

    document = ask(address, lambda client: client.metrics())
    if json:
        show_json(document)
    else:
        print(metrics_text(document))


def _change(site: str, verb: str, json: bool, address: str | None) -> None:
    from koala.cli.render import sites_text

    picture = ask(address, lambda client: client.change_site(site, verb))
    if json:
        show_json(picture)
    else:
        print(sites_text([picture], width=width(), coloured=is_coloured()))
