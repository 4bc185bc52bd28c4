"""Batch systems: one record for each kind, found by entry point.

A package adds one with an entry point in the group `koala.batch_systems`: its name is the kind, as
in `lrm.kind`, and its value is a `BatchSystem`. Koala's own are found the same way; nothing else
names a kind (docs/development/add-a-batch-system.md).
"""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from importlib.resources.abc import Traversable
from typing import Annotated, Any

import msgspec

from koala.common.runtime.settings_file import Table
from koala.common.runtime.software import DISTRIBUTION
from koala.errors import ConfigError
from koala_agent.lrm.dialect import Dialect
from koala_agent.starter.batch_rules import BatchRules
from koala_agent.transport.interface import CommandRunner

GROUP = "koala.batch_systems"
DEFAULT = "emulated"
"""Kind of a configuration that names none."""

EVERY = "*"


class LRMTable(Table, frozen=True):
    """Local manager: an emulated one, or the commands of a batch system.

    `kind` names its record; a record's own table adds keys. A batch system is polled every
    `poll_s`; each of its commands may take `command_limit_s`; `environment` selects the
    installation; `options` are added to each submission; `launcher` starts the ranks of an MPI
    program. `native` lists the options that jobs may pass on to the batch system, "*" all; by
    default all with accounts.mode = "user", else none.
    """

    kind: str = DEFAULT
    options: tuple[str, ...] = ()
    native: tuple[str, ...] | None = None
    launcher: tuple[str, ...] = ()
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    poll_s: Annotated[float, msgspec.Meta(ge=0.05, le=3600)] = 1.0
    command_limit_s: Annotated[float, msgspec.Meta(ge=0.1, le=600)] = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """Decisions of the rest of a configuration about a dialect: the `native` options that jobs may
    pass on, and the `gpus` of the site, where the batch system does not list them."""

    native: tuple[str, ...] = ()
    gpus: int = 0


Check = Callable[[Any, CommandRunner], Awaitable[None]]
"""Checks the settings of a kind at the site. Raises ConfigError and LocalManagerError."""

Answers = Mapping[str, tuple[str, ...]]
"""Answers to a survey's questions, by key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSystem:
    """All that Koala knows of a kind of local manager before it asks one.

    - `kind` is the word of `lrm.kind`, `title` the name for people, `place` one such site.
    - `settings` is its [lrm] table, `template` a commented configuration of an agent.
    - `dialect` makes its commands from its settings; without one the manager is the emulated one.
    - `programs` are the commands that agent and starters use, the first of them submits;
      `found_by` are commands that all are there only where it is installed; `variables` select an
      installation.
    - `lists_gpus`: it lists GPUs itself, so that `site.gpus` means nothing.
    - `rules` are those by which starters find their hosts and start helpers there.
    - `check` is the doctor's check of its settings, beyond that the commands answer.
    - `survey` are lines of shell that ask more of a host, with `say KEY VALUE`; `configure` makes
      settings of the answers and of the user's wishes, and raises ConfigError where one is missing;
      `count` is the command whose answer `read_count` reads the processors from.
    - `tried_with` says what it was tried with, `untried` warns where it was not tried at all.
    """

    kind: str
    title: str
    place: str
    settings: type[LRMTable]
    template: Traversable
    dialect: Callable[[Any, Wishes], Dialect] | None = None
    programs: tuple[str, ...] = ()
    found_by: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    lists_gpus: bool = False
    rules: BatchRules = field(default_factory=lambda: BatchRules(needs_keeper=True))
    check: Check | None = None
    survey: str = ""
    configure: Callable[[Answers, Mapping[str, str]], dict[str, object]] | None = None
    count: tuple[str, ...] = ()
    read_count: Callable[[str], int] | None = None
    tried_with: str = ""
    untried: str = ""

    @property
    def is_emulated(self) -> bool:
        """True if the agent itself is the local manager."""
        return self.dialect is None

    @property
    def notice(self) -> str:
        """Warning that users of such a site get; empty for none."""
        return f"its dialect of {self.kind} was {self.untried}" if self.untried else ""

    def setting_names(self) -> tuple[str, ...]:
        """Return the keys of its table but `kind`: its own, then those of all batch systems."""
        common = LRMTable.__struct_fields__
        own = tuple(key for key in self.settings.__struct_fields__ if key not in common)
        return own if self.is_emulated else (*own, *(key for key in common if key != "kind"))


def find_system(kind: str) -> BatchSystem:
    """Load the record of a kind. Raises ConfigError that lists the known ones."""
    point = _own_points().get(kind) or _all_points().get(kind)
    if point is None:
        known = list(_all_points())
        near = difflib.get_close_matches(kind, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(f"lrm.kind = {kind!r}: allowed is one of {', '.join(known)}{hint}")
    return _load(point)


def known_systems() -> tuple[BatchSystem, ...]:
    """Load all records, Koala's own first. Raises ConfigError for one that cannot be loaded."""
    return tuple(map(_load, _all_points().values()))


def _load(point: EntryPoint) -> BatchSystem:
    try:
        system = point.load()
    except Exception as error:
        message = f"{point.value} cannot be loaded: {type(error).__name__}: {error}"
        raise ConfigError(f"lrm.kind = {point.name!r}: {message}") from error
    if not isinstance(system, BatchSystem) or system.kind != point.name:
        message = f"{point.value} is not a BatchSystem of kind {point.name!r}"
        raise ConfigError(f"lrm.kind = {point.name!r}: {message}")
    return system


@lru_cache(maxsize=1)
def _own_points() -> dict[str, EntryPoint]:
    """Koala's own, which are in one file: a look at all packages takes long."""
    try:
        points = distribution(DISTRIBUTION).entry_points
    except PackageNotFoundError:
        return {}
    return {point.name: point for point in points.select(group=GROUP)}


def _all_points() -> dict[str, EntryPoint]:
    """All that are installed; nobody replaces one of Koala's."""
    found = {point.name: point for point in entry_points(group=GROUP)}
    return {**_own_points(), **{name: found[name] for name in found if name not in _own_points()}}
