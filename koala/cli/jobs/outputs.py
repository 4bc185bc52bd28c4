"""`koala outputs`: which files a job has left, and fetching them."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from koala.cli.arguments import Address, Component, JobName, Json, chosen_component
from koala.cli.connection import ask, say, show_json, width
from koala.errors import KoalaError, RejectedError

if TYPE_CHECKING:
    from koala.client import Client
    from koala.wire.v1.koala_pb2 import OutputPart


def outputs(
    job: JobName,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FOLDER", help="Fetch them into this folder."),
    ] = None,
    component: Component = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    json: Json = False,
    address: Address = None,
) -> None:
    """List the output files of a job that has Finished, or fetch them.

    Each is in a folder that is named after its component's label, or index. With --to it appears
    below FOLDER when it is whole; the paths are printed at the end.
    """
    from koala.cli.render.documents import outputs_text
    from koala.cli.render.progress_bar import progress

    chosen = chosen_component(component)

    async def question(client: Client) -> list[dict[str, Any]]:
        names = client.outputs(job, component=chosen, is_names_only=True)
        files: list[dict[str, Any]] = [
            {"name": part.name, "size_bytes": part.size_bytes} async for part in names
        ]
        if to is None or not files:
            return files
        _make_ready(to, [] if force else [file["name"] for file in files])
        with progress(job, sum(file["size_bytes"] for file in files)) as tell:
            paths = await fetch(client.outputs(job, component=chosen), to, tell)
        return [{**file, "path": str(to / file["name"])} for file in files if file["name"] in paths]

    files = ask(address, question)
    if json:
        show_json({"job": job, "files": files})
    elif files:
        print(outputs_text(files, width=width()))
    else:
        say(f"{job} has no output files")


async def fetch(
    parts: AsyncIterator[OutputPart], to: Path, tell: Callable[[float], None]
) -> set[str]:
    """Writes files below a folder from parts that come one file after the other, each whole or not
    at all, and names them. `tell` is told how many bytes have come. Raises OSError, SpecError for a
    name that leads elsewhere, KoalaError when a file was cut off."""
    from koala.files.confined_folder import Folder

    names = set()
    before_bytes = 0
    part = await anext(parts, None)
    while part is not None:
        name, size_bytes, come_bytes = part.name, part.size_bytes, 0
        beside = to / f".koala-{secrets.token_hex(8)}.part"
        try:
            with beside.open("xb") as file:
                while (part := await anext(parts, None)) is not None and part.data:
                    file.write(part.data)
                    come_bytes += len(part.data)
                    tell(before_bytes + come_bytes)
            if come_bytes != size_bytes:
                raise KoalaError(f"{name}: {come_bytes} of {size_bytes} bytes came")
            Folder(to).take(beside, name)
        finally:
            beside.unlink(missing_ok=True)
        names.add(name)
        before_bytes += come_bytes
    return names


def _make_ready(to: Path, names: Iterable[str]) -> None:
    """The folder is there, and none of these files in it. Raises RejectedError, OSError."""
    there = [name for name in names if (to / name).exists()]
    if there:
        more = f" and {len(there) - 1} more" if there[1:] else ""
        raise RejectedError(f"{to / there[0]}{more}: there already; --force replaces what is there")
    to.mkdir(parents=True, exist_ok=True)
