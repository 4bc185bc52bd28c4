"""`koala outputs`: list and fetch the output files of a job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from koala.cli.arguments import (
    chosen_component,
    component_option,
    daemon_options,
    examples,
    file,
    job_argument,
    option,
)
from koala.cli.output import is_json, print_json, say, screen
from koala.cli.requests import ask

if TYPE_CHECKING:
    from koala.client import AsyncClient
    from koala.client.records import OutputFile


@examples(
    "koala outputs j12",
    "koala outputs --to results j12",
)
@click.command
@job_argument
@option("--to", type=file, metavar="FOLDER", help="Fetch the files into this folder.")
@component_option
@option("--force", is_flag=True, help="Replace existing files.")
@daemon_options
def outputs(*, job: str, to: Path | None, component: str | None, force: bool) -> None:
    """List or fetch the output files of a Finished job.

    Each file is in a folder named after its component's label, site or index. With --to a file
    appears in FOLDER once it is complete; the paths are printed at the end.
    """
    from koala.cli.render.documents import outputs_text
    from koala.common.runtime.progress_bar import progress

    chosen = chosen_component(component)

    async def request(client: AsyncClient) -> list[OutputFile]:
        files = await client.list_outputs(job, component=chosen)
        if to is None or not files:
            return files
        with progress(job, sum(file.size_bytes for file in files)) as update:
            return await client.fetch_outputs(
                job, to, component=chosen, force=force, progress=update
            )

    files = ask(request)
    if is_json():
        print_json({"job": job, "files": [_plain(file) for file in files]})
    elif files:
        print(outputs_text(files, screen()))
    else:
        say(f"{job} has no output files")


def _plain(file: OutputFile) -> dict[str, object]:
    """Describe a file in JSON, with its path if it was fetched."""
    fetched = {} if file.path is None else {"path": str(file.path)}
    return {"name": file.name, "size_bytes": file.size_bytes, **fetched}
