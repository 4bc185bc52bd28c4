"""Call the daemon and print results: shared by all commands except `rsl`.

gRPC is imported late. A request is a coroutine function over a client. Errors are KoalaErrors,
which `koala.cli.main` turns into messages and exit statuses.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from koala.errors import SpecError

if TYPE_CHECKING:
    import asyncio

    from koala.client.client import AsyncClient
    from koala.client.connection import Connection
    from koala.client.records import Record

T = TypeVar("T")
R = TypeVar("R", bound="Record")
Document: TypeAlias = Mapping[str, Any]

_ADDRESS = re.compile(r"(?:[^\s:]+|\[[0-9A-Fa-f:]+\]):(?P<port>[0-9]{1,5})|unix:\S+")
PORT_MAX = 65_535

RUNNER = "koala.cli.runner"
"""Name of the event loop among what click keeps for a command."""

ENDS = ("Finished", "Failed", "Cancelled")
"""Terminal phases of a job."""


def ask(address: str | None, request: Callable[[AsyncClient], Awaitable[T]]) -> T:
    """Run one request over its own connection and return the result."""
    from koala.client.client import AsyncClient

    _check_address(address)

    async def run() -> T:
        async with AsyncClient(address) as client:
            return await request(client)

    return _runner().run(run())


def call(address: str | None, request: Callable[[Connection], Awaitable[T]]) -> T:
    """Run one request as `ask` does, without the client's methods, which take time to import."""
    from koala.client.connection import Connection

    _check_address(address)

    async def run() -> T:
        async with Connection(address) as daemon:
            return await request(daemon)

    return _runner().run(run())


def _runner() -> asyncio.Runner:
    """Return the command's event loop, made for its first request.

    gRPC has one queue of events for all loops of a process. What an interrupted request left there
    belongs to its loop: if that were closed, the events of the next request would be lost.
    """
    import asyncio

    command = click.get_current_context().find_root()
    if RUNNER not in command.meta:
        command.meta[RUNNER] = command.with_resource(asyncio.Runner())
    runner: asyncio.Runner = command.meta[RUNNER]
    return runner


def documents(
    address: str | None, request: Callable[[AsyncClient], Awaitable[Sequence[R]]]
) -> list[Document]:
    """Run one request for a list of records and return their documents."""
    return [record.document for record in ask(address, request)]


def document(address: str | None, request: Callable[[AsyncClient], Awaitable[R]]) -> Document:
    """Run one request for a record and return its document."""
    return ask(address, request).document


def _check_address(address: str | None) -> None:
    """Check an address as given. Raises SpecError."""
    if address is not None and not _is_address(address):
        raise SpecError(
            f"address {address!r}: allowed is HOST:PORT, as in 127.0.0.1:7740, with a port of 1 to"
            f" {PORT_MAX}"
        )


def _is_address(text: str) -> bool:
    found = _ADDRESS.fullmatch(text)
    return found is not None and (found["port"] is None or 0 < int(found["port"]) <= PORT_MAX)


JSON_VERSION = 1
"""Version of the documents of `--json` (docs/api.md)."""


def show_json(document: Mapping[str, object], *, indent: int | None = 2) -> None:
    """Print a document as JSON, in one line without `indent`, and flush."""
    print(json_text(document, indent=indent), flush=True)


_CONTROL = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that JSON does not escape but terminals interpret. They occur in strings only, where
an escape is allowed."""


def json_text(document: Mapping[str, object], indent: int | None = None) -> str:
    """Format a document as JSON, its version first."""
    versioned = {"version": JSON_VERSION, **document}
    text = json.dumps(versioned, indent=indent, ensure_ascii=False)
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def clean_lines(text: str) -> str:
    """Remove control characters from several lines, keeping the line breaks."""
    return "\n".join(
        "".join(c if c.isprintable() else "?" for c in one) for one in text.split("\n")
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


def answer_list(
    name: str, items: Sequence[object], text: Callable[[], str], *, as_json: bool, empty: str = ""
) -> None:
    """Print a list of what `name` says, as JSON or as text; say so, or `empty`, if it is empty."""
    if items or as_json:
        answer({name: items}, text, as_json=as_json)
    else:
        note(empty or f"no {name}")


def answer(document: Mapping[str, object], text: Callable[[], str], *, as_json: bool) -> None:
    """Print an answer, as JSON or as text."""
    if as_json:
        show_json(document)
    else:
        print(text())


def width() -> int | None:
    """Width of the terminal, None where standard output is not a terminal."""
    if not sys.stdout.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def is_coloured() -> bool:
    """True if standard output is a terminal and NO_COLOR is not set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
