"""Circuit breaker for the commands of each account: a failing account delays no other.

When a command of an account fails (the account was removed, cannot be switched to, or hangs), its
circuit opens: further commands fail at once with the first reason. The batch manager tries a
listing from time to time, and closes the circuit when it succeeds. The agent's own account has no
breaker: without it the batch system is away.
"""

from __future__ import annotations

import asyncio

from koala.common.runtime.structured_log import get_logger
from koala.errors import LocalManagerError
from koala_agent.transport.interface import Answer, Command, CommandRunner

AT_ONCE = 4
"""Concurrent commands of one account: fewer than the shell's limit for all."""
SHOWN_MAX = 3
"""Accounts that are named with their troubles."""

log = get_logger()


class CircuitOpenError(LocalManagerError):
    """The account's circuit is open, and the command was not run."""


class AccountBreaker:
    """Runner with a circuit breaker for each account. `opened` is set when another one opens."""

    def __init__(self, runner: CommandRunner) -> None:
        self._runner = runner
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

    async def run(self, command: Command, account: str) -> Answer:
        """Run a command unless the circuit is open. A LocalManagerError opens the circuit."""
        if not account:
            return await self._runner.run(command)
        async with self._slots.setdefault(account, asyncio.Semaphore(AT_ONCE)):
            self.check(account)
            try:
                return await self._runner.run(command, account)
            except LocalManagerError as error:
                self.open(account, error)
                raise

    async def run_unguarded(self, command: Command, account: str) -> Answer:
        """Run a command whether the circuit is open or not; the caller notes the result."""
        return await self._runner.run(command, account)

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
