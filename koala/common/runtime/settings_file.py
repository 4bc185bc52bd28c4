"""Parse settings files: TOML into frozen structs, for the daemon, agents and grid files.

Every error is a ConfigError that names the file, the key, the value and what is allowed.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from types import NoneType
from typing import Annotated, Any, Literal, NoReturn, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from koala.errors import ConfigError

T = TypeVar("T")
Tree = dict[str, Any]

PORT_MAX = 65_535
Positive = Annotated[float, msgspec.Meta(gt=0)]
Megabytes = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]
_PATTERNS: dict[str, str] = {}
"""Words for the texts of each pattern, by the pattern as errors of msgspec quote it."""


def matching(
    pattern: str, words: str, *, min_length: int | None = None, max_length: int | None = None
) -> msgspec.Meta:
    """Require texts of a pattern, and say in errors what they are."""
    _PATTERNS[repr(pattern)] = words
    return msgspec.Meta(pattern=pattern, min_length=min_length, max_length=max_length)


SiteText = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", "a name of letters, digits and ._- (64 at most)"
    ),
]
Endpoint = Annotated[
    str,
    matching(
        r"^[^\s:]+:\d{1,5}$|^\[[0-9A-Fa-f:]+\]:\d{1,5}$",
        "host:port, with an IPv6 address in brackets",
    ),
]

_PLACED = re.compile(r"^(?P<what>.*?)(?: - at `(?:key in )?\$\.?(?P<place>[^`]*)`)?$", re.DOTALL)
_FIELD = re.compile(r"field `(?P<name>[^`]*)`")
_STEP = re.compile(r"\[[^\]]*\]|[^.\[\]]+")


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Table of a file; an unknown key is an error."""


def parse_toml(text: str, *, source: str) -> Tree:
    """Parse TOML. Raises ConfigError."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # invalid TOML, too long a number, too deep
        raise ConfigError(f"{source}: not TOML: {error}") from error


def convert(tree: Tree, kind: type[T], *, source: str) -> T:
    """Make a struct or dataclass of a tree; errors begin with `source`. Raises ConfigError."""
    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source}{_explain(str(error), kind, tree)}") from error


def refuse(source: str, *, key: str, value: object, allowed: str) -> NoReturn:
    """Raise the ConfigError of a wrong value."""
    raise ConfigError(f"{source}: {key} = {value!r} (expected {allowed})")


def check_port(source: str, key: str, endpoint: str | None) -> None:
    """Check the port of an endpoint, if there is one. Raises ConfigError."""
    if endpoint is not None and int(endpoint.rpartition(":")[2]) > PORT_MAX:
        refuse(source, key=key, value=endpoint, allowed=f"a port from 0 to {PORT_MAX}")


def unknown_key(key: str, known: tuple[str, ...]) -> str:
    """Explain that a key, with dots before its last word, is not among the known words."""
    near = difflib.get_close_matches(key.rpartition(".")[2], known, n=1)
    hint = f": did you mean {near[0]}?" if near else "."
    return f"{key} is unknown{hint} Known are {', '.join(known)}"


def type_at(kind: Any, place: str) -> Any:  # noqa: ANN401 - a type
    """Return the type of the value at a place of a struct, as `sites[...].owner`."""
    for step in _STEP.findall(place):
        kind = _of_items(kind) if step[0] == "[" else get_type_hints(kind)[step]
        if NoneType in get_args(kind):
            kind = next(member for member in get_args(kind) if member is not NoneType)
    return kind


def _of_items(kind: Any) -> Any:  # noqa: ANN401
    """Return the type of the values of a table or an array."""
    arguments = get_args(kind)
    return arguments[1] if get_origin(kind) is dict else arguments[0]


def _explain(error: str, kind: type, tree: Tree) -> str:
    """Rewrite an error of msgspec (expectation and place) with the value and the known keys."""
    match = _PLACED.match(error)
    assert match is not None, error
    what, place = match["what"], match["place"] or ""
    if field := _FIELD.search(what):
        name = field["name"]
        if "unknown field" not in what:
            is_table = hasattr(type_at(kind, f"{place}.{name}"), "__struct_fields__")
            key = _key(place, name)
            return f"[{key}] is missing" if is_table else f"{key} is missing"
        known = type_at(kind, place).__struct_fields__
        place = place.replace("[...]", f".{_holder(tree, place, name)}")
        return unknown_key(_key(place, name), known)
    allowed = what.removeprefix("Expected ").replace("`", "")
    _, is_pattern, pattern = allowed.partition("matching regex ")
    if is_pattern:
        allowed = _PATTERNS.get(pattern, allowed)
    if what.startswith("Invalid enum value") and get_origin(type_at(kind, place)) is Literal:
        allowed = "one of " + ", ".join(map(str, get_args(type_at(kind, place))))
    place = place.removesuffix("[...]")
    if "[...]" in place:  # msgspec does not name the key
        return f"{place.replace('[...]', '.NAME')} (expected {allowed})"
    return f"{place or 'the file'} = {_value_at(tree, place)!r} (expected {allowed})"


def _key(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _value_at(tree: Tree, place: str) -> object:
    value: Any = tree
    for step in _STEP.findall(place):
        value = value[int(step[1:-1])] if step[0] == "[" else value[step]
    return value


def _holder(tree: Tree, place: str, key: str) -> str:
    """Return the first table with this key among those of which msgspec does not say the name."""
    tables = _value_at(tree, place.partition("[...]")[0]) if "[...]" in place else {}
    named = tables.items() if isinstance(tables, dict) else ()
    return next((str(name) for name, table in named if key in table), "NAME")
