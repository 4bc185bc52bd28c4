"""Status of the session with the daemon, for the parts of a site that depend on it."""

from __future__ import annotations

import asyncio

from koala_agent.link.session import Session


class SessionStatus:
    """Status of the session, and waits for its changes. `relay` is that of the newest session,
    empty when the daemon has none or was never here."""

    def __init__(self, session: Session) -> None:
        self.relay = ""
        self._session = session
        self._welcomed = asyncio.Event()
        self._completed = asyncio.Event()

    @property
    def is_live(self) -> bool:
        """True when the daemon has named all that it wants in the present session."""
        return self._session.is_live

    @property
    def connection(self) -> int:
        """Number of the present connection, or of the last one."""
        return self._session.connection

    def begin_session(self, relay: str) -> None:
        """Note an accepted session."""
        self.relay = relay
        self._welcomed.set()

    def complete(self) -> None:
        """Note that the daemon has named all that it wants."""
        self._completed.set()

    async def welcomed(self) -> None:
        """Wait until the daemon has accepted a session for the first time."""
        await self._welcomed.wait()

    async def live(self) -> None:
        """Wait until a session is live."""
        while not self.is_live:
            self._completed.clear()
            await self._completed.wait()
