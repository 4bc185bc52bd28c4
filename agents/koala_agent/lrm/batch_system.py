"""Batch systems: one record for each kind, found by entry point.

A package adds one with an entry point in the group `koala.batch_systems`: its name is the kind, as
in `lrm.kind`, and its value is a `BatchSystem`. Koala's own are found the same way; nothing else
names a kind (docs/development/add-a-batch-system.md).
"""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from importlib.resources.abc import Traversable
from inspect import signature
from typing import Annotated, Any

import msgspec

from koala.common.runtime.settings_file import Table
from koala.common.runtime.software import DISTRIBUTION
from koala.errors import ConfigError
from koala_agent.environments import matches
from koala_agent.lrm.dialect import Dialect
from koala_agent.starter.batch_rules import BatchRules
from koala_agent.transport.command_budget import COMMANDS_PER_MINUTE
from koala_agent.transport.interface import CommandRunner

GROUP = "koala.batch_systems"
DEFAULT = "emulated"
"""Kind of a configuration that names none."""


class LRMTable(Table, frozen=True):
    """Local manager: an emulated one, or the commands of a batch system.

    `kind` names its record; a record's own table adds keys. A batch system is asked at most
    `commands_per_minute` times, and listed every `poll_s` at most; each of its commands may take
    `command_limit_s`; `environment` selects the installation; `options` are added to each
    submission; `launcher` starts the ranks of an MPI program. With `gate_probe` the agent tries by
    itself what keeps waiting jobs from starting. `native` lists the options that jobs
    may pass on to the batch system, "*" all; by default all with accounts.mode = "user", else none.
    """

    kind: str = DEFAULT
    options: tuple[str, ...] = ()
    native: tuple[str, ...] | None = None
    launcher: tuple[str, ...] = ()
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    gate_probe: bool = True
    commands_per_minute: Annotated[int, msgspec.Meta(ge=2, le=60_000)] = COMMANDS_PER_MINUTE
    poll_s: Annotated[float, msgspec.Meta(ge=0.05, le=3600)] = 1.0
    command_limit_s: Annotated[float, msgspec.Meta(ge=0.1, le=600)] = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectSettings:
    """Settings that a dialect needs beside its own table: the `native` options that jobs may pass
    on, the `gpus` of the site, where the batch system does not list them, and the `user` who
    submits all claims; empty where each runs as its owner."""

    native: tuple[str, ...] = ()
    gpus: int = 0
    user: str = ""


def made_as(kind: Callable[..., Dialect]) -> Callable[[LRMTable, DialectSettings], Dialect]:
    """Return the maker of a dialect whose fields are keys of its table, or settings of the site."""

    def make(table: LRMTable, site: DialectSettings) -> Dialect:
        given = msgspec.structs.asdict(table) | asdict(site)
        return kind(**{name: given[name] for name in signature(kind).parameters})

    return make


Check = Callable[[Any, CommandRunner], Awaitable[None]]
"""Checks the settings of a kind at the site. Raises ConfigError and LocalManagerError."""

Answers = Mapping[str, tuple[str, ...]]
"""Answers to the questions of one batch system at a host, by key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Setting of an agent's file that follows from what a host has: its `key`, as in lrm.partition,
    and the reason. Without a value the reason tells what there is to choose from; some choices must
    be made (`is_needed`)."""

    key: str
    value: object = None
    reason: str
    is_needed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSystem:
    """All that Koala knows of a kind of local manager before it asks one.

    - `kind` is the word of `lrm.kind`, `title` the name for people, `place` one such site.
    - `settings` is its [lrm] table, `template` a commented configuration of an agent.
    - `dialect` makes its commands from its settings; without one the manager is the emulated one.
    - `programs` are the commands that agent and starters use. The first three submit, list and
      withdraw: an agent does not start without them.
    - `tried_with` are the versions that it was tried with, as in "2.6.1"; empty warns all its users
      that it was not tried against a live one.

    What most need not say:

    - `found_by` are commands that together are there only where it is installed; by default all
      `programs`. `variables` of the environment select an installation; `places` are paths that
      are there then, with variables as `{NAME}`. `profile` are variables by which a user's
      profile gives options to the command that submits, and the keys of `settings` for them.
      `job_variables` are names, which may have a *, that each of its jobs has: the first of them
      shows that this process runs in one.
    - `lists_gpus`: it lists GPUs itself, so that `site.gpus` means nothing.
    - `rules` are those by which starters find their hosts and start helpers there.
    - `check` is the doctor's check of its settings, beyond that the commands answer.
    - `survey` are lines of shell that ask more of a host, with `say KEY VALUE`; `configure` makes
      settings of the answers and of the user's wishes. What `dialect` tells needs no question.
    """

    kind: str
    title: str
    place: str
    settings: type[LRMTable] = LRMTable
    template: Traversable
    dialect: Callable[[Any, DialectSettings], Dialect] | None = None
    programs: tuple[str, ...] = ()
    tried_with: str = ""
    found_by: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    profile: Mapping[str, str] = field(default_factory=dict)
    job_variables: tuple[str, ...] = ()
    lists_gpus: bool = False
    rules: BatchRules = field(default_factory=lambda: BatchRules(needs_keeper=True))
    check: Check | None = None
    survey: str = ""
    configure: Callable[[Answers, Mapping[str, str]], Iterable[Setting]] | None = None

    @property
    def is_emulated(self) -> bool:
        """True if the agent itself is the local manager."""
        return self.dialect is None

    @property
    def notice(self) -> str:
        """Warning that users of such a site get; empty for none."""
        if self.is_emulated or self.tried_with:
            return ""
        return f"its dialect of {self.kind} was not tried against a live batch system"

    def is_installed(self, has: Callable[[str], object]) -> bool:
        """Test a host that `has` commands for this batch system."""
        signs = self.found_by or self.programs
        return not self.is_emulated and bool(signs) and all(map(has, signs))

    def setting_names(self) -> tuple[str, ...]:
        """Return the keys of its table but `kind`: its own, then those of all batch systems."""
        common = LRMTable.__struct_fields__
        own = tuple(key for key in self.settings.__struct_fields__ if key not in common)
        return own if self.is_emulated else (*own, *(key for key in common if key != "kind"))


def find_system(kind: str) -> BatchSystem:
    """Load the record of a kind. Raises ConfigError that lists the known ones."""
    point = _own_points().get(kind) or _all_points().get(kind)
    if point is None:
        known = known_kinds()
        near = difflib.get_close_matches(kind, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(f"lrm.kind = {kind!r} (expected one of {', '.join(known)}{hint})")
    return _load(point)


def known_kinds() -> tuple[str, ...]:
    """Return the kinds that are installed, Koala's own first, without loading their records."""
    return tuple(_all_points())


def known_systems() -> tuple[BatchSystem, ...]:
    """Load the records of all kinds, Koala's own first. One that cannot be loaded is left out, so
    that it disturbs only those who ask for it."""
    systems = []
    for point in _all_points().values():
        with suppress(ConfigError):
            systems.append(_load(point))
    return tuple(systems)


def outer_job_variables(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the variables of the batch jobs in which this process runs, if it does;
    those that select an installation are none."""
    if not any("JOB" in name for name in environment):
        return ()  # without a look at all packages
    inside = [
        system for system in known_systems() if {*system.job_variables[:1]} & environment.keys()
    ]
    return tuple(
        name
        for name in environment
        if any(
            name not in system.variables and matches(name, system.job_variables)
            for system in inside
        )
    )


def _load(point: EntryPoint) -> BatchSystem:
    source = f"lrm.kind = {point.name!r}: {point.value} of {_package(point)}"
    try:
        system = point.load()
    except Exception as error:
        message = f"{source} cannot be loaded: {type(error).__name__}: {error}"
        raise ConfigError(message) from error
    if not isinstance(system, BatchSystem):
        kind = type(system).__name__
        raise ConfigError(f"{source} is of type {kind} (expected a BatchSystem)")
    if system.kind != point.name:
        raise ConfigError(f"{source} is of kind {system.kind!r} (expected the entry point's name)")
    return system


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an unknown package"


@lru_cache(maxsize=1)
def _own_points() -> dict[str, EntryPoint]:
    """Koala's own, which are in one file: a look at all packages takes long."""
    try:
        points = distribution(DISTRIBUTION).entry_points
    except PackageNotFoundError:
        return {}
    return {point.name: point for point in points.select(group=GROUP)}


def _all_points() -> dict[str, EntryPoint]:
    """All that are installed. Nobody replaces one of Koala's; of two other packages with the same
    kind, the one whose name comes first counts, on every machine."""
    others = sorted(entry_points(group=GROUP), key=_package, reverse=True)
    return {**_own_points(), **{point.name: point for point in others}, **_own_points()}
