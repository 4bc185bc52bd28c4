"""Digests of code: a stored run is valid for the code that made it, and for no other.

The code of a run is the module of its function and all modules of Koala that this one imports, also
late. Own policies (`module:function`) add their module and what it imports from beside it. The
version of the interpreter belongs to it, too: Python 3.12 adds floats in another way than 3.11.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from koala.common.runtime.plugins import GROUP
from koala.lab.sim.campaign.identity import Plain

OWN = re.compile(r"(?P<module>[A-Za-z_][\w.]*):[A-Za-z_][\w.]*")
"""Name of a user's function."""
ROOTS = ("koala", "koala_agent")


def interpreter() -> str:
    """Name the interpreter, as far as results depend on it."""
    return f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"


def code_of(run: Callable[..., Any]) -> str:
    """Return the digest of the code that a run executes, and of the interpreter."""
    return code_of_module(getattr(run, "__module__", None) or type(run).__module__)


@cache
def code_of_module(module: str) -> str:
    """Return the digest of a module, of all that it imports, and of the interpreter."""
    points = sorted(
        f"{point.name} {point.value} {point.dist.version if point.dist else ''}"
        for point in entry_points(group=GROUP)
    )
    return _digest([interpreter(), *points, *_digests(module, ROOTS)])


def own_code(setting: Plain) -> str:
    """Return the digest of the own functions that a setting names; empty without any."""
    named = (OWN.fullmatch(text) for text in _texts(setting))
    modules = sorted({one["module"] for one in named if one is not None})
    digests = [one for module in modules if (one := _own(module))]
    return _digest(digests) if digests else ""


def _own(module: str) -> str:
    root = module.partition(".")[0]
    if root in ROOTS:
        return ""
    source = _source(module)
    if source is None:
        return ""
    beside = {path.stem for path in source.parent.glob("*.py")}
    beside |= {path.parent.name for path in source.parent.glob("*/__init__.py")}
    return _digest([*_digests(module, (root, *sorted(beside)))])


def _texts(value: Plain) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list() | tuple():
            for one in value:
                yield from _texts(one)
        case _:
            pass


def _digests(module: str, roots: tuple[str, ...]) -> list[str]:
    """Return name and digest of a module and of all that it imports from `roots`."""
    found: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in found or name.partition(".")[0] not in roots:
            continue
        source = _source(name)
        if source is None:
            continue
        text = source.read_bytes()
        found[name] = hashlib.sha256(text).hexdigest()
        package = name if source.name == "__init__.py" else name.rpartition(".")[0]
        waiting += _imported(text, package)
    return [f"{name} {one}" for name, one in sorted(found.items())]


def _imported(text: bytes, package: str) -> Iterator[str]:
    """Yield the modules that a module of `package` imports, and names that may be modules."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                parents = package.split(".")[: 1 - level or None] if level else []
                base = ".".join(filter(None, [*parents, module]))
                yield base
                yield from (f"{base}.{alias.name}" for alias in names)
            case _:
                pass


@cache
def _source(name: str) -> Path | None:
    """Find the file of a module; None if there is none in Python."""
    try:
        spec = find_spec(name) if name else None
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)


def _digest(lines: list[str]) -> str:
    return hashlib.sha256(json.dumps(lines).encode()).hexdigest()
