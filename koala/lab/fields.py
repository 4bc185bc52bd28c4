"""Types of settings: a wrong one is refused before a run begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from numbers import Integral, Real
from types import EllipsisType, NoneType, UnionType
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

import msgspec

from koala.errors import ConfigError

_PLAIN = {bool, int, float, str, NoneType, EllipsisType}


def check_fields(setting: Any) -> None:  # noqa: ANN401 - a dataclass
    """Check the fields of a dataclass whose types are plain, or classes. Raises ConfigError with
    the field, its value and the type that is allowed."""
    kind: type = type(setting)
    check_values(kind, {name: getattr(setting, name) for name in _hints(kind)})
    for name, classes in _classes(kind).items():
        value = getattr(setting, name)
        if not isinstance(value, classes):
            allowed = " or ".join(one.__name__ for one in classes if one is not NoneType)
            raise ConfigError(f"{name} = {value!r} is {type(value).__name__} (expected {allowed})")


def check_values(kind: type, values: Mapping[str, Any]) -> None:
    """Check values for fields of a dataclass. Raises ConfigError as `check_fields`."""
    hints = _hints(kind)
    for name in values.keys() & hints.keys():
        try:
            msgspec.convert(_builtin(values[name]), hints[name])
        except msgspec.ValidationError as error:
            raise ConfigError(f"{name} = {values[name]!r} ({in_words(str(error))})") from error


def in_words(error: str) -> str:
    """Return an error of msgspec in the words of Koala."""
    return error.replace("Expected", "expected").replace("`", "")


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Return the types of the fields that are numbers, words and collections of them."""
    known = get_type_hints(kind)
    names = [one.name for one in fields(kind) if one.init]
    return {name: known[name] for name in names if _is_plain(known[name])}


@cache
def _classes(kind: type) -> dict[str, tuple[type, ...]]:
    """Return the classes of the fields that are objects of a class, or of one of several."""
    known = get_type_hints(kind)
    found = {}
    for name in (one.name for one in fields(kind) if one.init):
        hint = known[name]
        choices = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        if not _is_plain(hint) and all(isinstance(one, type) for one in choices):
            found[name] = choices
    return found


def _is_plain(hint: Any) -> bool:  # noqa: ANN401 - an annotation
    if isinstance(hint, NewType):
        return _is_plain(hint.__supertype__)
    if get_origin(hint) in (Union, UnionType, tuple, Mapping):
        return all(_is_plain(one) for one in get_args(hint))
    return hint in _PLAIN or isinstance(hint, EllipsisType)


def _builtin(value: object) -> object:
    """Convert a number of numpy, as ranges of a sweep have, to one of Python."""
    match value:
        case bool():
            return value
        case Integral():
            return int(value)
        case Real():
            return float(value)
        case _:
            return value
