"""`koala files` and its commands: list, add, where, remove."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.exceptions import Exit

from koala.cli.arguments import daemon_options, examples, file, offered, option
from koala.cli.lazy_group import LazyGroup
from koala.cli.output import is_json, note, print_answer, print_json, print_table, screen
from koala.cli.requests import ask
from koala.errors import RejectedError, SpecError

if TYPE_CHECKING:
    from koala.client import AsyncClient
    from koala.client.records import AddedFile, ReplicaFile

HERE = "koala.cli.files"

name_argument = click.argument("name", help="Name of the file, as `koala files` lists it.")


@click.group(
    cls=LazyGroup,
    sections={
        "": {
            "list": f"{HERE}:list_files",
            "add": f"{HERE}:add",
            "where": f"{HERE}:where",
            "remove": f"{HERE}:remove",
        }
    },
    invoke_without_command=True,
)
@daemon_options
@click.pass_context
def files(context: click.Context) -> None:
    """List, add or remove the files that jobs read.

    Without a command, list the files with their sizes and sites.
    """
    if context.invoked_subcommand is None:
        _list()


@click.command("list")
@daemon_options
def list_files() -> None:
    """List the files that your jobs can read, with their sites."""
    _list()


@examples(
    "koala files add ocean.nc --site delft",
    "koala files add ocean --as 2029 --shared",
)
@click.command
@click.argument("path", type=file, metavar="FILE", help="File or folder of this machine.")
@option(
    "--site", "sites", multiple=True, metavar="SITE", **offered(names_of="site"),
    help="The site that takes it.", unset="the largest",
)  # fmt: skip
@option("--as", "name", default="", metavar="NAME", help="Its name.", unset="the name it has")
@option("--there", is_flag=True, help="FILE is a path at the site, where it is already.")
@option("--shared", is_flag=True, help="Everybody's jobs may read it.")
@daemon_options
def add(*, path: Path, sites: Sequence[str], name: str, there: bool, shared: bool) -> None:
    """Add a file, or a folder of files, to a site.

    Jobs then name it in inputFile. A folder NAME becomes files NAME/...; inputFile=NAME/ means all.
    After a cut the same command goes on where it stopped. The file appears once it is complete.
    """
    from koala.client.uploads import files_below
    from koala.common.runtime.progress_bar import progress

    if there:
        if not sites:
            raise SpecError("--there without --site (expected the site where the file is)")

        async def take(client: AsyncClient) -> list[AddedFile]:
            return [
                await client.add_file_there(str(path), site=site, name=name, is_shared=shared)
                for site in sites
            ]

        _show_added(ask(take))
        return
    files, left_out = files_below(path)
    found = [(one, _renamed(own, path.resolve().name, name)) for one, own in files]
    for link in left_out:
        note(f"{link} is left out: a symbolic link that leads out of the folder, or nowhere")
    if not found:
        raise SpecError(f"{path}: the folder has no files")
    whole = sum(one.stat().st_size for one, _ in found) * max(1, len(sites))

    async def request(client: AsyncClient) -> list[AddedFile]:
        added, before = [], 0
        with progress(path.name or str(path), max(1, whole)) as update:
            for site in sites or ("",):
                for one, own in found:
                    entry = await client.add_file(
                        one,
                        name=own,
                        site=site,
                        is_shared=shared,
                        progress=partial(_advance, update, before),
                    )
                    added.append(entry)
                    before += entry.size_bytes
        return added

    _show_added(ask(request))


@click.command
@name_argument
@daemon_options
def where(*, name: str) -> None:
    """Show the sites that hold a file, or all files of a folder."""
    from koala.cli.render.documents import FILES
    from koala.cli.render.table import table

    async def request(client: AsyncClient) -> list[ReplicaFile]:
        user = (await client.hello()).user
        wanted = [f"~{user}/{name}", name]
        found = await client.files()
        chosen = [
            entry
            for entry in found
            if any(
                entry.file == name or (name.endswith("/") and entry.file.startswith(name))
                for name in wanted
            )
        ]
        if not chosen:
            raise RejectedError(f"no file {name!r}: `koala files` lists all")
        return chosen

    entries = ask(request)
    print_answer({"files": entries}, lambda: table(FILES, entries, screen()))


@click.command
@name_argument
@option(
    "--site", default="", metavar="SITE", help="Remove it from this site only.",
    **offered(names_of="site"),
)  # fmt: skip
@daemon_options
def remove(*, name: str, site: str) -> None:
    """Remove one of your files from its sites.

    A file that a job still needs cannot be removed. Files of a site are its administrator's.
    """
    removed = ask(lambda client: client.remove_file(name, site=site))
    if is_json():
        print_json(removed)
    else:
        for site_name in removed.removed:
            print(f"{removed.file}  removed from {site_name}")
    if removed.left:
        note(f"{removed.file} is still at {', '.join(removed.left)}, which did not answer:"
             " try again when it is connected")  # fmt: skip
        raise Exit(1)


def _list() -> None:
    from koala.cli.render.documents import FILES

    entries = ask(lambda client: client.files())
    print_table("files", FILES, entries)


def _show_added(entries: Sequence[AddedFile]) -> None:
    print_answer(
        {"files": entries},
        lambda: "\n".join(f"{entry.file}  at {entry.site}" for entry in entries),
    )


def _advance(update: Callable[[float], None], before: int, here: int) -> None:
    update(before + here)


def _renamed(name: str, base: str, wanted: str) -> str:
    """Replace the first part of a name, which is that of the added file or folder."""
    return name if not wanted else wanted.rstrip("/") + name.removeprefix(base)
