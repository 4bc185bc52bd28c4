"""Run requests on the daemon: shared by all commands but `rsl`.

gRPC is imported late. A request is a coroutine function over a client. Errors are KoalaErrors,
which `koala.cli.main` turns into messages and exit statuses.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

from koala.errors import SpecError

if TYPE_CHECKING:
    import asyncio

    from koala.client.client import AsyncClient
    from koala.client.connection import Connection
    from koala.common.identity.credentials import Credentials

T = TypeVar("T")

_ADDRESS = re.compile(r"(?:[^\s:]+|\[[0-9A-Fa-f:]+\]):(?P<port>[0-9]{1,5})|unix:\S+")
PORT_MAX = 65_535

RUNNER = "koala.cli.runner"
"""Name of the event loop among what click keeps for a command."""


def ask(
    request: Callable[[AsyncClient], Awaitable[T]], *, credentials: Credentials | None = None
) -> T:
    """Run one request over its own connection and return the result. With `credentials`, the daemon
    is theirs."""
    from koala.client.client import AsyncClient

    address = given_address() if credentials is None else _checked(credentials.address)

    async def run() -> T:
        async with AsyncClient(address, credentials=credentials) as client:
            return await request(client)

    return _runner().run(run())


def call(request: Callable[[Connection], Awaitable[T]]) -> T:
    """Run one request as `ask` does, without the client's methods, which take time to import."""
    from koala.client.connection import Connection

    address = given_address()

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


def given_address() -> str | None:
    """Return what --address says. Raises SpecError."""
    return _checked(click.get_current_context().meta.get("--address"))


def _checked(address: str | None) -> str | None:
    """Check an address as given. Raises SpecError."""
    if address is not None and not _is_address(address):
        raise SpecError(
            f"address {address!r} (expected HOST:PORT, as in 127.0.0.1:7740, with a port of 1 to"
            f" {PORT_MAX})"
        )
    return address


def _is_address(text: str) -> bool:
    found = _ADDRESS.fullmatch(text)
    return found is not None and (found["port"] is None or 0 < int(found["port"]) <= PORT_MAX)
