"""What of an ended claim goes to the daemon's spool: its named output files, and what its processes
wrote to standard output and error.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from koala_agent.claim_states import Claim
from koala_agent.files.orders import Uploaded, UploadOrder


def upload_order(claim: Claim, folder: Path, *, relay: str) -> UploadOrder:
    """The order for one claim. Logs that nobody wrote to are not worth a file."""
    program = claim.hold.program
    directory = folder / program.directory
    return UploadOrder(
        claim=claim.id,
        label=program.label,
        token=claim.hold.store_token,
        relay=relay,
        folder=directory,
        outputs=program.output_files,
        logs={name: path for name, path in _logs(claim, folder, directory) if _has_bytes(path)},
    )


def missing(results: tuple[Uploaded, ...]) -> str:
    """What was not brought back of the outputs, for a person; a lost log fails no job."""
    return "; ".join(result.error for result in results if result.error and not result.is_log)


def _logs(claim: Claim, folder: Path, directory: Path) -> Iterator[tuple[str, Path]]:
    """Names in the spool and paths at the site (a job may name its own files)."""
    program = claim.hold.program
    for process in range(program.processes):
        for stream, named in (("stdout", program.stdout), ("stderr", program.stderr)):
            name = f"{stream}.{process}"
            own = named if program.processes == 1 else f"{named}.{process}"
            yield name, directory / own if named else folder / name


def _has_bytes(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size > 0
    except OSError:
        return False
