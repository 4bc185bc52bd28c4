"""What a claim submits: its folder, the specification that its starter reads, and its batch job.

FOLDER/                  the program's working directory; its outputs are collected from here
  stdout.N  stderr.N     of process N, unless the job names files
  placeholder.out        what the starter says, and the batch system
  .koala/spec.json       for the starter; holds the claim's secret, so 0600
  .koala/bundle.json     for the program: who the members are
  .koala/passed.json, end.json    written by the starter, for an agent that missed it
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import py_compile
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from koala_agent import values
from koala_agent.claim_states import Claim
from koala_agent.logs import LogSource
from koala_agent.lrm.port import OUTPUT_FILE, Placeholder
from koala_agent.programs import permitted
from koala_agent.values import (
    ClaimId,
    End,
    EndKind,
    Leases,
    Program,
    StarterRecord,
    folder_name,
)

STATE_FOLDER = ".koala"
STARTERS = ".starter"
"""Where starters are installed, among the claims' folders."""
BOOT = """\
import sys
sys.path.insert(0, __file__.rpartition("/")[0])
from koala_agent.starter.carrier import main
sys.exit(main(sys.argv))
"""
RECORD_MAX_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where claims live at this site, and how their starters find the agent.

    `root` holds a folder for each claim and must be seen by the compute nodes. `python` None means
    the interpreter of this agent, for which the starter is compiled ahead. `manager` says what kind
    of allocation starters find themselves in, `launcher` how the site starts an MPI program.
    `executables` are the folders of the programs that it starts; none: any. `works` are the folders
    of accounts by name, which hold folders of claims as `root` does.
    """

    root: Path
    site: str
    address: str = "127.0.0.1"
    agents: tuple[str, ...] = ("127.0.0.1",)
    python: str | None = None
    manager: str = ""
    launcher: tuple[str, ...] = ()
    executables: tuple[str, ...] = ()
    works: Mapping[str, Path] = field(default_factory=dict)

    def root_of(self, account: str) -> Path:
        """The folder of all claims of an account; empty is the agent's own."""
        return self.works[account] if account else self.root

    def folder(self, claim: ClaimId, account: str = "") -> Path:
        """The claim's folder."""
        return self.root_of(account) / folder_name(claim)


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """The starter as it is installed among the agent's own claims; another root may hold a copy at
    the same `place`."""

    root: Path
    place: str
    name: str
    python: str

    @property
    def folder(self) -> Path:
        """Where it is."""
        return self.root / self.place

    def command(self, root: Path) -> tuple[str, ...]:
        """The beginning of its command, from the copy in this root."""
        return (self.python, "-I", "-S", str(root / self.place / self.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be written for a claim, and then submitted."""

    folder: Path
    spec: dict[str, object]
    placeholder: Placeholder


def install_starter(place: Place) -> Starter:
    """Puts the starter where compute nodes see it.

    In a folder of its own for each version: batch jobs that wait go on with the one that they were
    submitted with, and none finds one half replaced.
    """
    modules = _modules()
    is_compiled = place.python is None
    mark = hashlib.sha256(repr((modules, is_compiled, sys.version)).encode()).hexdigest()[:16]
    folder = place.root / STARTERS / mark
    name = "starter.pyc" if is_compiled else "starter.py"
    if not (folder / name).exists():
        package = folder / "koala_agent" / "starter"
        package.mkdir(mode=0o700, parents=True, exist_ok=True)
        _install(package.parent / "__init__.py", "", is_compiled=is_compiled)
        for module, text in modules:
            _install(package / module, text, is_compiled=is_compiled)
        _install(folder / "starter.py", BOOT, is_compiled=is_compiled)
    return Starter(
        root=place.root,
        place=f"{STARTERS}/{mark}",
        name=name,
        python=place.python or sys.executable,
    )


def _modules() -> tuple[tuple[str, str], ...]:
    """All of the starter, by file name."""
    package = resources.files("koala_agent") / "starter"
    files = sorted((file.name, file) for file in package.iterdir() if file.name.endswith(".py"))
    return tuple((name, file.read_text(encoding="utf-8")) for name, file in files)


def _install(target: Path, text: str, *, is_compiled: bool) -> None:
    """Writes a module, or what the interpreter makes of it."""
    new = target.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    if is_compiled:
        compiled = target.with_suffix(".pyc")
        py_compile.compile(str(new), cfile=str(compiled), dfile=target.name, doraise=True)
        new.unlink()
    else:
        new.replace(target)


def plan(
    claim: Claim,
    place: Place,
    *,
    starter: Starter,
    port: int,
    leases: Leases,
    input_path: str,
) -> Plan:
    """What a claim submits. Raises OSError, and NotAllowedError for a program that the site does
    not start."""
    program = permitted(claim.hold.program, place.executables)
    folder = place.folder(claim.id, claim.account)
    spec = specification(
        claim, place, program=program, port=port, leases=leases, input_path=input_path
    )
    wall_time_s = program.wall_time_s if program.wall_time_s > 0 else math.inf
    command = starter.command(place.root_of(claim.account))
    placeholder = Placeholder(
        claim=claim.id,
        processors=claim.hold.processors,
        time_limit_s=claim.hold.hold_s + wall_time_s + leases.kill_s,
        argv=(*command, str(folder / STATE_FOLDER / "spec.json")),
        may_kill=claim.hold.may_kill,
        directory=folder,
        queue=program.queue,
        project=program.project,
        hosts=program.hosts,
        memory_min_mb=program.memory_min_mb,
        processes=program.processes,
        account=claim.account,
    )
    return Plan(folder=folder, spec=spec, placeholder=placeholder)


def write_plan(plan: Plan) -> None:
    """Makes the claim's folder and specification. Raises OSError."""
    state = plan.folder / STATE_FOLDER
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = state / "spec.json"
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(plan.spec, file)
    new.replace(path)


def specification(
    claim: Claim,
    place: Place,
    *,
    program: Program,
    port: int,
    leases: Leases,
    input_path: str,
) -> dict[str, object]:
    """All that a starter must know, as it reads it."""
    hold = claim.hold
    _job, _attempt, component, _number = claim.id.rsplit("/", 3)
    itself = values.Peer(
        component=int(component),
        label=program.label or component,
        site=place.site,
        processors=hold.processors,
        processes=program.processes,
        address=place.address,
        claim=claim.id,
        job_type=program.job_type,
    )
    return {
        "version": 1,
        "claim": claim.id,
        "secret": claim.secret,
        "agents": [[address, port] for address in place.agents],
        "folder": str(place.folder(claim.id, claim.account)),
        "executable": program.executable,
        "arguments": program.arguments,
        "environment": program.environment,
        "directory": program.directory,
        "stdin": program.stdin,
        "stdout": program.stdout,
        "stderr": program.stderr,
        "processes": program.processes,
        "job_type": program.job_type,
        "manager": place.manager,
        "launcher": place.launcher,
        "wall_time_s": program.wall_time_s,
        "cpu_time_s": program.cpu_time_s,
        "memory_max_mb": program.memory_max_mb,
        "hold_s": hold.hold_s,
        "hold_lease_s": leases.hold_lease_s,
        "run_lease_s": leases.run_lease_s,
        "kill_s": leases.kill_s,
        "no_barrier": hold.no_barrier,
        "input": input_path,
        "bundle": values.bundle(claim.id, (itself,)),
    }


def log_source(claim: ClaimId, place: Place, *, is_ended: bool) -> LogSource | None:
    """Where the claim's output is; None when its folder is gone."""
    folder = place.folder(claim)
    spec = _read(folder / STATE_FOLDER / "spec.json")
    return None if spec is None else log_source_of(spec, folder, is_ended=is_ended)


def log_source_of(spec: dict[str, object], folder: Path, *, is_ended: bool) -> LogSource:
    """The same of what the claim's specification says."""
    directory = str(spec.get("directory", ""))
    named = [(stream, str(spec.get(stream, ""))) for stream in ("stdout", "stderr")]
    return LogSource(
        folder=folder,
        starter_log=OUTPUT_FILE,
        named=tuple((stream, str(Path(directory, name))) for stream, name in named if name),
        is_ended=is_ended,
    )


def read_record(claim: ClaimId, place: Place) -> StarterRecord | None:
    """What the claim's starter wrote down; None when it wrote nothing that can be read."""
    state = place.folder(claim) / STATE_FOLDER
    return record_of(_read(state / "passed.json"), _read(state / "end.json"))


def record_of(
    passed: dict[str, object] | None, ended: dict[str, object] | None
) -> StarterRecord | None:
    """The same of what its two files say; None for one that cannot be read."""
    try:
        passed_at = None if passed is None else _amount(passed, "passed_at")
        end = None if ended is None else end_of(ended["end"])
        nonce = _utf8(str((passed or ended or {})["nonce"]))
    except (KeyError, ValueError):
        return None
    return StarterRecord(nonce=nonce, passed_at=passed_at, end=end)


def end_of(told: object) -> End:
    """An end in a starter's own words. Raises ValueError that names what is wrong."""
    if not isinstance(told, dict):
        raise ValueError(f"{told!r} is no end")  # noqa: TRY004 - whatever comes, one kind
    statuses = told.get("statuses", [])
    if not isinstance(statuses, list) or not all(_is_status(status) for status in statuses):
        raise ValueError(f"statuses = {str(statuses)[:200]}: allowed are exit statuses and signals")
    is_told = told.get("ended_at") is not None
    return End(
        kind=EndKind(str(told.get("kind"))),
        reason=_utf8(str(told.get("reason", ""))[:2000]),
        statuses=tuple(statuses),
        ended_at=_amount(told, "ended_at") if is_told else None,
        cpu_s=_amount(told, "cpu_s"),
        memory_bytes=int(_amount(told, "memory_bytes")),
    )


def _is_status(value: object) -> bool:
    return type(value) is int and -256 < value < 256


def _amount(told: dict[str, object], key: str) -> float:
    """A number that the wire and the daemon take, whatever a program wrote into the record."""
    value = told.get(key, 0.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        raise ValueError(f"{key} = {str(value)[:40]}: allowed is a number, not below 0")
    return float(value)


def _utf8(text: str) -> str:
    """Without halves of surrogate pairs, which JSON can say and nothing else can hold."""
    return text.encode("utf-8", "replace").decode()


def _read(path: Path) -> dict[str, object] | None:
    """A small JSON object; links are not followed, because the program can write here, too."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return object_of(file.read(RECORD_MAX_BYTES))
    except OSError:
        return None


def object_of(text: bytes) -> dict[str, object] | None:
    """The JSON object in a text; None when it is anything else."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
