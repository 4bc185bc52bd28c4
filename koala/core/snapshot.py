"""Snapshots: serialize the whole state to plain data and restore it, so that a daemon can start
without a full replay.

- Every object reached from the state is saved by its shape: dataclasses and slotted classes of
  `koala.core` by tag (`TAGS`) and field names. Empty values that equal the default are left out.
- An object that is reached twice is saved once, and is shared again after loading.
- The form is JSON lists; the first entry of a list gives its kind.
- Most queued jobs are flat rows (`snapshot_rows`), and each description is kept once beside them.
- An unknown class or field is an error, and so is a missing field without a default.

Not saved: the recorder, the actions of the current event, the index of successors, the usage and
the malleable jobs, which the jobs tell, and the policies, which come from the configuration.
"""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from collections.abc import Callable, Collection, Sequence
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, TypeAlias, cast

from koala.common.protocol.messages import PortPath, PortUse, Queue, SiteResources
from koala.core.model import allowances, charges, claim, grid, job, parameters, timers, values
from koala.core.model import hold_budget as budget
from koala.core.model import placement_queues as queues
from koala.core.model import predecessors as after
from koala.core.model import progress_reports as progress
from koala.core.model import replicas as files
from koala.core.model.job_spec import (
    ComponentSpec,
    Deadline,
    Hint,
    InputFile,
    InputMode,
    JobSpec,
    JobType,
    Notify,
    Split,
    StartType,
)
from koala.core.model.parameters import Parameters
from koala.core.pipeline.dependencies import add_dependencies
from koala.core.pipeline.queueing import SCANNERS
from koala.core.policy_api import Policies
from koala.core.scheduler import Scheduler
from koala.core.snapshot_rows import QueuedRow, job_of, row_of
from koala.core.state import State

Plain: TypeAlias = Any
"""Data that JSON can express."""

TAGS: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        *(after.Ended, after.Predecessor),
        allowances.Allowance,
        *(budget.Budget, budget.BudgetCharge),
        *(charges.Charge, charges.Refusal, charges.Setback, charges.StatedStart, charges.Trouble),
        *(claim.Armed, claim.Asked, claim.Claim, claim.Grant, claim.Granted, claim.Passed),
        *(claim.Released, claim.Stopped),
        *(files.ReplicaCatalogue, files.Transfer),
        *(grid.Replica, grid.Site, grid.SiteFacts, Queue, SiteResources),
        *(ComponentSpec, Deadline, Hint, InputFile, InputMode, JobSpec, JobType, Notify),
        *(Split, StartType),
        *(job.ArmNumber, job.Arming, job.Attempt, job.ClaimEnd, job.EndKind, job.Growth, job.Job),
        *(job.Member, job.PathTests, job.Release, PortPath, PortUse),
        *(job.Cancelled, job.Claiming, job.Delayed, job.Failed, job.Finished, job.Placing),
        *(job.Queued, job.Releasing, job.Running, job.Starting, job.Stopping, job.Waiting),
        *(parameters.Parameters, progress.ProgressHistory, queues.Queues),
        *(timers.Timer, timers.TimerKind, timers.Timers),
        *(values.Priority, values.TcpPath),
    )
}
"""Classes of the state by the tags under which they are saved. Another name of a class or of a
field is another format (`koala.common.runtime.disk_formats.JOURNAL`)."""
_TAG_OF = {cls: tag for tag, cls in TAGS.items()}
NOT_SAVED = frozenset(
    {"policies", "recorder", "actions", "is_changed", "scanner", "successors", "usage", "malleable"}
)
_LISTS: dict[str, type] = {"l": list, "t": tuple, "q": deque}
_LETTERS = {kind: letter for letter, kind in _LISTS.items()}


class UnreadableSnapshotError(Exception):
    """Saved data cannot be loaded."""


def save(state: State, specs: list[JobSpec] | None = None) -> Plain:
    """Serialize the state to plain data.

    The descriptions of its jobs are appended to `specs`, an empty list, for a caller that encodes
    them by itself. Without that list they are part of the data.
    """
    kept = [] if specs is None else specs
    writer = _Writer(kept)
    rows: list[QueuedRow] = []
    others: list[Plain] = []
    for saved in state.jobs.values():
        row = row_of(saved, writer.number(saved.spec))
        if row is None:
            others += (saved.id, writer.plain(saved))
        else:
            rows.append(row)
    parts = {
        "jobs": ["d", *others],
        **writer.parts(state, without=("jobs", "keys")),
        "keys": ["k", *[part for key, keyed in state.keys.items() for part in (key, *keyed)]],
    }
    plain = {"scanner": scanner_kind(state), "parts": parts, "queued": rows}
    if others:
        plain["order"] = list(state.jobs)
    if specs is None:
        plain["specs"] = [save_object(spec) for spec in kept]
    return plain


def scanner_kind(state: State) -> str:
    """Return the kind of the queue discipline in force."""
    return next(kind for kind, scanner in SCANNERS.items() if scanner is state.scanner)


def load(plain: Plain, policies: Policies, specs: Sequence[JobSpec] | None = None) -> Scheduler:
    """Restore a scheduler from a saved state, and the descriptions that `save` gave beside it.

    Raises UnreadableSnapshotError.
    """
    scheduler = Scheduler(Parameters(), policies)
    try:
        if not specs:
            specs = [load_object(spec) for spec in plain.get("specs", ())]
        reader = _Reader(list(specs))
        for row in plain.get("queued", ()):
            restored = job_of(row, reader.specs)
            reader.jobs[restored.id] = restored
        for name, value in plain["parts"].items():
            if name in NOT_SAVED or not hasattr(scheduler, name):
                raise UnreadableSnapshotError(f"the state has no {name!r}")
            setattr(scheduler, name, reader.value(value))
            if name == "jobs":
                reader.jobs.update(scheduler.jobs)
                scheduler.jobs = reader.ordered(plain.get("order", ()))
        for restored in scheduler.jobs.values():
            if type(restored.phase) is job.Waiting:
                add_dependencies(scheduler, restored, restored.phase)
        for name, attempt in scheduler.placed.items():
            scheduler.add_attempt(scheduler.jobs[name], attempt)
        scheduler.scanner = SCANNERS[plain["scanner"]]
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        raise UnreadableSnapshotError(f"{type(error).__name__}: {error}") from error
    return scheduler


def save_object(value: object) -> Plain:
    """Serialize one object, for instance a job."""
    return _Writer().plain(value)


def load_object(plain: Plain) -> Any:  # noqa: ANN401 - whatever was saved
    """Restore one object. Raises UnreadableSnapshotError."""
    try:
        return _Reader().value(plain)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        raise UnreadableSnapshotError(f"{type(error).__name__}: {error}") from error


class _Writer:
    """Serializer; numbers shared objects in the order in which it meets them.

    With a list of `specs`, descriptions are put there and referred to by number.
    """

    def __init__(self, specs: list[JobSpec] | None = None) -> None:
        self._numbers: dict[object, int] = {}
        self._specs = specs
        self._knows_jobs = False

    def number(self, spec: JobSpec) -> int:
        """Return the number of a description; alike jobs in sequence share theirs."""
        assert self._specs is not None
        if not self._specs or self._specs[-1] is not spec:
            self._specs.append(spec)
        return len(self._specs) - 1

    def parts(self, state: State, *, without: Collection[str]) -> dict[str, Plain]:
        """Serialize the parts of the state by name; tables of jobs are lists of their ids."""
        self._knows_jobs = True
        names = [name for name in vars(state) if name not in NOT_SAVED and name not in without]
        return {name: self.plain(getattr(state, name)) for name in names}

    def plain(self, value: object) -> Plain:
        kind = type(value)
        if kind in _AS_THEY_ARE:
            return value
        if kind is JobSpec and self._specs is not None:
            return ["p", self.number(cast(JobSpec, value))]
        if (shape := _SHAPES.get(kind)) is not None:  # as most: a match takes longer
            return self._object(value, shape)
        match value:
            case float():
                return value if math.isfinite(value) else ["f", repr(value)]
            case Enum():
                return ["e", _tag(kind), value.value]
            case str() | int():
                return value
            case dict():
                if self._knows_jobs and type(next(iter(value.values()), None)) is job.Job:
                    return ["j", *value]
                return ["d", *[self.plain(entry) for pair in value.items() for entry in pair]]
            case list() | tuple() | deque():
                return [_LETTERS[kind], *[self.plain(entry) for entry in value]]
            case _:
                return self._object(value, _shape_of(kind))

    def _object(self, value: object, shape: _Shape) -> Plain:
        if shape.is_shared:
            if value in self._numbers:
                return ["r", self._numbers[value]]
            self._numbers[value] = len(self._numbers)
        kept = {}
        for name, default, content in zip(
            shape.names, shape.defaults, shape.values_of(value), strict=True
        ):
            # Only empty values are left out: any other default may change later.
            if content or type(content) is not type(default) or content != default:
                kept[name] = content if type(content) in _AS_THEY_ARE else self.plain(content)
        return ["s" if shape.is_shared else "o", shape.tag, kept]


class _Reader:
    """Deserializer; meets shared objects in the order in which they were numbered."""

    def __init__(self, specs: list[JobSpec] | None = None) -> None:
        self.specs = specs or []
        self.jobs: dict[values.JobId, job.Job] = {}
        self._objects: list[object] = []

    def ordered(self, names: Sequence[values.JobId]) -> dict[values.JobId, job.Job]:
        """Return the jobs in this order; without names in the order in which they were read."""
        if not names:
            return dict(self.jobs)
        if len(names) != len(self.jobs):
            raise UnreadableSnapshotError(f"the order names {len(names)} jobs of {len(self.jobs)}")
        return {name: self.jobs[name] for name in names}

    def value(self, plain: Plain) -> Any:  # noqa: ANN401 - whatever was saved
        if type(plain) is not list:
            return plain
        letter = plain[0]
        match letter:
            case "o" | "s":
                return self._object(plain[1], plain[2], is_shared=letter == "s")
            case "r":
                return self._objects[plain[1]]
            case "p":
                return self.specs[plain[1]]
            case "j":
                return {name: self.jobs[name] for name in plain[1:]}
            case "k":
                parts = iter(plain[1:])
                return {
                    key: (name, text) for key, name, text in zip(parts, parts, parts, strict=True)
                }
            case "e":
                return _enum(plain[1], plain[2])
            case "f":
                return float(plain[1])
            case "d":
                entries = [self.value(entry) for entry in plain[1:]]
                return dict(zip(entries[::2], entries[1::2], strict=True))
            case _:
                return _LISTS[letter]([self.value(entry) for entry in plain[1:]])

    def _object(self, tag: str, kept: dict[str, Plain], *, is_shared: bool) -> object:
        cls = _class(tag)
        shape = _shape_of(cls)
        made: object = object.__new__(cls)
        if is_shared:
            self._objects.append(made)
        if not shape.known.issuperset(kept):
            name = next(name for name in kept if name not in shape.known)
            raise UnreadableSnapshotError(f"{tag} has no field {name!r}")
        for name, default in zip(shape.names, shape.defaults, strict=True):
            if name in kept:
                value = self.value(kept[name])
            elif default is _NO_DEFAULT:
                raise UnreadableSnapshotError(f"{tag} was saved without {name!r}")
            else:
                value = type(default)() if type(default) in _CONTAINERS else default
            _set(made, name, value)
        return made


# --- shapes ---------------------------------------------------------------------------------------

_NO_DEFAULT = object()
_AS_THEY_ARE = frozenset({type(None), bool, int, str})
_CONTAINERS = frozenset({list, dict, deque})
_set = object.__setattr__


class _Shape:
    """Saved form of the objects of one class.

    - `names`: fields in order; `defaults` of each.
    - `values_of`: reads all fields at once.
    - `is_shared`: objects compare by identity, so each is saved once."""

    def __init__(self, cls: type) -> None:
        fields = fields_of(cls)
        self.tag = _tag(cls)
        self.names = tuple(fields)
        self.known = frozenset(fields)
        self.defaults = tuple(fields.values())
        self.is_shared = getattr(cls, "__hash__", None) is object.__hash__
        self.values_of: Callable[[object], tuple[object, ...]] = (
            attrgetter(*self.names)
            if len(self.names) > 1
            else lambda value: tuple([getattr(value, name) for name in self.names])
        )


_SHAPES: dict[type, _Shape] = {}


def _shape_of(cls: type) -> _Shape:
    if cls not in _SHAPES:
        _SHAPES[cls] = _Shape(cls)
    return _SHAPES[cls]


def fields_of(cls: type) -> dict[str, object]:
    """Return the fields of a class with their defaults, in order."""
    if dataclasses.is_dataclass(cls):
        return {field.name: _default(field) for field in dataclasses.fields(cls)}
    names = [name for base in reversed(cls.__mro__) for name in getattr(base, "__slots__", ())]
    if not names:
        raise UnreadableSnapshotError(f"{cls.__name__} has neither fields nor slots")
    return dict.fromkeys(names, _NO_DEFAULT)


def _default(field: dataclasses.Field[Any]) -> object:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return _NO_DEFAULT


def _tag(cls: type) -> str:
    tag = _TAG_OF.get(cls)
    if tag is None:
        raise UnreadableSnapshotError(f"{cls.__module__}.{cls.__name__} is not a part of the state")
    return tag


@cache
def _enum(tag: str, value: str) -> object:
    return _class(tag)(value)


def _class(tag: str) -> Any:  # noqa: ANN401 - a class of the core
    if tag not in TAGS:
        raise UnreadableSnapshotError(f"unknown class {tag!r}")
    return TAGS[tag]
