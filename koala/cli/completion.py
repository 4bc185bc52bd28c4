"""Completion in the shell, by click: the values that it offers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click
from click.shell_completion import shell_complete

from koala.errors import KoalaError

if TYPE_CHECKING:
    from koala.client import AsyncClient
    from koala.views.records.base import Record

VARIABLE = "_KOALA_COMPLETE"
ANSWER_S = 2.0
"""Time limit of a daemon's answer, after which nothing is offered."""
JOBS_MAX = 200
"""Newest jobs that are offered."""


def answer(command: click.Command, instruction: str) -> int:
    """Answer a request of the shell's script, or print that script."""
    return shell_complete(command, {}, "koala", VARIABLE, instruction)


REQUESTS: dict[str, Callable[[AsyncClient], Awaitable[Sequence[Record]]]] = {
    "job": lambda client: client.list_jobs(last=JOBS_MAX),
    "site": lambda client: client.sites(),
    "user": lambda client: client.users(),
    "group": lambda client: client.groups(),
}
"""How the daemon is asked for names, by the attribute that has the name."""


def names_of(kind: str, address: str | None) -> list[str]:
    """Ask the daemon for names, the newest first; none if it does not answer."""
    import asyncio

    from koala.client import AsyncClient

    async def ask() -> list[str]:
        async with asyncio.timeout(ANSWER_S), AsyncClient(address) as client:
            return [str(getattr(record, kind)) for record in await REQUESTS[kind](client)]

    with suppress(KoalaError, OSError, TimeoutError):
        return asyncio.run(ask())[::-1]
    return []
