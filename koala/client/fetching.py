"""Output files of a job, written below a folder."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

from koala.client.records import OutputFile, OutputPart
from koala.errors import KoalaError, RejectedError


def prepare_folder(folder: str | Path, names: Iterable[str]) -> Path:
    """Make the folder, and check that it has none of these files. Raises RejectedError, OSError."""
    target = Path(folder)
    existing = [name for name in names if (target / name).exists()]
    if existing:
        more = f" and {len(existing) - 1} more" if existing[1:] else ""
        raise RejectedError(
            f"{target / existing[0]}{more}: exists; --force (force=True) replaces existing files"
        )
    target.mkdir(parents=True, exist_ok=True)
    return target


async def write_files(
    parts: AsyncIterator[OutputPart], to: Path, progress: Callable[[int], None] | None = None
) -> list[OutputFile]:
    """Write the files of a stream of parts below a folder, each atomically.

    `progress` receives the number of bytes so far. Raises OSError, SpecError for a name outside
    the folder, KoalaError for a truncated file.
    """
    from koala.common.files.confined_folder import Folder  # noqa: PLC0415 - rarely needed

    files: list[OutputFile] = []
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
                    if progress is not None:
                        progress(before_bytes + received_bytes)
            if received_bytes != size_bytes:
                raise KoalaError(f"{name}: only {received_bytes} of {size_bytes} bytes arrived")
            Folder(to).take(beside, name)
        finally:
            beside.unlink(missing_ok=True)
        files.append(OutputFile(name=name, size_bytes=size_bytes, path=to / name))
        before_bytes += received_bytes
    return files
