"""Writes the records into docs/api.md: `python -m tests.client.reference`."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from koala.views.records import access, accounts, chart, grid, jobs
from koala.views.records.base import Moment, Record
from koala.views.records.phases import PHASES
from tests.tidy.sources import ROOT

PAGE = ROOT / "docs" / "api.md"
CHAPTER = re.compile(r"(?<=<!-- records -->\n).*(?=<!-- end of records -->)", re.DOTALL)
WORDS: dict[object, str] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "true or false",
    Moment: "instant",
    NoneType: "null",
}


def records() -> list[type[Record]]:
    """All records that documents are made of, in the order of their declaration."""
    return [
        value
        for module in (jobs, accounts, grid, chart, access)
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, Record)
        and value.__module__ == module.__name__
    ]


def written(page: str) -> str:
    """The page with its chapter as the records are now."""
    phases = f"### Phases\n\n{', '.join(PHASES)}. A job ends in one of the last three.\n"
    chapter = "\n".join([phases, *map(section, records())])
    return CHAPTER.sub(lambda _: f"\n{chapter}\n", page)


def section(kind: type[Record]) -> str:
    """The heading of a record, its text, and a line for each field that it declares itself."""
    (base,) = kind.__bases__
    more = "" if base is Record else f" It has the names of a {link(base)}, and:"
    lines = [f"### {kind.__name__}", "", " ".join((kind.__doc__ or "").split()) + more, ""]
    lines += ["| name | type | |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | {type_} | {text} |" for name, type_, text in rows(kind)]
    return "\n".join(lines) + "\n"


def rows(kind: type[Record]) -> Iterator[tuple[str, str, str]]:
    """The name in JSON, the type and the text of each field that a record itself declares."""
    hints, texts = get_type_hints(kind), field_texts(kind)
    for field in msgspec.structs.fields(kind):
        if field.name in texts:
            yield field.encode_name, type_text(hints[field.name]), texts[field.name]


def field_texts(kind: type[Record]) -> dict[str, str]:
    """The text below each field of a class; empty for one that has none."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(node, ast.ClassDef)
    found: dict[str, str] = {}
    for line, below in zip(node.body, [*node.body[1:], ast.Pass()], strict=True):
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            text = str(below.value.value) if is_text else ""  # type: ignore[attr-defined]
            found[line.target.id] = " ".join(text.split()).removesuffix(".")
    return found


def type_text(hint: Any) -> str:
    """The type of a field in words."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint in WORDS:
        return WORDS[hint]
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(type_text, sorted(inner, key=_null_last))))
    if origin is Literal:
        words = " or ".join(f"`{one}`" if one else "empty" for one in inner)
        return "[phase](#phases)" if inner == PHASES else words
    if origin is tuple and inner[1:] == (...,):
        return f"list of {_plural(type_text(inner[0]))}"
    if origin is tuple:
        return f"\\[{', '.join(map(type_text, inner))}\\]"
    if origin in (Mapping, dict) or (origin and issubclass(origin, Mapping)):
        return f"object of {_plural(type_text(inner[1]))}"
    if issubclass(hint, Record):
        return link(hint)
    return f"\\[{', '.join(map(type_text, get_type_hints(hint).values()))}\\]"  # a named tuple


def link(kind: type) -> str:
    """A link to the section of a record."""
    return f"[{kind.__name__}](#{kind.__name__.lower()})"


def _null_last(hint: object) -> bool:
    return hint is NoneType


def _plural(word: str) -> str:
    return f"{word}s" if word in ("text", "integer", "number") else word


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
