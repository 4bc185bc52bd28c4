"""The commands of a site's batch system: the one place where they are counted and spaced.

- A command that asks takes its turn in the budget of its login (`transport.command_budget`).
- An answer serves all who asked before its command was sent, and those who are content with an
  older one: what hardly changes is kept for a while (`Command.keep_s`), and asked again after an
  error.
- A command that acts goes at once. One that follows a submission that failed takes a turn, so that
  nobody's repetitions are a flood.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from koala.errors import LocalManagerError
from koala_agent.transport.command_budget import CommandBudget
from koala_agent.transport.interface import Answer, Command, CommandRunner


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """Answer to a command that was sent at `sent_at`."""

    answer: Answer
    sent_at: float


class SiteCommands:
    """Runner of the commands of a batch system."""

    def __init__(
        self, runner: CommandRunner, budget: CommandBudget, *, clock: Callable[[], float]
    ) -> None:
        self.budget = budget
        self._runner = runner
        self._clock = clock
        self._kept: dict[tuple[str, Command], _Kept] = {}
        self._locks: dict[tuple[str, Command], asyncio.Lock] = {}
        self._failed: set[str] = set()  # accounts whose last submission failed

    async def ask(self, command: Command, account: str, *, since: float | None = None) -> Answer:
        """Return an answer to a command that was sent at `since` or later; by default now. Raises
        LocalManagerError."""
        if since is None and not command.keep_s:
            await self.budget.take()
            return await self._runner.run(command, account)
        key = (account, command)
        async with self._locks.setdefault(key, asyncio.Lock()):
            kept = self._kept.get(key)
            now = self._clock()
            oldest = min(now if since is None else since, now - command.keep_s)
            if kept is not None and kept.sent_at >= oldest:
                return kept.answer
            await self.budget.take()
            sent_at = self._clock()
            answer = None
            try:
                answer = await self._runner.run(command, account)
            finally:
                if answer is not None and not answer.status:
                    self._kept[key] = _Kept(answer=answer, sent_at=sent_at)
                elif not account:
                    self.forget()
            return answer

    async def act(self, command: Command, account: str) -> Answer:
        """Run a command that changes something. Raises LocalManagerError."""
        self.budget.count_act()
        return await self._runner.run(command, account)

    async def submit(self, command: Command, account: str) -> Answer:
        """Run a command of a submission: at once, unless the account's last one failed."""
        if account in self._failed:
            await self.budget.take()
        try:
            answer = await self.act(command, account)
        except LocalManagerError:
            self._failed.add(account)
            raise
        if answer.status:
            self._failed.add(account)
        else:
            self._failed.discard(account)
        return answer

    def forget(self) -> None:
        """Forget what was kept: something is not as it was."""
        self._kept.clear()
