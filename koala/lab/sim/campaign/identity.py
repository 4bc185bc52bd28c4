"""Digests of settings: equal settings have equal digests in every process and on every machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from types import FunctionType

from koala.errors import ConfigError

Plain = bool | int | float | str | Sequence["Plain"] | None
"""Value that JSON can hold; mappings become lists of pairs."""


def canonical(value: object) -> Plain:
    """Convert a setting to plain values, with the names of its types. Raises ConfigError for what
    has no such form: functions of a session, open files and the like."""
    match value:
        case None | bool() | int() | float() | str() if not isinstance(value, Enum):
            return value
        case Enum():
            return [_name(type(value)), value.name]
        case Path():
            return str(value)
        case Mapping():
            pairs = [[canonical(name), canonical(one)] for name, one in value.items()]
            return sorted(pairs, key=json.dumps)
        case tuple() | list():
            return [canonical(one) for one in value]
        case partial():
            return ["partial", *map(canonical, (value.func, value.args, value.keywords))]
        case FunctionType() if "<" not in value.__qualname__ and value.__module__ != "__main__":
            return f"{value.__module__}:{value.__qualname__}"
        case _ if callable(identity := getattr(value, "identity", None)):
            return [_name(type(value)), canonical(identity())]
        case _ if is_dataclass(value) and not isinstance(value, type):
            parts: list[Plain] = [
                [one.name, canonical(getattr(value, one.name))] for one in fields(value)
            ]
            return [_name(type(value)), parts]
        case _:
            pass
    raise ConfigError(f"{value!r} has no name by which a stored run could be found again")


def digest(*values: object) -> str:
    """Return the SHA-256 of values, in hexadecimal digits. Raises ConfigError as `canonical`."""
    return _digest(map(_text, values))


def run_id(kind: str, setting: object, *, seed: int, length: float = 0.0) -> str:
    """Name a run: the same for every version of Koala. Raises ConfigError as `canonical`."""
    return digest(kind, setting, seed, float(length))[:32]


def run_ids(kind: str, runs: Sequence[tuple[object, int, float]]) -> tuple[str, ...]:
    """Name runs, each a setting, a seed and a length, as `run_id` does. A setting that many runs
    share is converted once. Raises ConfigError as `canonical`."""
    texts: dict[int, str] = {}  # by identity: equal settings can differ in the types of numbers
    found = []
    for setting, seed, length in runs:
        if (text := texts.get(id(setting))) is None:
            text = texts[id(setting)] = _text(setting)
        found.append(_digest((_text(kind), text, _text(seed), _text(float(length))))[:32])
    return tuple(found)


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256(f"[{','.join(texts)}]".encode()).hexdigest()


def _text(value: object) -> str:
    return json.dumps(canonical(value), separators=(",", ":"))


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
