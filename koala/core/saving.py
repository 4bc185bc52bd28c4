"""The whole state as plain data and back, so that a daemon can begin without all its past.

Whatever is reached from the state is saved by its shape: dataclasses and classes with slots of
`koala.core` by the names of their fields; what is empty, as is its field's default, is left out.
An object that is reached twice is saved once, and both see the same one again. The form is lists of
JSON, in which the first entry says what a list is. So a field that a later version adds has its
default in what an older one saved; a field that it took away is an error, and needs a new number of
CORE and a step here.

What is not saved is the recorder, the actions of the event at hand, and the policies, which are
the configuration's.
"""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from enum import Enum
from typing import Any, TypeAlias

from koala.core import (
    budget,
    charges,
    files,
    grid,
    job,
    parameters,
    progress,
    queues,
    timers,
    values,
)
from koala.core.parameters import Parameters
from koala.core.queueing import ROUNDS, SCANS, TURNS
from koala.core.rounds import Rounds
from koala.core.scheduler import Scheduler
from koala.core.slots import Policies
from koala.core.state import State

CORE = 1
"""The version of the core's decisions: raised when a replay of older events gives another state, or
the same state another digest. A journal of another version begins at a snapshot."""

Plain: TypeAlias = Any
"""What JSON can say."""

_MODULES = {
    module.__name__: module
    for module in (budget, charges, files, grid, job, parameters, progress, queues, timers, values)
}
"""Where the classes are of which a state is made."""
_PACKAGE = "koala.core."
_NOT_SAVED = frozenset({"policies", "recorder", "actions", "is_changed", "turns"})
_LISTS: dict[str, type] = {"l": list, "t": tuple, "q": deque}
_LETTERS = {kind: letter for letter, kind in _LISTS.items()}


class NotSavedError(Exception):
    """What was saved cannot be understood."""


def save(state: State) -> Plain:
    """The state as plain data."""
    writer = _Writer()
    parts = {
        name: writer.plain(value) for name, value in vars(state).items() if name not in _NOT_SAVED
    }
    return {"turns": ROUNDS if isinstance(state.turns, Rounds) else SCANS, "parts": parts}


def load(plain: Plain, policies: Policies) -> Scheduler:
    """The scheduler whose state was saved. Raises NotSavedError."""
    scheduler = Scheduler(Parameters(), policies)
    try:
        reader = _Reader()
        for name, value in plain["parts"].items():
            if name in _NOT_SAVED or not hasattr(scheduler, name):
                raise NotSavedError(f"the state has no {name!r}")
            setattr(scheduler, name, reader.value(value))
        scheduler.turns = TURNS[plain["turns"]]
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        raise NotSavedError(f"{type(error).__name__}: {error}") from error
    return scheduler


def save_object(value: object) -> Plain:
    """One object, for instance a job, as plain data."""
    return _Writer().plain(value)


def load_object(plain: Plain) -> Any:  # noqa: ANN401 - whatever was saved
    """The object. Raises NotSavedError."""
    try:
        return _Reader().value(plain)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        raise NotSavedError(f"{type(error).__name__}: {error}") from error


class _Writer:
    """Numbers objects as it meets them."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}

    def plain(self, value: object) -> Plain:
        match value:
            case None | bool():
                return value
            case Enum():
                return ["e", _tag(type(value)), value.value]
            case str() | int():
                return value
            case float():
                return value if math.isfinite(value) else ["f", repr(value)]
            case dict():
                entries = [self.plain(entry) for pair in value.items() for entry in pair]
                return ["d", *entries]
            case list() | tuple() | deque():
                return [_LETTERS[type(value)], *map(self.plain, value)]
            case _:
                return self._object(value)

    def _object(self, value: object) -> Plain:
        is_shared = type(value).__hash__ is object.__hash__  # else it is as good as its equal
        if is_shared:
            if value in self._numbers:
                return ["r", self._numbers[value]]
            self._numbers[value] = len(self._numbers)
        kept = {}
        for name, default in _fields(type(value)).items():
            found = getattr(value, name)
            # Only what is empty is left out: any other default may be another one later.
            if found or type(found) is not type(default) or found != default:
                kept[name] = self.plain(found)
        return ["s" if is_shared else "o", _tag(type(value)), kept]


class _Reader:
    """Meets objects in the order in which they were numbered."""

    def __init__(self) -> None:
        self._objects: list[object] = []

    def value(self, plain: Plain) -> Any:  # noqa: ANN401 - whatever was saved
        if not isinstance(plain, list):
            return plain
        letter = plain[0]
        match letter:
            case "o" | "s":
                return self._object(plain[1], plain[2], is_shared=letter == "s")
            case "r":
                return self._objects[plain[1]]
            case "e":
                return _class(plain[1])(plain[2])
            case "f":
                return float(plain[1])
            case "d":
                entries = [self.value(entry) for entry in plain[1:]]
                return dict(zip(entries[::2], entries[1::2], strict=True))
            case _:
                return _LISTS[letter](self.value(entry) for entry in plain[1:])

    def _object(self, tag: str, kept: dict[str, Plain], *, is_shared: bool) -> object:
        cls = _class(tag)
        made: object = object.__new__(cls)
        if is_shared:
            self._objects.append(made)
        known = _fields(cls)
        for name in kept:
            if name not in known:
                raise NotSavedError(f"{tag} has no field {name!r}")
        for name, default in known.items():
            if name in kept:
                value = self.value(kept[name])
            elif default is _NO_DEFAULT:
                raise NotSavedError(f"{tag} was saved without {name!r}")
            else:
                value = default if not isinstance(default, list | dict | deque) else type(default)()
            object.__setattr__(made, name, value)
        return made


# --- shapes ---------------------------------------------------------------------------------------

_NO_DEFAULT = object()
_SHAPES: dict[type, dict[str, object]] = {}


def _fields(cls: type) -> dict[str, object]:
    """The fields of a class with their defaults, in order."""
    if cls not in _SHAPES:
        _SHAPES[cls] = _shape(cls)
    return _SHAPES[cls]


def _shape(cls: type) -> dict[str, object]:
    if dataclasses.is_dataclass(cls):
        return {field.name: _default(field) for field in dataclasses.fields(cls)}
    names = [name for base in reversed(cls.__mro__) for name in getattr(base, "__slots__", ())]
    if not names:
        raise NotSavedError(f"{cls.__name__} has neither fields nor slots")
    return dict.fromkeys(names, _NO_DEFAULT)


def _default(field: dataclasses.Field[Any]) -> object:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return _NO_DEFAULT


def _tag(cls: type) -> str:
    if cls.__module__ not in _MODULES:
        raise NotSavedError(f"{cls.__module__}.{cls.__name__} is no part of the state")
    return f"{cls.__module__.removeprefix(_PACKAGE)}.{cls.__name__}"


def _class(tag: str) -> Any:  # noqa: ANN401 - a class of the core
    module, _, name = tag.rpartition(".")
    found = getattr(_MODULES.get(_PACKAGE + module), name, None)
    if not isinstance(found, type) or found.__module__ != _PACKAGE + module:
        raise NotSavedError(f"there is no {tag!r}")
    return found
