"""Staging of a client: the files that a description stages are packed and uploaded.

`stage=yes` means the executable itself; other words are files and folders of this machine. A file
is unpacked under its own name, a folder with its name.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path

from koala.client.connection import Connection
from koala.client.uploads import LocalFile, Progress, files_below, send
from koala.common.files.archives import pack
from koala.errors import SpecError

LINKS_NAMED = 3
"""Links that a warning names."""


async def stage(
    daemon: Connection,
    text: str,
    definitions: Mapping[str, str],
    progress: Progress = lambda _: None,
) -> tuple[dict[str, str], list[str]]:
    """Upload what a description stages; return `checksum:size` of each component's archive, by its
    index, and warnings. A wrong description stages nothing: the daemon says what is wrong. Raises
    SpecError."""
    from koala.job_descriptions import read_job  # noqa: PLC0415 - late, for clients to start fast

    try:
        spec = (await asyncio.to_thread(read_job, text, definitions)).spec
    except SpecError:
        return {}, []
    archives: dict[tuple[str, ...], str] = {}
    staged: dict[str, str] = {}
    left_out: list[str] = []
    for index, component in enumerate(spec.components):
        if not component.stage:
            continue
        words = (component.executable,) if component.stage == ("yes",) else component.stage
        if words not in archives:
            archives[words] = await _archive(daemon, words, progress, left_out)
        staged[str(index)] = archives[words]
    if not left_out:
        return staged, []
    more = f" and {len(left_out) - LINKS_NAMED} more" if len(left_out) > LINKS_NAMED else ""
    names = ", ".join(left_out[:LINKS_NAMED])
    return staged, [
        f"stage: {names}{more} left out: symbolic links that lead out of the folder, or nowhere"
    ]


async def _archive(
    daemon: Connection, words: tuple[str, ...], progress: Progress, left_out: list[str]
) -> str:
    """Pack and upload files; return the archive's `checksum:size`. What is `left_out` is added."""
    named: dict[str, Path] = {}
    for word in words:
        files, links = await asyncio.to_thread(files_below, Path(word))
        left_out += links
        for path, name in files:
            if named.setdefault(name, path) != path:
                raise SpecError(f"stage: {path} and {named[name]} have the same name, {name}")
    with tempfile.TemporaryDirectory(prefix="koala-stage-") as folder:
        target = Path(folder, "archive.tar")
        await asyncio.to_thread(pack, [(path, name) for name, path in named.items()], target)
        local = await LocalFile.read(target)
        await send(daemon, local, progress)
    return f"{local.checksum}:{local.size_bytes}"
