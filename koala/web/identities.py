"""Users who are signed in: each has a client and a model of what the daemon lets it see.

The own identity is that of the account that runs the web process. Others come by their token, and
the daemon decides on each of their calls, as it does for the command line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from hashlib import sha256

from koala.client import AsyncClient
from koala.client.grid_model import GridModel
from koala.common.identity.credentials import Credentials, find_credentials
from koala.errors import ExhaustedError, UnauthenticatedError
from koala.views.grid_chart import GridChart
from koala.views.records.chart import GridTimeline
from koala.web.sessions import Sessions

OWN = "own"
IDENTITIES_MAX = 64
TOKEN_MAX = 512
SWEEP_S = 60.0
CHECKS_AT_ONCE = 8
"""Unknown tokens that the daemon is asked about at once; others wait, in order."""
WRONG_S = 1.0
"""Time after which a wrong token is answered: a crowd that tries some costs the daemon little. No
honest sign-in is refused for it. Tokens have 256 random bits, so nobody guesses one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A user of the daemon who is signed in, with the connection that shows the user's token."""

    key: str
    user: str
    role: str
    client: AsyncClient
    model: GridModel
    charts: dict[str, tuple[GridTimeline, GridChart]] = field(default_factory=dict)

    @property
    def is_operator(self) -> bool:
        """True if the daemon lets the user change sites and see all jobs."""
        return self.role in ("operator", "administrator")


class Identities:
    """The identities with sessions, and the own one. Use it in `async with`.

    Their models run in `group`.
    """

    def __init__(self, address: str | None, sessions: Sessions, group: asyncio.TaskGroup) -> None:
        self._given = address
        self._sessions = sessions
        self._group = group
        self._known: dict[str, tuple[Identity, AsyncExitStack]] = {}
        self._sweeper: asyncio.Task[None] | None = None
        self._checks = asyncio.Semaphore(CHECKS_AT_ONCE)
        self.address = ""

    async def __aenter__(self) -> Identities:
        own = AsyncClient(self._given)
        self.address = own.address
        await self._add(OWN, own)
        self._sweeper = self._group.create_task(self._sweep())
        return self

    async def __aexit__(self, *_error: object) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        for _identity, stack in tuple(self._known.values()):
            await stack.aclose()
        self._known.clear()

    def get(self, key: str) -> Identity | None:
        """Return a known identity."""
        found = self._known.get(key)
        return None if found is None else found[0]

    async def sign_in(self, token: str, *, is_gone: Callable[[], Awaitable[bool]]) -> Identity:
        """Return the identity of a token, after the daemon has accepted it.

        A token whose turn comes when `is_gone` says that nobody waits any more is not looked at.
        Raises UnauthenticatedError, UnreachableError, ExhaustedError.
        """
        if not token.isascii() or not token.isprintable() or not 0 < len(token) <= TOKEN_MAX:
            raise UnauthenticatedError("this is not a token; `koala user add` makes one")
        key = sha256(token.encode()).hexdigest()
        if (found := self.get(key)) is not None:
            await found.client.hello()  # the token may be revoked by now
            return found
        try:
            async with self._checks:
                if await is_gone():
                    raise UnauthenticatedError("the browser has gone")
                return await self._check(key, token)
        except UnauthenticatedError:
            await asyncio.sleep(WRONG_S)
            raise

    async def _check(self, key: str, token: str) -> Identity:
        """Ask the daemon about a token. Raises as `sign_in` does."""
        credentials = find_credentials(self.address)
        if credentials is None or credentials.is_plain:
            raise UnauthenticatedError("this daemon has no tokens: use the sign-in link")
        if len(self._known) >= IDENTITIES_MAX:
            await self._drop_unused()
        if len(self._known) >= IDENTITIES_MAX:
            raise ExhaustedError(f"{IDENTITIES_MAX} users are signed in already: try again later")
        shown = _with_token(credentials, token)
        return await self._add(key, AsyncClient(self.address, credentials=shown))

    async def _add(self, key: str, client: AsyncClient) -> Identity:
        stack = AsyncExitStack()
        try:
            await stack.enter_async_context(client)
            caller = await client.hello()
        except BaseException:
            await stack.aclose()
            raise
        model = GridModel(client, refused=lambda: self._sessions.end_all(key))
        identity = Identity(key=key, user=caller.user, role=caller.role, client=client, model=model)
        task = self._group.create_task(model.run())
        stack.callback(task.cancel)
        if key in self._known:  # signed in twice at the same time
            await stack.aclose()
            return self._known[key][0]
        self._known[key] = (identity, stack)
        return identity

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            await self._drop_unused()

    async def _drop_unused(self) -> None:
        """Close the identities that have no session any more."""
        used = {OWN, *self._sessions.identities()}
        for key in [key for key in self._known if key not in used]:
            _, stack = self._known.pop(key)
            await stack.aclose()


def _with_token(credentials: Credentials, token: str) -> Credentials:
    return replace(credentials, user="", token=token, source="the sign-in page")
