"""Commands of a batch system, each account's apart: one that cannot be asked holds up no other.

An account whose commands fail (it was removed, nobody may become it, they hang) is in trouble: what
is asked for it then fails at once, with what was wrong. Whoever looks after it asks for a listing
from time to time, and says when that is over. The agent's own account is never in trouble: without
it the batch system is away.
"""

from __future__ import annotations

import asyncio

import structlog

from koala.errors import LocalManagerError
from koala_agent.lrm.shell import Answer, Command, Shell

AT_ONCE = 4
"""Commands of one account at a time: fewer than the shell has places for."""
SHOWN_MAX = 3
"""As many accounts are named with their troubles."""

log = structlog.get_logger()


class CircuitOpenError(LocalManagerError):
    """The account is in trouble, and the command was not run."""


class AccountBreaker:
    """A shell, and which accounts are in trouble. `noted` is set when one more is."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._troubles: dict[str, str] = {}
        self._places: dict[str, asyncio.Semaphore] = {}
        self.noted = asyncio.Event()

    @property
    def troubled(self) -> frozenset[str]:
        """The accounts in trouble."""
        return frozenset(self._troubles)

    @property
    def words(self) -> str:
        """The troubles, for the site's administrator."""
        named = sorted(self._troubles.items())
        said = [f"it takes no claims of account {account} ({reason})" for account, reason in named]
        if len(said) > SHOWN_MAX:
            said[SHOWN_MAX:] = [f"nor of {len(said) - SHOWN_MAX} other accounts"]
        return "; ".join(said)

    def check(self, account: str) -> None:
        """Raises NotAskedError for an account in trouble; transient, for nobody knows what its jobs
        do."""
        if account in self._troubles:
            raise CircuitOpenError(self._troubles[account], transient=True)

    async def ask(self, command: Command, account: str) -> Answer:
        """The answer. Raises LocalManagerError, which is then the account's trouble."""
        if not account:
            return await self._shell.run(command)
        async with self._places.setdefault(account, asyncio.Semaphore(AT_ONCE)):
            self.check(account)
            try:
                return await self._shell.run(command, account)
            except LocalManagerError as error:
                self.note(account, error)
                raise

    async def ask_anyway(self, command: Command, account: str) -> Answer:
        """The same, in trouble or not; what comes of it is the caller's to say."""
        return await self._shell.run(command, account)

    def note(self, account: str, error: LocalManagerError) -> None:
        """The account is in trouble."""
        assert account, error
        if account not in self._troubles:
            log.warning("account.in_trouble", account=account, reason=str(error))
            self.noted.set()
        self._troubles[account] = str(error)

    def heal(self, account: str) -> None:
        """It answers again."""
        if self._troubles.pop(account, None) is not None:
            log.info("account.answers_again", account=account)
