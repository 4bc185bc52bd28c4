"""The placeholder of a claim: its folder, the starter's specification, and its batch job.

FOLDER/                  the program's working directory; its outputs are collected from here
  stdout.N  stderr.N     of process N, unless the job names files
  placeholder.out        messages of the starter and of the batch system
  .koala/spec.json       for the starter; holds the claim's secret, so 0600
  .koala/bundle.json     for the program: the members of the job
  .koala/passed.json, end.json    written by the starter, for an agent that missed its report
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from pathlib import Path

from koala.common.files.archives import unpack
from koala.common.files.confined_folder import Folder, UnusableFileError, is_passing
from koala.common.protocol import messages
from koala.common.protocol.messages import Program
from koala.common.protocol.names import ClaimId, visible_name
from koala.common.protocol.queue_limits import NO_LIMITS, Times, hold_room_s, limit_of
from koala_agent.claims.bundle import build_bundle
from koala_agent.claims.folder import StarterRecord
from koala_agent.claims.settings import LeaseTimes
from koala_agent.claims.states import Claim
from koala_agent.lrm.local_manager import OUTPUT_FILE, EndCause, Ended, Placeholder
from koala_agent.placeholders.allowed_programs import check_program
from koala_agent.placeholders.batch_script import body
from koala_agent.placeholders.file_sync import SPEC_BYTES_MAX
from koala_agent.placeholders.launch_settings import LaunchSettings
from koala_agent.placeholders.logs import LogSource
from koala_agent.placeholders.portable_source import portable
from koala_agent.placeholders.starter_installation import starter_archive
from koala_agent.starter.messages import END_FILE, PASS_FILE
from koala_agent.starter.program import SPECIFICATION, STATE_FOLDER
from koala_agent.starter_link.codec import record_of

RECORD_MAX_BYTES = 1024 * 1024
DELIVER_S = 60.0
"""Part of a batch job's time limit that is left to transfer files back, where that takes time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """Data of a claim's folder that is to be made. Its starter finds the agent at the `port`, and
    its batch job may have these `times`."""

    claim: Claim
    port: int
    leases: LeaseTimes
    archive: Path | None = None
    times: Times = NO_LIMITS


def prepare(
    order: Preparation, settings: LaunchSettings, *, command: tuple[str, ...]
) -> Placeholder:
    """Make the claim's folder and specification, with the staged files of an archive; return its
    batch job. Its hold leaves the program its time. Raises OSError, SpecError for a wrong archive,
    and NotAllowedError for a program that the site does not allow."""
    claim, leases, archive, times = order.claim, order.leases, order.archive, order.times
    account = settings.account(claim.hold.owner)
    folder = settings.folder(claim.id)
    program = check_program(
        claim.hold.program, settings.executables, variables=settings.variables, work=folder
    )
    end_s = leases.kill_s + (0 if settings.shared else DELIVER_S)
    hold_s = min(claim.hold.hold_s, hold_room_s(program.wall_time_s, times, end_s))
    state = folder / STATE_FOLDER
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    staged = unpack(archive, folder) if archive is not None else []
    path = state / SPECIFICATION
    spec = specification(
        claim,
        settings,
        program=program,
        port=order.port,
        leases=leases,
    )
    spec |= {
        "hold_s": hold_s,
        "staged": staged,
        "fetches": spec["fetches"] or (bool(staged) and not settings.shared),
    }
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(json.dumps(spec).encode())
    new.replace(path)
    text = ""
    if not settings.shared:
        python = settings.python or sys.executable
        carried = starter_archive(by_files=bool(settings.mailbox))
        text = body(spec, archive=carried, python=python, scratch=settings.scratch)
    return Placeholder(
        claim=claim.id,
        processors=claim.hold.processors,
        time_limit_s=limit_of(hold_s, program.wall_time_s, end_s, times),
        argv=command if text else (*command, str(path)),
        body=text,
        may_kill=claim.hold.may_kill,
        directory=folder,
        resources=program.resources(),
        processes=program.processes,
        account=account,
        is_gated=claim.hold.is_gated,
        begins_at=claim.hold.begins_at,
    )


def specification(
    claim: Claim,
    settings: LaunchSettings,
    *,
    program: Program,
    port: int,
    leases: LeaseTimes,
) -> dict[str, object]:
    """Return everything that a starter must know, as the content of spec.json: what its class
    `Specification` reads, by the names of the fields."""
    hold = claim.hold
    _job, _attempt, component, _number = claim.id.rsplit("/", 3)
    itself = messages.Peer(
        component=int(component),
        label=program.label or component,
        site=settings.site,
        processors=hold.processors,
        processes=program.processes,
        address=settings.address,
        port=hold.port,
        claim=claim.id,
        job_type=program.job_type,
    )
    return {
        **_by_name(program),
        **_by_name(leases),
        "claim": claim.id,
        "secret": claim.secret,
        "agents": [] if settings.mailbox else [[address, port] for address in settings.agents],
        "mailbox": settings.mailbox,
        "folder": str(settings.folder(claim.id)),
        "batch": settings.rules.document(),
        "launcher": settings.launcher,
        "hold_s": hold.hold_s,
        "no_barrier": hold.no_barrier,
        "progress_s": hold.progress_s,
        "inputs": [visible_name(file.file) for file in hold.files],
        "bundle": build_bundle(claim.id, (itself,)),
        "shared": settings.shared,
        "fetches": bool(hold.files) and not settings.shared,
        "job_module": job_module() if program.is_malleable else "",
    }


@cache
def job_module() -> str:
    """Return the text of `koala.job` for the interpreters of compute nodes."""
    return portable((resources.files("koala") / "job.py").read_text(encoding="utf-8"))


def _by_name(value: Program | LeaseTimes) -> dict[str, object]:
    """Return the fields of a value that are not None."""
    contents = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: content for name, content in contents.items() if content is not None}


def why_unstarted(ended: Ended, settings: LaunchSettings) -> str:
    """Explain the exit statuses 126 and 127 of shells and account switches; else empty."""
    if ended.cause is not EndCause.EXITED or ended.exit_status not in (126, 127):
        return ""
    return (
        f"the starter ended with status {ended.exit_status} before it checked in, as when the"
        f" claim's account cannot execute {settings.python or sys.executable} (starter.python,"
        " Python 3.6 or newer)"
    )


def log_source(claim: ClaimId, settings: LaunchSettings, *, is_ended: bool) -> LogSource | None:
    """Locate the claim's output; None when its folder is gone."""
    folder = settings.folder(claim)
    spec = _read(folder, SPECIFICATION, SPEC_BYTES_MAX)
    if spec is None:
        return None
    directory = str(spec.get("directory", ""))
    named = [(stream, str(spec.get(stream, ""))) for stream in ("stdout", "stderr")]
    return LogSource(
        folder=folder,
        starter_log=OUTPUT_FILE,
        named=tuple((stream, str(Path(directory, name))) for stream, name in named if name),
        is_ended=is_ended,
    )


def read_record(claim: ClaimId, settings: LaunchSettings) -> StarterRecord | None:
    """Read the record of the claim's starter; None when there is no readable one. Raises OSError
    when the read failed for now."""
    folder = settings.folder(claim)
    return record_of(_read_surely(folder, PASS_FILE), _read_surely(folder, END_FILE))


def _read(folder: Path, name: str, bytes_max: int) -> dict[str, object] | None:
    """Read a JSON object; None when it is missing, unreadable or larger."""
    try:
        return _read_surely(folder, name, bytes_max)
    except OSError:
        return None


def _read_surely(
    folder: Path, name: str, bytes_max: int = RECORD_MAX_BYTES
) -> dict[str, object] | None:
    """Read a JSON object without following links, because the program can write here too.
    Raises OSError when our own machine or disk is at fault."""
    try:
        file = Folder(folder, is_followed=False).open(f"{STATE_FOLDER}/{name}")
        try:
            content = json.loads(file.read(bytes_max, 0))
        finally:
            file.close()
    except (OSError, UnusableFileError) as error:
        if is_passing(error):
            raise OSError(str(error)) from error
        return None
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
