"""Write TOML, which Python's library only reads: tables of scalars, lists and tables. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(tree: Mapping[str, object]) -> str:
    """Format the tree as TOML: plain keys first, then a section for each table."""
    return "\n".join(_section(tree, ())) + "\n"


def _section(tree: Mapping[str, object], path: tuple[str, ...]) -> list[str]:
    tables = {key: value for key, value in tree.items() if isinstance(value, Mapping)}
    lines = [f"{_key(k)} = {_value(v)}" for k, v in tree.items() if k not in tables]
    if path and (lines or not tables):
        lines.insert(0, f"[{'.'.join(_key(part) for part in path)}]")
    for key, table in tables.items():
        below = _section(table, (*path, key))
        lines += ["", *below] if lines else below
    return lines


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else toml_string(key)


def _value(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return toml_string(value)
        case int():
            return str(value)
        case float():
            return repr(value) if math.isfinite(value) else str(value)
        case list() | tuple():
            return f"[{', '.join(_value(item) for item in value)}]"
        case Mapping():
            items = (f"{_key(str(k))} = {_value(v)}" for k, v in value.items())
            return f"{{{', '.join(items)}}}"
        case _:
            return str(value)  # dates and times


def toml_string(text: str) -> str:
    """Format a basic string: TOML has JSON's escapes, and also requires one for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
