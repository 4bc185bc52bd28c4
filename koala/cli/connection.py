"""Asking the daemon, and putting answers out: what all commands but `rsl` have in common.

gRPC is imported here and late. A question is a coroutine function over a client; errors pass as the
KoalaErrors that `koala.cli.main` turns into messages and exit statuses.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from koala.errors import SpecError

if TYPE_CHECKING:
    from koala.client import Client

T = TypeVar("T")

_ADDRESS = re.compile(r"(?:[^\s:]+|\[[0-9A-Fa-f:]+\]):(?P<port>[0-9]{1,5})|unix:\S+")
PORT_MAX = 65_535

ENDS = ("Finished", "Failed", "Cancelled")
"""Phases that a job never leaves."""


def ask(address: str | None, question: Callable[[Client], Awaitable[T]]) -> T:
    """The answer to one question, over a connection of its own."""
    import asyncio

    from koala.client import Client

    if address is not None and not _is_address(address):
        raise SpecError(
            f"address {address!r}: allowed is HOST:PORT, as in 127.0.0.1:7740, with a port of 1 to"
            f" {PORT_MAX}"
        )

    async def run() -> T:
        async with Client(address) as client:
            return await question(client)

    return asyncio.run(run())


def _is_address(text: str) -> bool:
    found = _ADDRESS.fullmatch(text)
    return found is not None and (found["port"] is None or 0 < int(found["port"]) <= PORT_MAX)


def show_json(document: object) -> None:
    """A document on standard output, readable and stable."""
    print(_json(document, indent=2), flush=True)


def show_json_line(document: object) -> None:
    """One of a stream of documents, a line each, at once."""
    print(_json(document), flush=True)


_UNSHOWN = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What JSON leaves as it is, and terminals obey: they stand in strings only, where they may be
escaped."""


def _json(document: object, indent: int | None = None) -> str:
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    return _UNSHOWN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def say(text: str) -> None:
    """Something that is no result: on standard error, without what a terminal would obey: names and
    reasons come from anywhere. Lost where that cannot be written: what is done has been done."""
    from koala.cli.render.table import clean_lines

    with suppress(OSError):
        print(clean_lines(text), file=sys.stderr, flush=True)


def width() -> int | None:
    """How wide lines may be; None where nobody reads them on a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def is_coloured() -> bool:
    """Whether standard output is a terminal that wants colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
