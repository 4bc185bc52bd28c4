"""Circuit breaker for the commands of each account: a failing account delays no other.

When a command of an account fails (the account was removed, cannot be switched to, or hangs), its
circuit opens: further commands fail at once with the first reason. The batch manager tries a
listing from time to time, and closes the circuit when it succeeds. The agent's own account has no
breaker: without it the batch system is away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from koala.common.runtime.structured_log import get_logger
from koala.errors import LocalManagerError
from koala_agent.lrm.site_commands import SiteCommands
from koala_agent.transport.interface import Answer, Command

AT_ONCE = 4
"""Concurrent commands of one account: fewer than the shell's limit for all."""
SHOWN_MAX = 3
"""Accounts that are named with their troubles."""

log = get_logger()


class CircuitOpenError(LocalManagerError):
    """The account's circuit is open, and the command was not run."""


class AccountBreaker:
    """Commands with a circuit breaker for each account; `commands` are those without. `opened` is
    set when another one opens."""

    def __init__(self, commands: SiteCommands) -> None:
        self.commands = commands
        self._troubles: dict[str, str] = {}
        self._slots: dict[str, asyncio.Semaphore] = {}
        self.opened = asyncio.Event()

    @property
    def troubled(self) -> frozenset[str]:
        """The accounts with an open circuit."""
        return frozenset(self._troubles)

    @property
    def summary(self) -> str:
        """The troubles, as a text for the site's administrator."""
        named = sorted(self._troubles.items())
        texts = [f"it takes no claims of account {account} ({reason})" for account, reason in named]
        if len(texts) > SHOWN_MAX:
            texts[SHOWN_MAX:] = [f"nor of {len(texts) - SHOWN_MAX} other accounts"]
        return "; ".join(texts)

    def check(self, account: str) -> None:
        """Raise CircuitOpenError for an account with an open circuit; transient, because the state
        of its jobs is unknown."""
        if account in self._troubles:
            raise CircuitOpenError(self._troubles[account], transient=True)

    async def ask(self, command: Command, account: str, *, since: float | None = None) -> Answer:
        """Ask (see `SiteCommands`) unless the circuit is open. A LocalManagerError opens it."""
        return await self._guarded(
            account, partial(self.commands.ask, command, account, since=since)
        )

    async def act(self, command: Command, account: str) -> Answer:
        """Act (see `SiteCommands`) unless the circuit is open. A LocalManagerError opens it."""
        return await self._guarded(account, partial(self.commands.act, command, account))

    async def submit(self, command: Command, account: str) -> Answer:
        """Submit (see `SiteCommands`) unless the circuit is open. A LocalManagerError opens it."""
        return await self._guarded(account, partial(self.commands.submit, command, account))

    async def _guarded(self, account: str, call: Callable[[], Awaitable[Answer]]) -> Answer:
        if not account:
            return await call()
        async with self._slots.setdefault(account, asyncio.Semaphore(AT_ONCE)):
            self.check(account)
            try:
                return await call()
            except LocalManagerError as error:
                self.open(account, error)
                raise

    def open(self, account: str, error: LocalManagerError) -> None:
        """Open the circuit of an account."""
        assert account, error
        if account not in self._troubles:
            log.warning("account.circuit_opened", account=account, reason=str(error))
            self.opened.set()
        self._troubles[account] = str(error)

    def close(self, account: str) -> None:
        """Close the circuit of an account that answers again."""
        if self._troubles.pop(account, None) is not None:
            log.info("account.circuit_closed", account=account)
