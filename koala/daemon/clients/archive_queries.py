"""Paged reads of the journal's archive, for lists and reports.

Concurrency and memory are bounded: reads are interleaved page by page, each user has one long call
at a time, and few run in all.
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
    """Queries of archived jobs, which have left the core's state."""

    def __init__(self, journal: Journal, *, calls_per_user: int) -> None:
        self._journal = journal
        self._slots = SlowCallQueue(most=calls_per_user, at_once=READS_MAX)

    def slot(self, user: str) -> AbstractAsyncContextManager[None]:
        """Hold the user's slot for a long call, including its queries of the state. Raises
        ExhaustedError."""
        return self._slots.slot(user)

    async def read(self, wanted: ArchiveQuery) -> AsyncGenerator[ArchivePage, None]:
        """Yield the wanted jobs page by page, latest end first; the caller must hold the slot.

        Close the generator to stop early. To include all jobs that have left the state so far, ask
        the event loop first. Raises JournalError.
        """
        before: Place | None = wanted.before
        while before is not None:
            part = await self._journal.jobs(replace(wanted, before=before))
            before = part.before
            yield part


def owner_wanted(caller: Caller, owner: str) -> str | None:
    """Return the owner whose jobs to read when a caller asks for those of `owner` (empty: all);
    None for all owners."""
    return (owner or None) if caller.sees(owner) else caller.name
