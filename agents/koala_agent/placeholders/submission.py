"""The placeholder of a claim: its folder, the starter's specification, and its batch job.

FOLDER/                  the program's working directory; its outputs are collected from here
  stdout.N  stderr.N     of process N, unless the job names files
  placeholder.out        messages of the starter and of the batch system
  .koala/spec.json       for the starter; holds the claim's secret, so 0600
  .koala/bundle.json     for the program: the members of the job
  .koala/passed.json, end.json    written by the starter, for an agent that missed its report
"""

from __future__ import annotations

import hashlib
import json
import marshal
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from importlib.util import MAGIC_NUMBER
from pathlib import Path

from koala.files.archives import unpack
from koala.files.confined_folder import Folder, UnusableFileError, is_passing
from koala.protocol import messages
from koala.protocol.messages import Program
from koala.protocol.names import ClaimId, visible_name
from koala.runtime.disk_formats import STARTER
from koala_agent.claims.bundle import build_bundle
from koala_agent.claims.folder import StarterRecord, folder_name
from koala_agent.claims.settings import Leases
from koala_agent.claims.states import Claim
from koala_agent.lrm.local_manager import OUTPUT_FILE, EndCause, Ended, Placeholder
from koala_agent.placeholders.allowed_programs import NotAllowedError, permitted
from koala_agent.placeholders.batch_script import archive, body
from koala_agent.placeholders.logs import LogSource
from koala_agent.placeholders.portable_source import portable
from koala_agent.starter.messages import END_FILE, PASS_FILE
from koala_agent.starter.program import SPECIFICATION, STATE_FOLDER
from koala_agent.starter_link.codec import record_of

STARTERS = ".starter"
"""Folder of the installed starters, among the claims' folders."""
PACKAGE = "koala_agent/starter"
"""Folder of the starter's modules in an installed starter."""
PYC_HEADER_BYTES = 16
CHECKSUM = "checksum"
BOOT = """\
import os, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from koala_agent.starter.driver import main
sys.exit(main(sys.argv))
"""
RECORD_MAX_BYTES = 1024 * 1024
DELIVER_S = 60.0
"""Part of a batch job's time limit that is left to transfer files back, where that takes time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSettings:
    """Settings of claims' folders and starters at this site.

    Starters find the agent at the addresses `agents`, or by files in the folder `mailbox`.
    `root` holds a folder for each claim; compute nodes see it if it is `shared`, else they make
    folders in `scratch` (default: their own scratch). `python` None means the interpreter of this
    agent, for which the starter is compiled ahead; any other may be as old as Python 3.6. `manager`
    names the kind of allocation, for the starter; `launcher` starts an MPI program. `executables`
    are the folders of allowed programs, none: any; `variables` are the environment variables that
    jobs may set for them. `accounts` maps grid users to the accounts of their claims; None: the
    agent's own account.
    """

    root: Path
    site: str
    address: str = "127.0.0.1"
    agents: tuple[str, ...] = ("127.0.0.1",)
    mailbox: str = ""
    python: str | None = None
    manager: str = ""
    launcher: tuple[str, ...] = ()
    executables: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    shared: bool = True
    scratch: str = ""
    accounts: Mapping[str, str] | None = None

    def account(self, user: str) -> str:
        """Return the account of a user's claims, empty for the agent's own. Raises NotAllowedError
        and never falls back: a claim of an earlier life may belong to a user who is no longer
        mapped."""
        if self.accounts is None:
            return ""
        if user not in self.accounts:
            raise NotAllowedError(f"a claim of {user or 'nobody'}: accounts.map has no account")
        return self.accounts[user]

    @property
    def shows_all(self) -> bool:
        """True when programs may read everything here that this agent may: any program, as its
        account, on its file system. Then collecting files for them discloses nothing."""
        return self.shared and self.accounts is None and not self.executables

    def folder(self, claim: ClaimId) -> Path:
        """The claim's folder."""
        return self.root / folder_name(claim)


def install_starter(settings: LaunchSettings) -> tuple[str, ...]:
    """Install the starter in a shared folder; return the beginning of its command. Without a shared
    file system batch jobs carry the starter.

    Each version has a folder of its own: waiting batch jobs keep the version that they were
    submitted with, and none finds a half-replaced one.
    """
    settings.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not settings.shared:
        # Here and once: Python 3.11 fails to parse in two threads at the same time.
        _archive(by_files=bool(settings.mailbox))
        return ("/bin/sh",)
    is_compiled = settings.python is None
    modules = _modules() if is_compiled else _portable_modules()
    mark = hashlib.sha256(repr((modules, is_compiled, sys.version)).encode()).hexdigest()[:16]
    folder = settings.root / STARTERS / mark
    name = "starter.pyc" if is_compiled else "starter.py"
    if not _is_whole(folder):
        (folder / PACKAGE).mkdir(mode=0o700, parents=True, exist_ok=True)
        for path, text in _files(modules):
            (folder / path).parent.mkdir(mode=0o700, exist_ok=True)
            _install(folder / path, text, is_compiled=is_compiled)
        (folder / CHECKSUM).write_text(_checksum(folder), encoding="ascii")
    return (settings.python or sys.executable, "-I", "-S", str(folder / name))


def is_installed(settings: LaunchSettings, command: tuple[str, ...]) -> bool:
    """Check that the starter of this command is still there, and complete."""
    return not settings.shared or _is_whole(Path(command[-1]).parent)


Stamps = tuple[tuple[str, int, int, int], ...]
"""Path, inode, size and change time in nanoseconds of each file: all is as it was while they are.
"""


def stamps_of(settings: LaunchSettings, command: tuple[str, ...]) -> Stamps:
    """Return the stamps of an installed starter's files; a tenth of the cost of `is_installed`."""
    return () if not settings.shared else tuple(sorted(_stamps(str(Path(command[-1]).parent))))


def _stamps(folder: str) -> Iterator[tuple[str, int, int, int]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _stamps(entry.path)
                else:
                    found = entry.stat(follow_symlinks=False)
                    yield entry.path, found.st_ino, found.st_size, found.st_ctime_ns
    except FileNotFoundError:
        return  # somebody has just removed it


def _is_whole(folder: Path) -> bool:
    """Verify the checksum of an installed starter: a power failure may leave empty files."""
    try:
        return (folder / CHECKSUM).read_text(encoding="ascii") == _checksum(folder)
    except (OSError, UnicodeDecodeError):
        return False


def _checksum(folder: Path) -> str:
    """Checksum of all modules below a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py*")):
        if path.parent.name == "__pycache__":
            continue  # compiled by an interpreter on its own
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


NOT_CARRIED = (
    "blocked/compiled.py",
    "resident/__init__.py",
    "resident/forked.py",
    "resident/parent.py",
    "resident/process_title.py",
)
"""Modules of the starter that only the agent's own machine runs."""
BY_FILES = "mailbox/"
"""Folder of the starter's modules for those that cannot dial."""


@cache
def _archive(*, by_files: bool) -> str:
    """The starter as an archive, for machines without a shared file system."""
    modules = [
        (name, text)
        for name, text in _portable_modules()
        if name not in NOT_CARRIED and (by_files or not name.startswith(BY_FILES))
    ]
    return archive(dict(_files(modules)))


def _files(modules: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return all files of the starter: its modules in their package, and what runs them."""
    inside = [(f"{PACKAGE}/{name}", text) for name, text in modules]
    return (("starter.py", BOOT), ("koala_agent/__init__.py", ""), *inside)


@cache
def _portable_modules() -> tuple[tuple[str, str], ...]:
    """Read all modules of the starter, for interpreters from Python 3.6 on."""
    return tuple((name, portable(text)) for name, text in _modules())


def _modules() -> tuple[tuple[str, str], ...]:
    """Read all modules of the starter, by their paths below its package."""
    package = Path(str(resources.files("koala_agent"))) / "starter"
    paths = sorted(package.rglob("*.py"))
    return tuple((str(p.relative_to(package)), p.read_text(encoding="utf-8")) for p in paths)


def _install(target: Path, text: str, *, is_compiled: bool) -> None:
    """Write a module, compiled if the interpreter is our own."""
    if is_compiled:
        target, content = target.with_suffix(".pyc"), _bytecode(target.name, text)
    else:
        content = text.encode()
    new = target.with_suffix(".new")
    new.write_bytes(content)
    new.replace(target)


@cache
def _bytecode(name: str, text: str) -> bytes:
    """Compile a module to the content of a .pyc file without a source, whose header holds nothing
    but the version of the byte code.

    Cached: to compile all modules takes 0.1 s, and each site of this process installs the same.
    """
    code = compile(text, name, "exec", dont_inherit=True)
    return MAGIC_NUMBER + bytes(PYC_HEADER_BYTES - len(MAGIC_NUMBER)) + marshal.dumps(code)


def prepare(
    claim: Claim,
    settings: LaunchSettings,
    *,
    command: tuple[str, ...],
    port: int,
    leases: Leases,
    input_path: str,
    archive: Path | None = None,
    gate: str = "",
) -> Placeholder:
    """Make the claim's folder and specification, with the staged files of an archive; return its
    batch job. Raises OSError, SpecError for a wrong archive, and NotAllowedError for a program that
    the site does not allow."""
    account = settings.account(claim.hold.owner)
    folder = settings.folder(claim.id)
    program = permitted(
        claim.hold.program, settings.executables, variables=settings.variables, work=folder
    )
    state = folder / STATE_FOLDER
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    staged = unpack(archive, folder) if archive is not None else []
    path = state / SPECIFICATION
    spec = specification(
        claim,
        settings,
        program=program,
        port=port,
        leases=leases,
        input_path=input_path,
        gate=gate,
    )
    spec |= {"staged": staged, "fetches": spec["fetches"] or (bool(staged) and not settings.shared)}
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(json.dumps(spec).encode())
    new.replace(path)
    text = ""
    if not settings.shared:
        python = settings.python or sys.executable
        carried = _archive(by_files=bool(settings.mailbox))
        text = body(spec, archive=carried, python=python, scratch=settings.scratch)
    wall_time_s = program.wall_time_s or math.inf
    return Placeholder(
        claim=claim.id,
        processors=claim.hold.processors,
        time_limit_s=claim.hold.hold_s + wall_time_s + leases.kill_s + (DELIVER_S if text else 0),
        argv=command if text else (*command, str(path)),
        body=text,
        may_kill=claim.hold.may_kill,
        directory=folder,
        resources=program.resources(),
        processes=program.processes,
        account=account,
    )


def specification(
    claim: Claim,
    settings: LaunchSettings,
    *,
    program: Program,
    port: int,
    leases: Leases,
    input_path: str,
    gate: str = "",
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
        claim=claim.id,
        job_type=program.job_type,
    )
    return {
        **_by_name(program),
        **_by_name(leases),
        "version": STARTER.newest,
        "claim": claim.id,
        "secret": claim.secret,
        "agents": [] if settings.mailbox else [[address, port] for address in settings.agents],
        "mailbox": settings.mailbox,
        "folder": str(settings.folder(claim.id)),
        "manager": settings.manager,
        "gate": gate,
        "launcher": settings.launcher,
        "hold_s": hold.hold_s,
        "no_barrier": hold.no_barrier,
        "progress_s": hold.progress_s,
        "input": input_path,
        "inputs": [visible_name(file.file) for file in hold.files],
        "bundle": build_bundle(claim.id, (itself,)),
        "shared": settings.shared,
        "fetches": bool(input_path) and not settings.shared,
    }


def _by_name(value: Program | Leases) -> dict[str, object]:
    """Return the fields of a value that are not None."""
    found = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: content for name, content in found.items() if content is not None}


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
    spec = _read(folder, SPECIFICATION)
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


def _read(folder: Path, name: str) -> dict[str, object] | None:
    """Read a small JSON object; None when it is missing or unreadable."""
    try:
        return _read_surely(folder, name)
    except OSError:
        return None


def _read_surely(folder: Path, name: str) -> dict[str, object] | None:
    """Read a small JSON object without following links, because the program can write here too.
    Raises OSError when our own machine or disk is at fault."""
    try:
        file = Folder(folder, is_followed=False).open(f"{STATE_FOLDER}/{name}")
        try:
            content = json.loads(file.read(RECORD_MAX_BYTES, 0))
        finally:
            file.close()
    except (OSError, UnusableFileError) as error:
        if is_passing(error):
            raise OSError(str(error)) from error
        return None
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
