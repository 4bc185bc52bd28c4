"""Print answers, messages and JSON: shared by all commands.

Answers go to standard output, messages to standard error.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from koala.cli.render.table import Column, Screen
    from koala.views.records.base import Record

JSON_VERSION = 1
"""Version of the documents of `--json` (docs/api.md)."""


def print_json(document: Mapping[str, object] | Record, *, indent: int | None = 2) -> None:
    """Print a document as JSON, in one line without `indent`, and flush."""
    print(json_text(document, indent=indent), flush=True)


_CONTROL = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that JSON does not escape but terminals interpret. They occur in strings only, where
an escape is allowed."""


def json_text(document: Mapping[str, object] | Record, indent: int | None = None) -> str:
    """Format a document as JSON, its version first; it may be a record, or have records."""
    names = document if isinstance(document, Mapping) else document.document
    versioned = {"version": JSON_VERSION, **names}
    plain = attrgetter("document")
    text = json.dumps(versioned, indent=indent, ensure_ascii=False, default=plain)
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def clean_lines(text: str) -> str:
    """Remove control characters from several lines, keeping the line breaks."""
    return "\n".join(
        "".join(c if c.isprintable() else "?" for c in line) for line in text.split("\n")
    )


def say(text: str) -> None:
    """Print a message on standard error, without terminal control characters.

    Names and reasons come from untrusted sources. A write error is ignored: the work is done.
    """
    with suppress(OSError):
        print(clean_lines(text), file=sys.stderr, flush=True)


def note(text: str) -> None:
    """Print a message on standard error, after the name of the command."""
    say(f"{click.get_current_context().command_path}: {text}")


def print_list(
    name: str, items: Sequence[object], text: Callable[[], str], *, empty: str = ""
) -> None:
    """Print a list of what `name` says, as JSON or as text; say so, or `empty`, if it is empty."""
    if items or is_json():
        print_answer({name: items}, text)
    else:
        note(empty or f"no {name}")


def print_table(name: str, heads: Sequence[Column], rows: Sequence[object]) -> None:
    """Print a list as `print_list` does, its text a table with these columns."""
    from koala.cli.render.table import table

    print_list(name, rows, lambda: table(heads, rows, screen()))


def print_answer(document: Mapping[str, object] | Record, text: Callable[[], str]) -> None:
    """Print an answer, as JSON or as text."""
    if is_json():
        print_json(document)
    else:
        print(text())


def is_json() -> bool:
    """Return True if the command was given --json."""
    return bool(click.get_current_context().meta.get("--json"))


def screen() -> Screen:
    """Return what standard output is: a terminal, with colours unless NO_COLOR is set, or a
    file."""
    from koala.cli.render.table import FILE, Screen

    if not sys.stdout.isatty():
        return FILE
    import shutil

    width = shutil.get_terminal_size().columns
    return Screen(width=width, is_coloured=not os.environ.get("NO_COLOR"))
