"""Result files of an ended claim that go to the daemon's spool: named outputs, and logs.

A job names its files and the directory of its program. Where the agent may read more than the
program may, only files below the claim's folder are collected, whatever the job says.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from koala.common.files.confined_folder import Folder
from koala.common.files.orders import Uploaded, UploadOrder
from koala.common.protocol.messages import Program
from koala_agent.claims.states import Claim
from koala_agent.starter.files.output_patterns import chosen, matches

MATCHED_BYTES_MAX = 2**40
"""Most bytes of all outputs of a component that patterns match."""


def upload_order(
    claim: Claim,
    folder: Path,
    *,
    relay: str,
    may_leave: bool = False,
    matched: Mapping[str, str] | None = None,
) -> UploadOrder:
    """Return the upload order of a claim, with the `matched` outputs, without empty logs."""
    program = claim.hold.program
    return UploadOrder(
        claim=claim.id,
        label=program.label,
        token=claim.hold.store_token,
        relay=relay,
        folder=folder,
        outputs={**(matched or {}), **output_paths(program)},
        may_leave=may_leave,
        logs={name: path for name, path in log_paths(program).items() if _has_bytes(folder / path)},
    )


def output_paths(program: Program) -> dict[str, str]:
    """Return the path of each named output, relative to the claim's folder, or outside of it."""
    folder = PurePosixPath(program.directory or "")
    return {name: str(folder / name) for name in program.output_files}


def matched_paths(
    program: Program, folder: Path, *, may_leave: bool = False
) -> tuple[dict[str, str], str]:
    """Return the path of each output that a pattern matches, and the problem with them."""
    if not program.outputs:
        return {}, ""
    directory = program.directory or ""
    is_outside = directory.startswith("/") or ".." in directory.split("/")
    if is_outside and not may_leave:
        return {}, f"outputs: {directory} is not below the claim's folder"
    listed = Folder(folder / directory, is_followed=is_outside).listing()
    try:
        sizes = {name: stamp.size_bytes for name, stamp in listed}
    except OSError as error:
        return {}, f"outputs: the working folder: {error.strerror}"
    names, problem = chosen(program.outputs, sizes)
    size_bytes = sum(sizes[name] for name in names)
    if size_bytes > MATCHED_BYTES_MAX:
        return {}, f"outputs match {size_bytes} bytes (expected at most {MATCHED_BYTES_MAX})"
    return {name: str(PurePosixPath(directory) / name) for name in names}, problem


def is_matched(program: Program, path: str) -> bool:
    """Return True if a path in the claim's folder is an output that a pattern matches."""
    whole, directory = PurePosixPath(path), PurePosixPath(program.directory or "")
    if whole.is_absolute() or ".." in whole.parts or not whole.is_relative_to(directory):
        return False
    name = str(whole.relative_to(directory))
    return any(matches(pattern, name) for pattern in program.outputs)


def log_paths(program: Program) -> dict[str, str]:
    """Return the path of each log by its name in the spool; a job may name its own files."""
    folder = PurePosixPath(program.directory or "")
    paths = {}
    for process in range(program.processes):
        for stream, named in (("stdout", program.stdout), ("stderr", program.stderr)):
            name = f"{stream}.{process}"
            own = named if program.processes == 1 else f"{named}.{process}"
            paths[name] = str(folder / own) if named and own else name
    return paths


def missing(results: tuple[Uploaded, ...]) -> str:
    """Return which outputs were not brought back, for a person; a lost log fails no job."""
    return "; ".join(result.error for result in results if result.error and not result.is_log)


def _has_bytes(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size > 0
    except OSError:
        return False
