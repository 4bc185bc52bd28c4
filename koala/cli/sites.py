"""Commands about the grid: sites, drain, resume, files, metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from koala.cli.connection import ask, is_coloured, show_json, width
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
