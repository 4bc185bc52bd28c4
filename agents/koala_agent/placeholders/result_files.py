"""Result files of an ended claim that go to the daemon's spool: named outputs, and logs.

A job names its files and the directory of its program. Where the agent may read more than the
program may, only files below the claim's folder are collected, whatever the job says.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from koala.files.orders import Uploaded, UploadOrder
from koala.protocol.messages import Program
from koala_agent.claims.states import Claim


def upload_order(claim: Claim, folder: Path, *, relay: str, may_leave: bool = False) -> UploadOrder:
    """Return the upload order of a claim. Empty logs are left out."""
    program = claim.hold.program
    return UploadOrder(
        claim=claim.id,
        label=program.label,
        token=claim.hold.store_token,
        relay=relay,
        folder=folder,
        outputs=output_paths(program),
        may_leave=may_leave,
        logs={name: path for name, path in log_paths(program).items() if _has_bytes(folder / path)},
    )


def output_paths(program: Program) -> dict[str, str]:
    """Return the path of each named output, relative to the claim's folder; it may lead out of
    it."""
    folder = PurePosixPath(program.directory or "")
    return {name: str(folder / name) for name in program.output_files}


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
