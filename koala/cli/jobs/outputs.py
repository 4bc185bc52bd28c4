"""`koala outputs`: list and fetch the output files of a job."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from koala.cli.arguments import (
    chosen_component,
    component_option,
    daemon_options,
    file,
    job_argument,
    option,
)
from koala.cli.connection import ask, say, show_json, width
from koala.errors import KoalaError, RejectedError

if TYPE_CHECKING:
    from koala.client import Client
    from koala.wire.v1.koala_pb2 import OutputPart


@click.command
@job_argument
@option("--to", type=file, metavar="FOLDER", help="Fetch the files into this folder.")
@component_option
@option("--force", is_flag=True, help="Replace existing files.")
@daemon_options
def outputs(
    *,
    job: str,
    to: Path | None,
    component: str | None,
    force: bool,
    json: bool,
    address: str | None,
) -> None:
    """List or fetch the output files of a Finished job.

    Each file is in a folder named after its component's label, or index. With --to a file appears
    in FOLDER once it is complete; the paths are printed at the end.
    """
    from koala.cli.render.documents import outputs_text
    from koala.cli.render.progress_bar import progress

    chosen = chosen_component(component)

    async def request(client: Client) -> list[dict[str, Any]]:
        names = client.outputs(job, component=chosen, is_names_only=True)
        files: list[dict[str, Any]] = [
            {"name": part.name, "size_bytes": part.size_bytes} async for part in names
        ]
        if to is None or not files:
            return files
        _prepare_folder(to, [] if force else [one["name"] for one in files])
        with progress(job, sum(one["size_bytes"] for one in files)) as update:
            paths = await fetch(client.outputs(job, component=chosen), to, update)
        return [{**one, "path": str(to / one["name"])} for one in files if one["name"] in paths]

    files = ask(address, request)
    if json:
        show_json({"job": job, "files": files})
    elif files:
        print(outputs_text(files, width=width()))
    else:
        say(f"{job} has no output files")


async def fetch(
    parts: AsyncIterator[OutputPart], to: Path, progress: Callable[[float], None]
) -> set[str]:
    """Write the files of a stream of parts below a folder, each atomically; return their names.

    `progress` receives the number of bytes so far. Raises OSError, SpecError for a name outside
    the folder, KoalaError for a truncated file.
    """
    from koala.files.confined_folder import Folder

    names = set()
    before_bytes = 0
    part = await anext(parts, None)
    while part is not None:
        name, size_bytes, received_bytes = part.name, part.size_bytes, 0
        beside = to / f".koala-{secrets.token_hex(8)}.part"
        try:
            with beside.open("xb") as written:
                while (part := await anext(parts, None)) is not None and part.data:
                    written.write(part.data)
                    received_bytes += len(part.data)
                    progress(before_bytes + received_bytes)
            if received_bytes != size_bytes:
                raise KoalaError(f"{name}: only {received_bytes} of {size_bytes} bytes arrived")
            Folder(to).take(beside, name)
        finally:
            beside.unlink(missing_ok=True)
        names.add(name)
        before_bytes += received_bytes
    return names


def _prepare_folder(to: Path, names: Iterable[str]) -> None:
    """Create the folder, and check that it has none of these files. Raises RejectedError,
    OSError."""
    existing = [name for name in names if (to / name).exists()]
    if existing:
        more = f" and {len(existing) - 1} more" if existing[1:] else ""
        raise RejectedError(f"{to / existing[0]}{more}: exists; --force replaces existing files")
    to.mkdir(parents=True, exist_ok=True)
