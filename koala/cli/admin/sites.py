"""Commands for the grid: sites, site, drain, resume, files, metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from koala.cli.arguments import Address, Json
from koala.cli.connection import ask, is_coloured, say, show_json, width

if TYPE_CHECKING:
    from koala.client import Client

POLL_S = 0.5

SiteArgument = Annotated[str, typer.Argument(metavar="SITE", help="The site's name.")]
OptionalSite = Annotated[
    str | None, typer.Argument(metavar="SITE", help="The site's name, unless --all is given.")
]
AllSites = Annotated[bool, typer.Option("--all", help="All sites that the daemon knows.")]


def sites_commands(_words: Sequence[str] = ()) -> typer.Typer:
    """Build the group `koala sites`, which lists, with `koala sites lost`."""
    group = typer.Typer(
        help="List the sites, or declare one lost (lost).",
        invoke_without_command=True,
        rich_markup_mode=None,
    )
    group.callback()(_list)
    group.command("lost")(lost)
    return group


def _list(context: typer.Context, json: Json = False, address: Address = None) -> None:
    """List the sites with state, processors, idle processors and consecutive errors."""
    if context.invoked_subcommand is not None:
        context.obj = (json, address)
        return
    from koala.cli.render.documents import sites_text

    sites = ask(address, lambda client: client.sites())
    if json:
        show_json(sites)
    else:
        print(sites_text(sites, width=width(), coloured=is_coloured()))


def lost(
    context: typer.Context, site: SiteArgument, json: Json = False, address: Address = None
) -> None:
    """Declare a site lost: confirm that no program of Koala runs there.

    Jobs that waited for the site may then start elsewhere. Programs that still run at the site
    would then run twice.
    """
    json_before, address_before = context.obj  # given before `lost`
    source = context.get_parameter_source("address")
    is_own = source is not None and source.name == "COMMANDLINE"
    _change(site, "lost", json or json_before, address if is_own else address_before)


def site_commands(_words: Sequence[str] = ()) -> typer.Typer:
    """Build the group `koala site`: enrolment of sites."""
    group = typer.Typer(
        help="Enrol and revoke sites (add, list, revoke).",
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
        str, typer.Option("--owner", metavar="USER", help="Only jobs of this user use the site.")
    ] = "",
    ttl: Annotated[
        str,
        typer.Option("--ttl", metavar="TIME", help="Lifetime of the token: 30m, 12h, 7d."),
    ] = "24h",
    json: Json = False,
    address: Address = None,
) -> None:
    """Enrol a site: print the command to run there.

    The command has a join token, which works once and expires. For a site that has joined before,
    the command makes a new certificate and revokes the old one. For operators.
    """
    from koala.cli.arguments import read_duration
    from koala.errors import SpecError

    ttl_s = read_duration("--ttl", ttl)
    if not ttl_s:
        raise SpecError(f"--ttl {ttl!r}: allowed is a time that is not 0, as in 12h")
    enrolment = ask(address, lambda client: client.add_site(site, owner=owner, ttl_s=ttl_s))
    if json:
        show_json(enrolment)
        return
    say(f"koala site: on the login node of {site}, within {ttl}, where its CONFIG.toml is:")
    print(f"koala-agent join CONFIG.toml <<'TOKEN'\n{enrolment['token']}\nTOKEN")


def enrolled(json: Json = False, address: Address = None) -> None:
    """List the enrolled sites with the state of their certificates."""
    from koala.cli.render.access import enrolments_text

    sites = ask(address, lambda client: client.enrolments())
    if json:
        show_json(sites)
    else:
        print(enrolments_text(sites, width=width()))


def revoke(site: SiteArgument, json: Json = False, address: Address = None) -> None:
    """Revoke a site: close its link and revoke its certificates.

    Its jobs run until their leases expire. `koala site add` enrols it again. For operators.
    """
    enrolment = ask(address, lambda client: client.revoke_site(site))
    if json:
        show_json(enrolment)
    else:
        print(f"{site}  {enrolment['state']}")


def drain(
    site: OptionalSite = None,
    every: AllSites = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Return when no claim is left at the site.")
    ] = False,
    json: Json = False,
    address: Address = None,
) -> None:
    """Drain a site, or all sites: no new claims; running jobs continue.

    The drain lasts until koala resume, also over restarts. Ctrl-C ends the waiting, not the drain.
    """
    _change_all(_chosen(site, every), "drain", json, address, is_awaited=wait)


def resume(
    site: OptionalSite = None,
    every: AllSites = False,
    json: Json = False,
    address: Address = None,
) -> None:
    """Use a site, or all sites, again and reset the error count."""
    _change_all(_chosen(site, every), "resume", json, address, is_awaited=False)


def files(
    what: Annotated[
        str, typer.Argument(metavar="[list]", help="Only `list` is allowed; it is the default.")
    ] = "list",
    json: Json = False,
    address: Address = None,
) -> None:
    """List logical files and the sites of their replicas."""
    from koala.cli.render.documents import files_text
    from koala.errors import SpecError

    if what != "list":
        raise SpecError(f"{what!r}: allowed is `koala files` or `koala files list`")
    entries = ask(address, lambda client: client.files())
    if json:
        show_json(entries)
    else:
        print(files_text(entries, width=width()))


def metrics(json: Json = False, address: Address = None) -> None:
    """Show the daemon's metrics."""
    from koala.cli.render.documents import metrics_text

    document = ask(address, lambda client: client.metrics())
    if json:
        show_json(document)
    else:
        print(metrics_text(document))


def _chosen(site: str | None, every: bool) -> str | None:
    """Chosen site; None means all. Raises SpecError."""
    from koala.errors import SpecError

    if (site is None) is not every:
        raise SpecError("allowed is a SITE, or --all for all of them")
    return site


def _change_all(
    site: str | None, verb: str, json: bool, address: str | None, *, is_awaited: bool
) -> None:
    from koala.cli.render.documents import sites_text

    async def change(client: Client) -> list[dict[str, Any]]:
        names = [site] if site is not None else [entry["site"] for entry in await client.sites()]
        pictures = [await client.change_site(name, verb) for name in names]
        if is_awaited:
            await _until_empty(client, names)
            pictures = [entry for entry in await client.sites() if entry["site"] in names]
        return pictures

    pictures = ask(address, change)
    if json:
        show_json(pictures if site is None else pictures[0])
    else:
        print(sites_text(pictures, width=width(), coloured=is_coloured()))


async def _until_empty(client: Client, names: list[str]) -> None:
    """Wait until no claim is left at these sites; print the held processors when they change."""
    import asyncio

    printed = ""
    while True:
        held = [s for s in await client.sites() if s["site"] in names and s["claimed"]]
        if not held:
            return
        text = ", ".join(f"{entry['site']} {entry['claimed']}" for entry in held)
        if text != printed:
            say(f"koala drain: processors that are still held: {text}")
        printed = text
        await asyncio.sleep(POLL_S)


def _change(site: str, verb: str, json: bool, address: str | None) -> None:
    from koala.cli.render.documents import sites_text

    picture = ask(address, lambda client: client.change_site(site, verb))
    if json:
        show_json(picture)
    else:
        print(sites_text([picture], width=width(), coloured=is_coloured()))
