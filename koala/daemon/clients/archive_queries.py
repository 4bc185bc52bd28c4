"""Long reads of the journal's archive, for lists and reports: a part at a time, with all others'
reads in between; one call of each user at a time, and few in all, so that neither memory nor others
have to wait for who asks for much.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from koala.daemon.auth.access_rules import Caller
from koala.daemon.quotas import SlowCallQueue
from koala.daemon.storage.archive import ArchivePage, ArchiveQuery, Place
from koala.daemon.storage.journal import Journal

READS_MAX = 2  # at a time


class ArchiveQueries:
    """The jobs that have left the state."""

    def __init__(self, journal: Journal, *, calls_per_user: int) -> None:
        self._journal = journal
        self._turns = SlowCallQueue(most=calls_per_user, at_once=READS_MAX)

    def slot(self, user: str) -> AbstractAsyncContextManager[None]:
        """While a user's long call is answered: all of it, also what it asks of the state. Raises
        ExhaustedError."""
        return self._turns.slot(user)

    async def read(self, wanted: ArchiveQuery) -> AsyncGenerator[ArchivePage, None]:
        """All that are wanted, the last that ended first; who has enough closes it. For who has the
        turn. What has left the state before is among them if the pump was asked something first.
        Raises JournalError."""
        before: Place | None = wanted.before
        while before is not None:
            part = await self._journal.jobs(replace(wanted, before=before))
            before = part.before
            yield part


def owner_wanted(caller: Caller, owner: str) -> str | None:
    """Whose jobs are to be read for a caller who asks for those of `owner` (empty: of all); None:
    those of all."""
    return (owner or None) if caller.sees(owner) else caller.name
