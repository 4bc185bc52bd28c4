"""Functions by name: built-in ones, those of other packages, and those that users name as
`module:function`.

Other packages add theirs by entry points in the group `koala.policies`; an entry point's name is
`slot.name`, for instance `placement.my-policy`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from importlib import import_module
from itertools import count
from operator import attrgetter
from pathlib import Path
from types import FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any

from koala.common.runtime.foreign.calls import LOAD_LIMIT_S, FaultError, answer_of
from koala.common.runtime.option_values import did_you_mean
from koala.errors import ConfigError, InvalidAnswerError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

GROUP = "koala.policies"
FOLDER_VARIABLE = "KOALA_OWN_FOLDER"
"""Names a further folder of modules."""
_VARIABLE = 0x04 | 0x08
"""Flags of the code of a function with *args or **kwargs."""


def find_function(
    slot: str,
    name: str,
    known: Mapping[str, Any],
    *,
    arguments: tuple[int, ...],
    other: type | None = None,
    also: tuple[str, ...] = (),
    elsewhere: Mapping[str, Iterable[str]] = MappingProxyType({}),
) -> Any:  # noqa: ANN401 - a function, or what is known
    """Find the function of this name. A function takes one of these numbers of `arguments`; a
    value of the type `other` is allowed, too. Entry points of the slots `also` count as this
    slot's. Raises ConfigError with the known names; a name of other slots (their built-in names are
    `elsewhere`) is called that.
    """
    if name in known:
        return known[name]
    what = f"policies.{slot} = {name!r}"
    if ":" in name:
        return _load(what, name, lambda: _of_module(name), arguments, other)
    points = {point.name: point for point in _entry_points()}
    for own in (slot, *also):
        point = points.get(f"{own}.{name}")
        if point is not None:
            return _load(what, point.value, point.load, arguments, other)
    theirs = [owner for owner, names in elsewhere.items() if name in names]
    theirs += [entry.partition(".")[0] for entry in points if entry.partition(".")[2] == name]
    if theirs:
        slots = " and ".join(dict.fromkeys(theirs))
        raise ConfigError(
            f"{what}: {name} is a policy of the slot {slots} (expected one of {slot})"
        )
    names = [*known, *(entry for own in (slot, *also) for entry in outside_names(own))]
    raise ConfigError(
        f"{what} (expected one of {', '.join(names)}, or a function as"
        f" module:function{did_you_mean(name, names)})"
    )


_SESSION = "<session>"
_of_session: dict[str, Callable[..., Any]] = {}


def is_of_session(function: Callable[..., Any]) -> bool:
    """Return True for a function that no other process could import by its name."""
    name = getattr(function, "__qualname__", "<")
    return "<" in name or getattr(function, "__module__", "__main__") == "__main__"


def name_of(function: Callable[..., Any]) -> str:
    """Return the name by which `find_function` finds a function: module:function, or for one of the
    session a name that holds in this process."""
    if not is_of_session(function):
        return f"{function.__module__}:{function.__qualname__}"
    short = getattr(function, "__name__", type(function).__name__).strip("<>")
    for number in count(1):
        name = f"{_SESSION}:{short}" if number == 1 else f"{_SESSION}:{short}-{number}"
        if _of_session.setdefault(name, function) is function:
            return name
    raise AssertionError


def outside_names(slot: str) -> list[str]:
    """Names that other packages add to a slot."""
    points = _entry_points()
    return [point.name.partition(".")[2] for point in points if point.name.startswith(f"{slot}.")]


def _entry_points() -> EntryPoints:
    return _entry_points_on(tuple(sys.path))


@lru_cache(maxsize=1)
def _entry_points_on(_path: tuple[str, ...]) -> EntryPoints:
    """Read them once: each look opens a file of every installed package, and simulations choose
    their policies for each run."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow; built-in names need none

    return entry_points(group=GROUP)


def argument_count(function: object) -> int | None:
    """Number of arguments of a function or of an object that is called; None for a variable
    number, and if it is unknown."""
    if isinstance(function, FunctionType):
        code = function.__code__
        is_variable = code.co_flags & _VARIABLE or function.__defaults__ or function.__kwdefaults__
        return None if is_variable else code.co_argcount
    from inspect import Parameter, signature  # noqa: PLC0415 - slow; functions need none

    plain = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = signature(function).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    is_plain = all(p.kind in plain and p.default is Parameter.empty for p in parameters)
    return len(parameters) if is_plain else None


def _load(
    what: str, place: str, load: Callable[[], Any], arguments: tuple[int, ...], other: type | None
) -> Any:  # noqa: ANN401
    """Load a function and check it. Raises ConfigError."""

    def read(function: Any) -> Any:  # noqa: ANN401
        if other is not None and isinstance(function, other):
            return function
        if not callable(function):
            raise InvalidAnswerError("is not a function")
        count = argument_count(function)
        if count is not None and count not in arguments:
            expected = " or ".join(map(str, arguments))
            raise InvalidAnswerError(f"takes {count} arguments (expected {expected})")
        return function

    try:
        return answer_of(load, (), read, limit_s=LOAD_LIMIT_S)
    except FaultError as fault:
        if fault.is_of_answer:
            raise ConfigError(f"{what}: {place} {fault}") from None
        raise ConfigError(f"{what}: {place} cannot be loaded: {fault}") from None


def _of_module(name: str) -> Any:  # noqa: ANN401
    """Load `module:function`; modules are also looked for in the present folder, last. For the
    parts that `koala up` starts, that is the folder where it was called."""
    if name in _of_session:
        return _of_session[name]
    module, _, function = name.partition(":")
    if not module or not function:
        message = "not a function's name (expected module:function)"
        raise ValueError(message)
    for folder in (os.environ.get(FOLDER_VARIABLE), str(Path.cwd())):
        if folder and folder not in sys.path:  # it stays: a module may import its neighbours later
            sys.path.append(folder)
    return attrgetter(function)(import_module(module))
