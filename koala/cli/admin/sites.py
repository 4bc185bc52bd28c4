"""Commands for the grid: site and its commands, files, metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from koala.cli.arguments import daemon_options, examples, offered, option, site_argument
from koala.cli.lazy_group import LazyGroup
from koala.cli.output import (
    is_json,
    note,
    print_answer,
    print_json,
    print_list,
    print_table,
    screen,
)
from koala.cli.requests import ask
from koala.errors import SpecError, UnknownSiteError

if TYPE_CHECKING:
    from koala.client import AsyncClient
    from koala.client.records import SiteStatus

POLL_S = 0.5
HERE = "koala.cli.admin.sites"

optional_site_argument = click.argument(
    "site",
    required=False,
    help="The site's name, unless --all is given.",
    **offered(names_of="site"),
)
all_option = option("--all", "every", is_flag=True, help="All sites that the daemon knows.")


class SiteGroup(LazyGroup):
    """Group that takes a single word that is none of its commands for a site to show."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the called command: `koala site atlas` is `koala site show atlas`."""
        is_alone = len(args) == 1 or args[1].startswith("-")
        is_site = is_alone and self.get_command(ctx, args[0]) is None
        return super().resolve_command(ctx, ["show", *args] if is_site else args)


@click.group(
    cls=SiteGroup,
    hidden={"show": f"{HERE}:show"},
    sections={
        "": {
            name: f"{HERE}:{name if name != 'list' else 'enrolled'}"
            for name in ("add", "list", "revoke", "drain", "resume", "lost")
        },
        "Over ssh": {
            "connect": "@site-connect",
            "login": "@site-login",
        },
    },
    invoke_without_command=True,
)
@daemon_options
@click.pass_context
def site(context: click.Context) -> None:
    """List, add, drain, resume or revoke sites.

    Without a command, list the sites with their state and processors. `koala site SITE` shows this
    one.
    """
    if context.invoked_subcommand is not None:
        return
    sites = ask(lambda client: client.sites())
    print_list(
        "sites",
        sites,
        lambda: _text(sites),
        empty="no site has joined; `koala site list` shows those that were added",
    )


@click.command
@site_argument
@daemon_options
def show(*, site: str) -> None:
    """Show a site with its state and processors."""
    from koala.cli.render.documents import more_lines

    sites = ask(lambda client: client.sites())
    shown = [entry for entry in sites if entry.site == site]
    if not shown:
        known = ", ".join(entry.site for entry in sites) or "none"
        raise UnknownSiteError(
            f"no site {site!r} (expected one of {known}); `koala site --help` lists the commands"
        )
    print_answer(shown[0], lambda: f"{_text(shown, is_detailed=True)}\n{more_lines(shown[0])}")


def _text(sites: Sequence[SiteStatus], *, is_detailed: bool = False) -> str:
    from koala.cli.render.documents import sites_text

    return sites_text(sites, screen(), is_detailed=is_detailed)


@click.command
@site_argument
@daemon_options
def lost(*, site: str) -> None:
    """Declare a site lost: confirm that no program of Koala runs there.

    Jobs that waited for the site may then start elsewhere. Programs that still run at the site
    would then run twice.
    """
    _change(site, "lost")


@examples(
    "koala site add atlas",
    "koala site add atlas --owner ann --ttl 2h",
)
@click.command
@site_argument
@option(
    "--owner", default="", metavar="USER", help="Only jobs of this user use the site.",
    unset="you, if your role is user; else everybody",
)  # fmt: skip
@option("--ttl", default="24h", metavar="TIME", help="Lifetime of the token: 30m, 12h, 7d.")
@daemon_options
def add(*, site: str, owner: str, ttl: str) -> None:
    """Enrol a site: print the command to run there.

    The command has a join token, which works once and expires. For a site that has joined before,
    the command makes a new certificate and revokes the old one. Operators add sites for everybody,
    users those that serve them alone.
    """
    from koala.cli.arguments import read_duration

    ttl_s = read_duration("--ttl", ttl)
    if not ttl_s:
        raise SpecError(f"--ttl {ttl!r} (expected a time that is not 0, as in 12h)")
    enrolment = ask(lambda client: client.add_site(site, owner=owner, ttl_s=ttl_s))
    if is_json():
        print_json(enrolment)
        return
    note(f"on the login node of {site}, within {ttl}, where its {site}.toml is:")
    print(f"koala-agent join {site}.toml <<'TOKEN'\n{enrolment['token']}\nTOKEN")


@click.command("list")
@daemon_options
def enrolled() -> None:
    """List the enrolled sites with the state of their certificates."""
    from koala.cli.render.documents import ENROLMENTS

    sites = ask(lambda client: client.enrolments())
    print_table("sites", ENROLMENTS, sites)


@click.command
@site_argument
@daemon_options
def revoke(*, site: str) -> None:
    """Revoke a site: close its link and revoke its certificates.

    Its jobs run until their leases expire. `koala site add` enrols it again. Users revoke
    sites that serve them alone, operators any.
    """
    enrolment = ask(lambda client: client.revoke_site(site))
    print_answer(enrolment, lambda: f"{site}  {enrolment.state}")


@click.command
@optional_site_argument
@all_option
@option("--wait", is_flag=True, help="Return when no claim is left at the site.")
@daemon_options
def drain(*, site: str | None, every: bool, wait: bool) -> None:
    """Drain a site, or all sites: no new claims; running jobs continue.

    The drain lasts until `koala site resume`, also over restarts. Ctrl-C ends the waiting, not the
    drain. Users may drain and resume a site that serves them alone.
    """
    _change(_chosen(site, every), "drain", is_awaited=wait)


@click.command
@optional_site_argument
@all_option
@daemon_options
def resume(*, site: str | None, every: bool) -> None:
    """Resume a drained site, or all sites; reset the error count."""
    _change(_chosen(site, every), "resume")


@click.command
@daemon_options
def metrics() -> None:
    """Show the daemon's metrics."""
    from koala.cli.render.documents import metrics_text

    shown = ask(lambda client: client.metrics())
    print_answer(shown, lambda: metrics_text(shown))


@click.command
@daemon_options
def queues() -> None:
    """Show the placement queues with the jobs at their heads."""
    from koala.cli.render.documents import queues_text

    shown = ask(lambda client: client.queues())
    print_answer(shown, lambda: queues_text(shown, screen()))


def _chosen(site: str | None, every: bool) -> str | None:
    """Return the chosen site; None means all. Raises SpecError."""
    if (site is None) is not every:
        raise SpecError("give a SITE, or --all")
    return site


def _change(site: str | None, verb: str, *, is_awaited: bool = False) -> None:
    async def change(client: AsyncClient) -> list[SiteStatus]:
        names = [site] if site is not None else [entry.site for entry in await client.sites()]
        sites = [await client.change_site(name, verb) for name in names]
        if is_awaited:
            await _until_empty(client, names)
            sites = [entry for entry in await client.sites() if entry.site in names]
        return sites

    sites = ask(change)
    print_answer(
        {"sites": sites} if site is None else sites[0],
        lambda: _text(sites),
    )


async def _until_empty(client: AsyncClient, names: list[str]) -> None:
    """Wait until no claim is left at these sites; print the held processors when they change."""
    import asyncio

    printed = ""
    while True:
        held = [s for s in await client.sites() if s.site in names and s.claimed]
        if not held:
            return
        text = ", ".join(f"{entry.site} {entry.claimed}" for entry in held)
        if text != printed:
            note(f"processors that are still held: {text}")
        printed = text
        await asyncio.sleep(POLL_S)
