"""What of an ended claim goes to the daemon's spool: its named output files, and what its processes
wrote to standard output and error.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from koala_agent.claim_states import Claim
from koala_agent.files.names import is_name
from koala_agent.files.orders import Uploaded, UploadOrder

OUTPUTS, LOGS = "outputs", "logs"
"""Where `AccountWork.fetch` puts what it copies, below the claim's part of the spool."""


def upload_order(claim: Claim, folder: Path, relay: str) -> UploadOrder:
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


def wanted_files(claim: Claim, folder: Path) -> dict[str, Path]:
    """The same files of a claim that runs as an account, by the place that each gets in the agent's
    own spool."""
    program = claim.hold.program
    directory = folder / program.directory
    outputs = {f"{OUTPUTS}/{n}": directory / n for n in program.output_files if is_name(n)}
    return outputs | {f"{LOGS}/{name}": path for name, path in _logs(claim, folder, directory)}


def fetched_order(claim: Claim, fetched: dict[str, Path], spool: Path, relay: str) -> UploadOrder:
    """The order for what was fetched from an account."""
    logs = {name.removeprefix(f"{LOGS}/"): path for name, path in fetched.items()}
    return UploadOrder(
        claim=claim.id,
        label=claim.hold.program.label,
        token=claim.hold.store_token,
        relay=relay,
        folder=spool / OUTPUTS,
        outputs=claim.hold.program.output_files,
        logs={n: path for n, path in logs.items() if "/" not in n and _has_bytes(path)},
    )


def not_fetched(claim: Claim, fetched: dict[str, Path]) -> str:
    """Which outputs an account did not have."""
    names = [n for n in claim.hold.program.output_files if f"{OUTPUTS}/{n}" not in fetched]
    return f"missing: {', '.join(names)}" if names else ""


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
